"""History: the snapshots of a table, and its tags, branches, consumers and streams."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakewright.storage.at_once import AtOnce
from lakewright.storage.errors import SchemaNotFound
from lakewright.storage.operations.references.branches import (
    Branch,
    DeleteBranchPlan,
    at_branch,
    create_branch,
    list_branches,
    plan_delete_branch,
    run_delete_branch,
)
from lakewright.storage.operations.references.consumers import (
    Consumer,
    delete_consumer,
    list_consumers,
    plan_expire_consumers,
    run_expire_consumers,
    set_consumer,
)
from lakewright.storage.operations.references.fast_forward import (
    FastForwardPlan,
    plan_fast_forward,
    run_fast_forward,
)
from lakewright.storage.operations.references.history_span import HistorySpan, history_span
from lakewright.storage.operations.references.rollback import (
    RollbackPlan,
    plan_rollback,
)
from lakewright.storage.operations.references.tags import (
    DeleteTagsPlan,
    create_due_tags,
    create_tag,
    plan_delete_tags,
    rename_tag,
    replace_tag,
    run_delete_tags,
)
from lakewright.storage.operations.respec.roll_back import roll_back
from lakewright.storage.operations.revert.revert import RevertPlan, plan_revert, run_revert
from lakewright.storage.operations.running.plan import Plan, ResultT, Runs, find_run
from lakewright.storage.operations.state.time_travel import Time, time_ms
from lakewright.storage.operations.streams.batches import (
    forget_stream,
    list_streams,
    settle_stream,
)

if TYPE_CHECKING:
    from lakewright.storage.table import Table

from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.stream import StreamRecord
from lakewright.storage.spec.tag import Tag

_RUNS: Runs = {
    DeleteTagsPlan: run_delete_tags,
    DeleteBranchPlan: run_delete_branch,
    FastForwardPlan: run_fast_forward,
    RollbackPlan: roll_back,
    RevertPlan: run_revert,
}


@dataclass(frozen=True)
class History:
    """Snapshots, tags, branches, rollback, revert, consumers and streams of a table.

    `rollback()` does the work, `rollback(dry_run=True)` and `plan_rollback()` return its plan.
    """

    table: Table

    def run(self, plan: Plan[ResultT]) -> ResultT:
        """Carry a plan out.

        Raises:
            InvalidRequestError: the plan is for another table.
            StalePlan: the table has changed since the plan.
        """
        return find_run(_RUNS, self.table.table_files, plan)(self.table.table_files, plan)

    def latest_snapshot(self) -> Snapshot | None:
        return self.table.table_files.snapshots.latest()

    def span(self) -> HistorySpan:
        """How much history there is; counted by names, so that its length costs a listing."""
        return history_span(self.table.table_files)

    def created_ms(self) -> int | None:
        """When the table was created; None if its first schema is gone or does not tell."""
        try:
            return self.table.table_files.schemas.read(0).time_millis or None
        except SchemaNotFound:
            return None

    def snapshots(self) -> tuple[Snapshot, ...]:
        """The existing snapshots, oldest first."""
        return tuple(reversed(list(self.table.table_files.snapshots.newest_first())))

    def changelogs(self) -> tuple[Snapshot, ...]:
        """Expired snapshots whose changelogs are kept, oldest first."""
        return tuple(self.table.table_files.references.changelogs())

    def tags(self) -> tuple[Tag, ...]:
        """Tags in the order of their snapshots."""
        return tuple(self.table.table_files.references.tags().values())

    def create_tag(
        self, name: str, *, snapshot: int | None = None, time_retained_ms: int | None = None
    ) -> Tag:
        """Name a snapshot, the latest by default; see `references.tags`."""
        return create_tag(
            self.table.table_files, name, snapshot_id=snapshot, time_retained_ms=time_retained_ms
        )

    def replace_tag(
        self, name: str, *, snapshot: int | None = None, time_retained_ms: int | None = None
    ) -> Tag:
        """Point a tag at another snapshot."""
        return replace_tag(
            self.table.table_files, name, snapshot_id=snapshot, time_retained_ms=time_retained_ms
        )

    def rename_tag(self, name: str, new_name: str) -> Tag:
        return rename_tag(self.table.table_files, name, new_name)

    def create_due_tags(self) -> tuple[str, ...]:
        """Make the automatic tags that are due, as every commit does; returns their names."""
        return create_due_tags(self.table.table_files)

    def plan_delete_tags(self, *names: str) -> DeleteTagsPlan:
        """Delete tags and the files that only they keep; see `references.tags`."""
        return plan_delete_tags(self.table.table_files, names)

    delete_tags = AtOnce(plan_delete_tags)

    def branches(self) -> tuple[Branch, ...]:
        """Branches by name, without main."""
        return list_branches(self.table.table_files)

    def at_branch(self, name: str) -> Table:
        """The table as it is on a branch, `main` or another."""
        return replace(self.table, table_files=at_branch(self.table.table_files, name))

    def create_branch(
        self, name: str, *, tag: str | None = None, snapshot: int | None = None
    ) -> Table:
        """Create a branch, empty or at a tag or snapshot; see `references.branches`."""
        files = create_branch(self.table.table_files, name, tag=tag, snapshot_id=snapshot)
        return replace(self.table, table_files=files)

    def plan_delete_branch(self, name: str) -> DeleteBranchPlan:
        """Delete a branch and the files that only it keeps."""
        return plan_delete_branch(self.table.table_files, name)

    delete_branch = AtOnce(plan_delete_branch)

    def plan_fast_forward(self, name: str) -> FastForwardPlan:
        """Replace the state of main by that of a branch."""
        return plan_fast_forward(self.table.table_files, name)

    fast_forward = AtOnce(plan_fast_forward)

    def plan_rollback(
        self,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        time: Time | None = None,
    ) -> RollbackPlan:
        """Return the table to a snapshot, a tag or a time, and delete later snapshots."""
        return plan_rollback(
            self.table.table_files,
            snapshot_id=snapshot,
            tag=tag,
            as_of_ms=None if time is None else time_ms(time),
        )

    rollback = AtOnce(plan_rollback)

    def plan_revert(self, *snapshots: int) -> RevertPlan:
        """Take back what snapshots did, and keep what others have committed since."""
        return plan_revert(self.table.table_files, snapshots)

    revert = AtOnce(plan_revert)

    def consumers(self) -> tuple[Consumer, ...]:
        """Readers of changes by name, and how far they are."""
        return list_consumers(self.table.table_files)

    def set_consumer(self, name: str, next_snapshot_id: int) -> None:
        set_consumer(self.table.table_files, name, next_snapshot_id)

    def delete_consumer(self, name: str) -> None:
        delete_consumer(self.table.table_files, name)

    def expire_consumers(self, *, older_than_ms: int | None = None) -> tuple[str, ...]:
        """Delete consumers that have not moved since a time; see `references.consumers`."""
        plan = plan_expire_consumers(self.table.table_files, older_than_ms=older_than_ms)
        run_expire_consumers(self.table.table_files, plan)
        return tuple(each.name for each in plan)

    # --- streams --------------------------------------------------------------------------------

    def streams(self) -> tuple[StreamRecord, ...]:
        """The streams that wrote into the table, with the last batch of each."""
        return list_streams(self.table.table_files)

    def settle_stream(self, stream: str) -> StreamRecord:
        """Say that the table holds the batch about which the sink could not tell."""
        return settle_stream(self.table.table_files, stream)

    def forget_stream(self, stream: str) -> StreamRecord:
        """Delete what is known of a stream that is over; a new one may then take its checkpoint."""
        return forget_stream(self.table.table_files, stream)
