"""History: the snapshots of a table, and its tags, branches, consumers and streams."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakewright.storage.errors import InvalidRequestError, SchemaNotFound
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.named_errors import names_errors
from lakewright.storage.operations.commit.stream_positions import (
    carry_into,
    forget_stream,
    list_streams,
)
from lakewright.storage.operations.references.backup import (
    BackupFile,
    backup_files,
    check_backup,
    restore_backup,
)
from lakewright.storage.operations.references.branches import (
    Branch,
    DeleteBranchOptions,
    at_branch,
    create_branch,
    list_branches,
    plan_delete_branch,
    run_delete_branch,
)
from lakewright.storage.operations.references.consumers import (
    Consumer,
    ExpireConsumersOptions,
    delete_consumer,
    list_consumers,
    plan_expire_consumers,
    run_expire_consumers,
    set_consumer,
)
from lakewright.storage.operations.references.fast_forward import (
    FastForwardOptions,
    plan_fast_forward,
    run_fast_forward,
)
from lakewright.storage.operations.references.history_span import HistorySpan, history_span
from lakewright.storage.operations.references.rollback import RollbackOptions, plan_rollback
from lakewright.storage.operations.references.tags import (
    DeleteTagsOptions,
    DeleteTagsPlan,
    create_due_tags,
    create_tag,
    plan_delete_tags,
    rename_tag,
    replace_tag,
    run_delete_tags,
)
from lakewright.storage.operations.respec.roll_back import roll_back
from lakewright.storage.operations.revert.revert import (
    RevertOptions,
    plan_revert,
    run_revert,
)
from lakewright.storage.operations.running.effects import Effect
from lakewright.storage.operations.running.plan import Plan, ResultT
from lakewright.storage.operations.running.verb_options import GRACE_MS

if TYPE_CHECKING:
    from lakewright.storage.table import Table

from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.stream import StreamRecord
from lakewright.storage.spec.tag import Tag
from lakewright.storage.verb import Verb, verb_of


def _tags(*names: str, grace_ms: int = GRACE_MS) -> DeleteTagsOptions:
    return DeleteTagsOptions(names, grace_ms)


def _plan_delete_tags(files: TableFiles, options: DeleteTagsOptions) -> DeleteTagsPlan:
    """Delete tags and the files that only they keep; see `references.tags`."""
    if not options.names:
        raise InvalidRequestError(f"say which tags of {files.name} are to go: no name is given")
    return plan_delete_tags(files, options.names, grace_ms=options.grace_ms)


def _snapshots(*snapshots: int) -> RevertOptions:
    return RevertOptions(snapshots)


@names_errors
@dataclass(frozen=True)
class History:
    """Snapshots, tags, branches, rollback, revert, consumers and streams of a table.

    `rollback()` does the work, `rollback(dry_run=True)` and `plan_rollback()` return its plan.
    """

    table: Table

    delete_tags = Verb(
        "delete_tags",
        "delete tags, and the files that they alone keep",
        _tags,
        _plan_delete_tags,
        run_delete_tags,
        not_undone="what it deleted was put back since, or is collected",
    )
    plan_delete_tags = delete_tags.planning()
    delete_branch = Verb(
        "delete_branch",
        "delete a branch, and the files that it alone keeps",
        DeleteBranchOptions,
        plan_delete_branch,
        run_delete_branch,
        not_undone="what it deleted was put back since, or is collected",
    )
    plan_delete_branch = delete_branch.planning()
    fast_forward = Verb(
        "fast_forward",
        "let the table become what a branch is",
        FastForwardOptions,
        plan_fast_forward,
        run_fast_forward,
        not_undone="the snapshots that a fast-forward replaces are deleted permanently",
    )
    plan_fast_forward = fast_forward.planning()
    rollback = Verb(
        "rollback",
        "return to an earlier snapshot; later ones are deleted",
        RollbackOptions,
        plan_rollback,
        roll_back,
        not_undone="the snapshots that a rollback deletes cannot be restored once they are "
        "collected, or a commit followed",
    )
    plan_rollback = rollback.planning()
    expire_consumers = Verb(
        "expire_consumers",
        "forget readers of changes that have not moved for long",
        ExpireConsumersOptions,
        plan_expire_consumers,
        run_expire_consumers,
        effect=Effect.EXPIRES,
        not_undone="a consumer is set again with `lakewright consumer set`",
    )
    plan_expire_consumers = expire_consumers.planning()
    revert = Verb(
        "revert",
        "take back what snapshots did; later ones stay",
        _snapshots,
        plan_revert,
        run_revert,
    )
    plan_revert = revert.planning()

    @property
    def table_files(self) -> TableFiles:
        return self.table.table_files

    def run(self, plan: Plan[ResultT]) -> ResultT:
        """Carry a plan out.

        Raises:
            InvalidRequestError: the plan is for another table.
            StalePlan: the table has changed since the plan.
        """
        done: ResultT = verb_of(History, plan).carry_out(self.table_files, plan)
        return done

    def latest_snapshot(self) -> Snapshot | None:
        return self.table_files.snapshots.latest()

    def span(self) -> HistorySpan:
        """How much history there is; counted by names, so that its length costs a listing."""
        return history_span(self.table_files)

    def created_ms(self) -> int | None:
        """When the table was created; None if its first schema is gone or does not tell."""
        try:
            return self.table_files.schemas.read(0).time_millis or None
        except SchemaNotFound:
            return None

    def snapshots(self) -> tuple[Snapshot, ...]:
        """The existing snapshots, oldest first."""
        return tuple(reversed(list(self.table_files.snapshots.newest_first())))

    def changelogs(self) -> tuple[Snapshot, ...]:
        """Expired snapshots whose changelogs are kept, oldest first."""
        return tuple(self.table_files.references.changelogs())

    def tags(self) -> tuple[Tag, ...]:
        """Tags in the order of their snapshots."""
        return tuple(self.table_files.references.tags().values())

    def create_tag(
        self, name: str, *, snapshot: int | None = None, time_retained_ms: int | None = None
    ) -> Tag:
        """Name a snapshot, the latest by default; see `references.tags`."""
        return create_tag(
            self.table_files, name, snapshot_id=snapshot, time_retained_ms=time_retained_ms
        )

    def replace_tag(
        self,
        name: str,
        *,
        snapshot: int | None = None,
        time_retained_ms: int | None = None,
        grace_ms: int = 0,
    ) -> Tag:
        """Point a tag at another snapshot."""
        return replace_tag(
            self.table_files,
            name,
            snapshot_id=snapshot,
            time_retained_ms=time_retained_ms,
            grace_ms=grace_ms,
        )

    def rename_tag(self, name: str, new_name: str) -> Tag:
        return rename_tag(self.table_files, name, new_name)

    def create_due_tags(self) -> tuple[str, ...]:
        """Make the automatic tags that are due, as every commit does; returns their names."""
        return create_due_tags(self.table_files)

    def branches(self) -> tuple[Branch, ...]:
        """Branches by name, without main."""
        return list_branches(self.table_files)

    def at_branch(self, name: str) -> Table:
        """The table as it is on a branch, `main` or another."""
        return replace(self.table, table_files=at_branch(self.table_files, name))

    def create_branch(
        self, name: str, *, tag: str | None = None, snapshot: int | None = None
    ) -> Table:
        """Create a branch, empty or at a tag or snapshot; see `references.branches`."""
        files = create_branch(self.table_files, name, tag=tag, snapshot_id=snapshot)
        carry_into(files, self.table_files)
        return replace(self.table, table_files=files)

    def backup_files(self, tag: str) -> tuple[BackupFile, ...]:
        """Every file of the table that a copy of the state of a tag needs, data files first.

        Raises:
            TagNotFound: the table has no such tag.
            UnsupportedError: data files lie outside of the table.
        """
        return backup_files(self.table_files, tag)

    def check_backup(self, tag: str) -> tuple[BackupFile, ...]:
        """Check that every file of a tag is here, and as long as it should be; these files.

        Raises:
            CorruptionError: files are missing or of another length.
            TagNotFound: the copy has no such tag.
        """
        return check_backup(self.table_files, tag)

    def restore_backup(self, tag: str) -> Snapshot:
        """Make the state of a tag the only snapshot of a copy that has none.

        Raises:
            AlreadyExistsError: the table has a snapshot.
            CorruptionError, TagNotFound: as `check_backup`; nothing was written.
        """
        return restore_backup(self.table_files, tag)

    def consumers(self) -> tuple[Consumer, ...]:
        """Readers of changes by name, and how far they are."""
        return list_consumers(self.table_files)

    def set_consumer(self, name: str, next_snapshot_id: int) -> None:
        set_consumer(self.table_files, name, next_snapshot_id)

    def delete_consumer(self, name: str) -> None:
        delete_consumer(self.table_files, name)

    # --- streams --------------------------------------------------------------------------------

    def streams(self) -> tuple[StreamRecord, ...]:
        """The streams that wrote into the table, with the last batch of each."""
        return list_streams(self.table_files)

    def forget_stream(self, stream: str) -> StreamRecord:
        """Let the table forget a stream that is over; a new one may then take its checkpoint."""
        return forget_stream(self.table_files, stream)
