"""Changes the partition keys of a primary-key table: rows are rewritten, then swapped in.

The trimmed primary key, which orders the rows of a file and chooses their buckets, is the primary
key without the partition keys. So it changes with them, and no file can stay.

1. Write the rows of each partition to new files, by the new keys, and the manifests that the swap
   publishes (`staged_table.py`). Readers and writers go on. What other commits change meanwhile is
   written again, in rounds. After three rounds in vain, a snapshot of the same files lets
   Lakewright's committers wait for the next one.
2. If nothing changed since the last round, commit the new files as bridged entries, which every
   client reads alike under the old schema and the new (`commit/bridged_base.py`), and once more
   without the removal of the old files.
3. Create the schema with the new keys.
4. Commit the manifests of the new keys.
5. Compare the files of the snapshots with those that were written.

Lakewright's committers wait from 2 to 4, which write no entry of a file. If the process dies there,
the next committer ends the change: it restores the old files before 3, and carries out 4 after it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from lakewright.storage.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    FilesGone,
    InvalidRequestError,
    RetriesExhausted,
    SchemaMoved,
    StorageError,
    UnsupportedError,
    VerificationFailed,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.commit_loop import commit_bridging, end_change_of_keys
from lakewright.storage.operations.references.sweep import sweep_after_failure
from lakewright.storage.operations.respec.cut_over import hold_writers, keys_stand
from lakewright.storage.operations.respec.keyed_checks import with_primary_key
from lakewright.storage.operations.respec.respec_plan import Rewritten
from lakewright.storage.operations.respec.schemas import Schemas, put_schemas, unchanged
from lakewright.storage.operations.respec.staged_table import StagedTable
from lakewright.storage.operations.respec.staging import Staging
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.state.latest import is_latest
from lakewright.storage.operations.state.staged_changes import can_go_on, read_changes
from lakewright.storage.operations.state.table_state import ANY_KEYS, TableState, latest_state
from lakewright.storage.operations.write.verify import VerifyLevel
from lakewright.storage.spec.commit import Change
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import Snapshot

# How often rows that other commits changed are written again before a run gives up, and after how
# many of these rounds writers wait.
_MOST_ROUNDS = 10
_ROUNDS_BESIDE_WRITERS = 3

# After these no run can go on from what is staged.
_REFUSALS = (InvalidRequestError, UnsupportedError, VerificationFailed, SchemaMoved)


class ChangeTakenBack(CommitConflictError):
    """Another client committed before the schema changed, so the old files were restored."""


def _taken_back(files: TableFiles) -> ChangeTakenBack:
    return ChangeTakenBack(
        f"another client committed to {files.name} while its partition keys changed, or ended the "
        "change; run it again when fewer writers commit"
    )


@dataclass
class KeyedChange:
    """One step: keys go from the end of the list, or come there.

    What was rewritten, and the snapshots made, are added to those given.
    """

    files: TableFiles
    keys: tuple[str, ...]
    engine: Engine
    verify: VerifyLevel
    primary_key: tuple[str, ...] | None
    rewritten: Rewritten
    snapshot_ids: list[int]
    _staged: StagedTable | None = None
    _run_ids: list[str] = field(default_factory=list)

    def carry_out(self) -> TableFiles:
        """Give the table the keys; returns it with them.

        Raises:
            SchemaMoved: another client changed the schema meanwhile; nothing has changed.
            CommitConflictError: other clients commit faster than rows are rewritten.
            VerificationFailed: rows written differ from rows read.
        """
        base_id = self.files.snapshots.latest_id()
        try:
            return self._carried_out()
        except CommitOutcomeUnknownError:
            raise
        except BaseException as error:
            # A process that is interrupted may have made a snapshot that names the manifests.
            if self._staged is not None and isinstance(error, StorageError):
                self._staged.discard()
            with suppress(StorageError):
                self._clean_up(error, base_id)
            raise

    def _clean_up(self, error: BaseException, base_id: int | None) -> None:
        """Delete what no run can go on from: all, if the change is refused or is published."""
        kept: frozenset[str] = frozenset()
        if self._staged is not None:
            staging = self._staged.staging
            if self._staged.is_published:
                staging.end()
            elif staging.is_over():
                # The other process knows what it took up; orphan removal takes what it did not.
                return
            elif isinstance(error, _REFUSALS):
                staging.give_up()
            else:
                kept = staging.read_again(self._staged.names)
        sweep_after_failure(self.files, self._run_ids, since_snapshot_id=base_id, but=kept)

    def _carried_out(self) -> TableFiles:
        for number in range(_MOST_ROUNDS):
            files = self.files
            if files.snapshots.latest() is None:
                only = Schemas(replace(self._schema_after(), id=files.schema.id + 1), (), {})
                return put_schemas(files, self.keys, only)
            if self._staged is None:
                self._staged = self._begin()
            if number >= _ROUNDS_BESIDE_WRITERS:
                self._hold_writers()
            self._staged.catch_up()
            try:
                return self._swap(self._staged)
            except ChangeTakenBack:
                # Snapshots name the staged files now, and new ones may name another schema.
                self._staged.staging.end()
                self._staged = None
                self.files = unchanged(files)
            except FilesGone:
                if self._staged.is_published or is_latest(files, self._staged.at):
                    raise
        raise CommitConflictError(
            f"other clients committed to {self.files.name} {_MOST_ROUNDS} times while its rows "
            "were written under new partition keys; what is staged stays: run it again when fewer "
            "writers commit"
        )

    @property
    def _goes(self) -> bool:
        return len(self.keys) < len(self.files.schema.partition_keys)

    def _schema_after(self) -> TableSchema:
        """The schema with the new keys.

        Where keys go, entries need an older schema with the new keys; see `_with_helper`.
        """
        schema = with_primary_key(self.files, self.keys, self.primary_key)
        first_id = self.files.schema.id + 1
        return replace(
            schema, id=first_id + 2 if self._goes else first_id, partition_keys=self.keys
        )

    def _begin(self) -> StagedTable:
        changes = sorted(read_changes(self.files, []).items())
        before = changes[-1][1] if changes else None
        if before is not None and before.keys == self.keys and can_go_on(self.files, before):
            # Where keys go, the run that was stopped may have made a copy of this schema.
            self.files = self.files.at_schema(before.schema_id)
        files = self.files
        now = replace(files, schema=self._schema_after())
        staging = Staging.begun(files, now)
        self.snapshot_ids += staging.snapshot_ids
        return StagedTable(
            files,
            now,
            files.schema.id + 1 if self._goes else files.schema.id,
            self.engine,
            self.verify,
            self._run_ids,
            self.rewritten,
            staging,
        )

    def _hold_writers(self) -> None:
        """Let other committers wait while the last of what they changed is written."""
        held = hold_writers(replace(self.files, holding=self.files.env.new_id())).snapshot
        self.snapshot_ids += [] if held is None else [held.id]

    def _with_helper(self) -> TableFiles:
        """The table under its latest schema, with the schema that bridged entries name.

        Its keys are those that both lists begin with. Where keys go, such a schema is created,
        below a copy of the present one, so that it is never the latest.
        """
        files = self.files
        if not self._goes:
            return files
        helper = replace(files.schema, id=files.schema.id + 1, partition_keys=self.keys)
        copy = replace(files.schema, id=files.schema.id + 2, time_millis=files.env.now_ms())
        if files.schemas.latest_id(table=files.name) == copy.id:
            # Of an earlier round.
            return files.at_schema(copy.id)
        old_keys = files.schema.partition_keys
        return put_schemas(files, old_keys, Schemas(copy, (helper,), {}))

    def _swap(self, staged: StagedTable) -> TableFiles:
        files = self._with_helper()
        first = commit_bridging(files, staged.replacing).snapshot
        assert first is not None
        staged.is_published = True
        self.snapshot_ids.append(first.id)
        try:
            second = self._without_old_files(files, staged, first)
            self.snapshot_ids.append(second.id)
            present = self._put_new_keys(files, staged.now)
            last = self._bring_new_entries(files, present, staged, second)
        except (CommitOutcomeUnknownError, RetriesExhausted):
            raise
        except ChangeTakenBack:
            end_change_of_keys(files.at_schema(files.schemas.latest_id(table=files.name)))
            raise
        except BaseException:
            with suppress(StorageError):
                self._end(files.at_schema(files.schemas.latest_id(table=files.name)))
            raise
        staged.discard_parts()
        staged.staging.end()
        # Writers wait no more.
        for snapshot in (first, *last):
            staged.check_swapped(present, snapshot)
        for each in staged.moved:
            self.rewritten.wrote((new.entry.file for new in each.staged), each.nulled_values)
        return present

    def _without_old_files(
        self, files: TableFiles, staged: StagedTable, first: Snapshot
    ) -> Snapshot:
        """Commit the bridged files without the removal of others, whose rows have the old keys."""
        second: Snapshot | None = None
        with suppress(FilesGone):
            second = commit_bridging(files, partial(self._after, first, staged.alone)).snapshot
        if second is None or not is_latest(files, second):
            # The end of the change keeps the rows of the other client.
            raise _taken_back(files)
        return second

    def _after(
        self, base: Snapshot, change: Callable[[TableState, Snapshot], Change], state: TableState
    ) -> Change:
        """A change that is made on a snapshot of this run only."""
        latest = state.snapshot
        if latest is None or latest.delta_manifest_list != base.delta_manifest_list:
            raise FilesGone(
                f"another client committed to {self.files.name} while its partition keys changed"
            )
        return change(state, latest)

    def _bring_new_entries(
        self, files: TableFiles, present: TableFiles, staged: StagedTable, second: Snapshot
    ) -> list[Snapshot]:
        """Commit the last snapshot, of the new schema; what it was, if it holds no other rows.

        Raises:
            ChangeTakenBack: rows of another client brought the former keys back.
            CommitConflictError: another process restored the old files.
        """
        with suppress(FilesGone, SchemaMoved):
            last = commit_bridging(present, partial(self._after, second, staged.exact)).snapshot
            assert last is not None
            self.snapshot_ids.append(last.id)
            return [last]
        try:
            ended = end_change_of_keys(present)
        except UnsupportedError as error:
            if self._is_done(present):
                # Another process has brought the new entries, and late files came after it.
                return []
            # This process stood still, and another one restored the old files meanwhile.
            old = files.schema.partition_keys
            back = replace(files.schema, id=present.schema.id + 1)
            put_schemas(present, old, Schemas(back, (), {}))
            raise CommitConflictError(
                f"another client ended the change of the partition keys of {files.name}; run "
                "it again when fewer writers commit"
            ) from error
        self._check_not_taken_back(present)
        if ended.snapshot is not None:
            self.snapshot_ids.append(ended.snapshot.id)
        return []

    def _put_new_keys(self, files: TableFiles, now: TableFiles) -> TableFiles:
        """Create the schema, unless another process has restored the old files.

        Raises:
            ChangeTakenBack: it has, since this one stood still.
            SchemaMoved: another client changed the schema.
        """
        schema = replace(now.schema, time_millis=files.env.now_ms())
        try:
            return put_schemas(files, self.keys, Schemas(schema, (), {}))
        except SchemaMoved as error:
            unchanged(files)
            raise _taken_back(files) from error

    def _check_not_taken_back(self, present: TableFiles) -> None:
        """Raise if the end of the change restored the former keys with rows of another client."""
        latest_id = present.schemas.latest_id(table=present.name)
        if present.at_schema(latest_id).schema.partition_keys != self.keys:
            raise _taken_back(present)

    def _is_done(self, present: TableFiles) -> bool:
        live = latest_state(present, takes=ANY_KEYS).entries
        keys = {present.at_schema(each.file.schema_id).schema.partition_keys for each in live}
        return self.keys in keys

    def _end(self, files: TableFiles) -> None:
        """End a change that failed, if it is under way."""
        if not keys_stand(files):
            end_change_of_keys(files)
