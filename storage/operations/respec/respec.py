"""Changes the partition keys of a live table; clients that open it read it at every moment.

1. Plan: find the values of the new keys in each live file (`key_values.py`). A file with one value
   is restated where it lies, a file with several is split first (`split_files.py`).
2. Run: split. Then cut over, one step for keys that go at the end of the list and one for keys
   that come there (`cut_over.py`). A replaced key goes before its replacement comes, so between
   the two steps the table has the keys that stay.
3. Files that others commit meanwhile are split and restated, too.

A run that is stopped leaves a table that every client reads. Planned again, it goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lakewright.storage.errors import (
    CommitConflictError,
    InvalidRequestError,
    SchemaMoved,
    UnsupportedError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.commit_loop import end_change_of_keys
from lakewright.storage.operations.read.key_values import KeyRow, KeyValues
from lakewright.storage.operations.respec.cut_over import cut_over, hold_writers, keys_stand
from lakewright.storage.operations.respec.keyed import KeyedChange
from lakewright.storage.operations.respec.keyed_checks import (
    check_rows_have_key,
    check_told,
    steps_between,
    with_primary_key,
)
from lakewright.storage.operations.respec.late_appends import LateAppends, unfit_entries
from lakewright.storage.operations.respec.late_files import LateFiles
from lakewright.storage.operations.respec.moved_table import find_moved, name_places_of_today
from lakewright.storage.operations.respec.prepared import Prepared, SeveralValues
from lakewright.storage.operations.respec.respec_checks import (
    check_columns_stay,
    check_keys,
    check_nothing_waits,
    check_overwrites,
    has_files_of_others,
    wanted_keys,
)
from lakewright.storage.operations.respec.respec_plan import (
    MOST_FILES,
    MOST_PARTITIONS,
    RespecPlan,
    RespecResult,
    Rewritten,
    becomings,
    check_size,
    count_files_after,
    layout_of,
)
from lakewright.storage.operations.respec.schemas import unchanged
from lakewright.storage.operations.respec.split_files import planned_splits, split_files
from lakewright.storage.operations.respec.staging import give_up, staged_so_far
from lakewright.storage.operations.rewrite.compaction_plan import CompactionPlan
from lakewright.storage.operations.running.engine import Engine, engine_or_local
from lakewright.storage.operations.running.verb_options import (
    COUNT,
    FLAG,
    PARTITIONS,
    TEXT,
    Partitions,
    names,
    option,
)
from lakewright.storage.operations.state.keys_of_files import entries_of_other_keys, late_entries
from lakewright.storage.operations.state.latest import stale_if_replaced
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.operations.state.rewrite_schema import check_current_schema
from lakewright.storage.operations.state.table_state import ANY_KEYS, TableState, latest_state
from lakewright.storage.operations.write.verify import VerifyLevel
from lakewright.storage.spec.arguments import listed_names, listed_partitions, whole_number
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.schema_difference import differences
from lakewright.storage.spec.snapshot import Snapshot

_CHANGE = "a change of its partition keys"
# How often files of other commits are split before a run gives up. A round costs what they do.
_MOST_ROUNDS = 50
# So many differences of two schemas stand in a message.
_MOST_SHOWN = 5
# After so many rounds writers wait until the last files are split.
_ROUNDS_BESIDE_WRITERS = 3


@dataclass(frozen=True)
class RespecOptions:
    """Which keys a table gets, and what is done for them."""

    keys: Sequence[str] | None = option(
        names(may_be_none=True),
        None,
        "The new partition keys of the table, in order, all partitions at once; empty for "
        "no partitions.",
    )
    partitions: Partitions | None = option(
        PARTITIONS,
        None,
        "With a split only: the partitions whose files are split, by the present keys.",
    )
    add: Sequence[str] = option(
        names(), (), "Instead of all keys: those to add, behind the present ones."
    )
    drop: Sequence[str] = option(names(), (), "Instead of all keys: those to drop.")
    max_partitions: int = option(
        COUNT, MOST_PARTITIONS, f"Refuse more partitions than this (default: {MOST_PARTITIONS:,})."
    )
    max_files: int = option(
        COUNT, MOST_FILES, f"Refuse more files than this (default: {MOST_FILES:,})."
    )
    moved_from: str | None = option(
        TEXT,
        None,
        "Change no keys: the table, or its warehouse, was moved or copied from this URI or path, "
        "and its manifests name files there. Name them where they lie now.",
    )
    primary_key: Sequence[str] | None = option(
        names(may_be_none=True),
        None,
        "The new primary key of the table: the present one, with columns that become "
        "partition keys, or without those that go.",
    )
    late_rows_win: bool = option(
        FLAG,
        False,
        "Of a primary-key table: where it is unknown which came later, rows that another client "
        "committed under former keys or rows of the present ones, count the former as the latest.",
    )
    keep_staged: bool = option(
        FLAG,
        False,
        "With the present keys: leave what was staged for another change that was stopped, which "
        "they would give up.",
    )


def plan_respec(
    files: TableFiles, options: RespecOptions, *, engine: Engine | None = None
) -> RespecPlan:
    """Plan to give a table these partition keys; none make it unpartitioned.

    Give all `keys` in their order, or those to `drop`, and to `add` at the end; use
    `Table.refresh()` after the run. The columns of files whose statistics do not prove one value
    are read, on `engine`. With `partitions`, only split the files of these, which a later change
    then restates. With `moved_from`, the former place of a table that was moved or copied, and the
    present keys, its files are named where they lie now. With `primary_key`, columns that become
    partition keys join the primary key, or those that go leave it. With `late_rows_win`, rows that
    another client committed to a primary-key table under former keys count as the latest, where it
    is unknown whether rows of the present keys came later. With `keep_staged`, a change to the
    present keys leaves what was staged for another one.

    Raises:
        InvalidRequestError: a key cannot be a partition key, or there would be more partitions or
            files than the limits allow.
        UnsupportedError: the table, or something that is under way, rules the change out.
        SchemaMoved: the schema changed since the table was opened.
    """
    keys = wanted_keys(files, options.keys, add=options.add, drop=options.drop)
    partitions = listed_partitions(options.partitions, "partitions")
    for name, limit in (
        ("max_partitions", options.max_partitions),
        ("max_files", options.max_files),
    ):
        if whole_number(limit, name) < 1:
            raise InvalidRequestError(f"{name} is {limit}; give at least 1")
    check_current_schema(files)
    if options.moved_from is not None:
        return _plan_moved(files, keys, options.moved_from)
    primary = (
        None if options.primary_key is None else listed_names(options.primary_key, "primary_key")
    )
    check_keys(files, keys, primary)
    check_nothing_waits(files)
    files = files.reading_once()
    state = latest_state(files, takes=ANY_KEYS)
    snapshot, entries = state.snapshot, state.entries
    stands = keys_stand(files)
    if not stands or has_files_of_others(files, entries):
        check_overwrites(files)
    if partitions is not None:
        if files.schema.has_primary_key:
            raise UnsupportedError(
                f"{files.name} has a primary key, so its files are rewritten in one go, and none "
                "is split before; change the keys without naming partitions"
            )
        wanted = PartitionFilter.of_specs(files, partitions)
        entries = [entry for entry in entries if wanted.takes(entry)]
    values = KeyValues(files, files.schema.fields_of(keys))
    with stale_if_replaced(files, lambda: snapshot, _CHANGE):
        values.look(entries, engine_or_local(engine, files.env))
    check_columns_stay(files, keys, entries)
    late = late_entries(files, entries)
    _check_keyed(files, snapshot, entries, late, keys, primary)
    split, restate = _divided(files, entries, late, values, stands=stands)
    splits = _planned_splits(files, split, late, keys, partitions)
    steps = () if partitions is not None else steps_between(files.schema.partition_keys, keys)
    staged, gives_up, damaged = staged_so_far(files, snapshot, entries, steps, keys, primary)
    if options.keep_staged and not steps:
        gives_up, damaged = 0, ()
    plan = RespecPlan(
        table=files.name,
        schema_id=files.schema.id,
        snapshot_id=None if snapshot is None else snapshot.id,
        keys=keys,
        former_keys=files.schema.partition_keys,
        steps=steps,
        restate=layout_of(restate),
        split=layout_of(split),
        splits=splits,
        files_after=count_files_after(files, restate, split, values, splits),
        becomes=becomings(files, entries, values),
        staged=staged,
        gives_up=gives_up,
        damaged=damaged,
        partition_count=len({r for e in entries for r in values.found[e.file.file_name]}),
        most_partitions=options.max_partitions,
        most_files=options.max_files,
        is_keyed=files.schema.has_primary_key,
        late_rows_win=options.late_rows_win,
        keep_staged=options.keep_staged,
        primary_key=primary,
        crosses_partitions=replace(
            with_primary_key(files, keys, primary), partition_keys=keys
        ).crosses_partitions,
    )
    check_size(plan)
    return plan


def _check_keyed(
    files: TableFiles,
    snapshot: Snapshot | None,
    entries: Sequence[ManifestEntry],
    late: Sequence[ManifestEntry],
    keys: tuple[str, ...],
    primary_key: tuple[str, ...] | None,
) -> None:
    """Check that rows of a primary-key table have a place under the keys."""
    if not files.schema.has_primary_key:
        return
    if keys != files.schema.partition_keys:
        check_told(files, _without(entries, late))
    if not late:
        check_rows_have_key(files, snapshot, with_primary_key(files, keys, primary_key))


def _divided(
    files: TableFiles,
    entries: Sequence[ManifestEntry],
    late: Sequence[ManifestEntry],
    values: KeyValues,
    *,
    stands: bool,
) -> tuple[Sequence[ManifestEntry], Sequence[ManifestEntry]]:
    """The files whose rows are written anew under the keys of `values`, and those that stay.

    The primary key without the partition keys changes in every file. Where the table `stands` with
    these keys, only late files concern it.
    """
    keyed, own = files.schema.has_primary_key, files.schema.partition_keys
    same = tuple(field.name for field in values.fields) == own
    if same and stands:
        return late, []
    if same:
        split = late if keyed else unfit_entries(files, entries, values)
    else:
        several = (entry for entry in entries if values.single(entry.file) is None)
        split = entries if keyed else list(several)
    return split, _without(entries, split)


def _planned_splits(
    files: TableFiles,
    split: Sequence[ManifestEntry],
    late: Sequence[ManifestEntry],
    keys: tuple[str, ...],
    partitions: Sequence[Mapping[str, object]] | None,
) -> CompactionPlan:
    """The splits of files in their partitions; late ones lie in partitions of other keys."""
    apart = {key.file.file_name for key in entries_of_other_keys(files, split)}
    names = set() if late else {each.file.file_name for each in split} - apart
    return planned_splits(files, names, keys, partitions)


def _without(
    entries: Sequence[ManifestEntry], others: Sequence[ManifestEntry]
) -> list[ManifestEntry]:
    apart = {each.identity for each in others}
    return [entry for entry in entries if entry.identity not in apart]


def _plan_moved(files: TableFiles, keys: tuple[str, ...], moved_from: str) -> RespecPlan:
    """Plan to name files where they lie, in a table that keeps its keys."""
    own = files.schema.partition_keys
    if keys != own:
        raise InvalidRequestError(
            f"{files.name} has the partition keys {', '.join(own) or 'none'}; let its files be "
            "named where they lie (moved_from) with these, and change the keys afterwards"
        )
    moved = find_moved(files, moved_from)
    return RespecPlan(
        table=files.name,
        schema_id=files.schema.id,
        snapshot_id=files.snapshots.latest_id(),
        keys=keys,
        former_keys=keys,
        steps=(),
        restate=layout_of(moved),
        split=layout_of(()),
        splits=planned_splits(files, set(), keys),
        files_after=len(moved),
        becomes=(),
        moved_from=moved_from,
    )


def run_respec(
    files: TableFiles,
    plan: RespecPlan,
    engine: Engine,
    *,
    verify: VerifyLevel = VerifyLevel.CHECKSUMS,
) -> RespecResult:
    """Carry a plan out: split, then cut over. A plan that was carried out before does nothing.

    Raises:
        SchemaMoved: the schema changed otherwise since the plan; says how. Plan again.
        CommitConflictError: other writers add files faster than they are split; what was split
            stays split.
        VerificationFailed: rows written differ from rows read, or a restated file is missing. At
            the level `full`, a file that statistics put into one partition has other rows, too.
    """
    started_ms = files.env.now_ms()
    check_current_schema(files)
    if plan.schema_id != files.schema.id:
        _check_carried_out(files, plan)
        return RespecResult(
            schema=files.schema,
            former_keys=plan.former_keys,
            snapshot_ids=(),
            files_restated=0,
            files_split=0,
            bytes_rewritten=0,
            duration_ms=files.env.now_ms() - started_ms,
            previous_schema_id=files.schema.id,
        )
    if plan.moved_from is None:
        check_keys(files, plan.keys, plan.primary_key)
        check_nothing_waits(files)
        if not keys_stand(files):
            check_overwrites(files)
    run = _Run(files, plan, engine, verify)
    with stale_if_replaced(files, lambda: run.seen, _CHANGE):
        now = run.whole()
    return RespecResult(
        schema=now.schema,
        former_keys=plan.former_keys,
        snapshot_ids=tuple(run.snapshot_ids),
        files_restated=run.restated,
        files_split=run.rewritten.files,
        bytes_rewritten=run.rewritten.bytes,
        duration_ms=files.env.now_ms() - started_ms,
        previous_schema_id=plan.schema_id,
        differences=tuple(map(str, differences(files.schema, now.schema))),
        files_written=run.rewritten.files_written,
        bytes_written=run.rewritten.bytes_written,
        rows_written=run.rewritten.rows_written,
        nulled_values=run.rewritten.nulled_values,
        files_continued=run.rewritten.files_continued,
    )


def _check_carried_out(files: TableFiles, plan: RespecPlan) -> None:
    """Check that a table of a later schema has all that a plan was made for.

    Raises:
        SchemaMoved: it has other keys, or a change of its keys is under way or was stopped.
    """
    schema = files.schema
    moved = (
        f"the plan to change the partition keys of {files.name} was made for schema "
        f"{plan.schema_id}, and the table has schema {schema.id}"
    )
    primary = schema.primary_keys if plan.primary_key is None else plan.primary_key
    has_keys = schema.partition_keys == plan.keys and set(schema.primary_keys) == set(primary)
    # Where files of a moved table lie says no schema.
    if not has_keys or plan.moved_from is not None:
        told = _what_changed(files, plan)
        raise SchemaMoved(f"{moved}{told}; plan again")
    entries = latest_state(files, takes=ANY_KEYS).entries
    is_under_way = files.staged_changes.latest() is not None
    if is_under_way or not keys_stand(files) or late_entries(files, entries):
        raise SchemaMoved(
            f"{moved}, which has these keys; files of others are left, of a change that was "
            "stopped or of a client that had opened the table before; plan again"
        )


def _what_changed(files: TableFiles, plan: RespecPlan) -> str:
    if plan.schema_id not in files.schemas.ids():
        return ""
    then = files.at_schema(plan.schema_id).schema
    found = [str(difference) for difference in differences(then, files.schema)]
    more = len(found) - _MOST_SHOWN
    shown = "; ".join(found[:_MOST_SHOWN]) + (f"; and {more} more" if more > 0 else "")
    return f" ({shown})" if found else ""


class _Run:
    """Carries the steps of one plan out, and counts what they do."""

    def __init__(
        self, files: TableFiles, plan: RespecPlan, engine: Engine, verify: VerifyLevel
    ) -> None:
        self.files = files
        self.plan = plan
        self.engine = engine
        self.verify = verify
        self.snapshot_ids: list[int] = []
        self.restated = 0
        self.rewritten = Rewritten()
        self.seen = files.snapshots.latest()
        self._known: dict[tuple[str, ...], dict[str, frozenset[KeyRow]]] = {}

    def whole(self) -> TableFiles:
        """Carry all steps out; returns the table with its new keys."""
        if self.plan.moved_from is not None:
            self.restated = len(find_moved(self.files, self.plan.moved_from))
            done = name_places_of_today(self.files, self.plan.moved_from)
            self.snapshot_ids += [] if done.snapshot is None else [done.snapshot.id]
            return self.files
        plan = self.plan
        if self.verify is VerifyLevel.FULL and plan.steps:
            # The first of two steps is published before the second one looks at its keys.
            values = self.values(self.files, plan.keys)
            values.look(TableState(self.files, self.seen).entries, self.engine)
        now = self.end_change_of_keys()
        for keys in plan.steps:
            now = self.step(now, keys)
        if not plan.steps and not plan.keep_staged:
            self.snapshot_ids += give_up(now)
        if not plan.steps and plan.split.files:
            self.split(now, plan.keys, [dict(task.partition) for task in plan.splits.tasks])
        return now

    def end_change_of_keys(self) -> TableFiles:
        """Bring what a stopped change left, and late files, to the present keys."""
        files = self.files
        if files.schema.has_primary_key:
            if TableState(files, self.seen).is_bridged:
                done = end_change_of_keys(files)
                self.snapshot_ids += [] if done.snapshot is None else [done.snapshot.id]
                files = unchanged(files)
            self.move_late_files(files)
            return files
        values = self.values(files, files.schema.partition_keys)
        late = LateAppends(files, values, self.engine, self.verify)
        snapshot = late.restate()
        self.snapshot_ids += [] if snapshot is None else [snapshot.id]
        self.restated = late.restated
        self.rewritten.add(late.rewritten)
        return files

    def move_late_files(self, files: TableFiles) -> None:
        """Move what clients wrote under former keys that opened the table before they changed."""
        LateFiles(
            files,
            self.engine,
            self.verify,
            self.plan.late_rows_win,
            self.rewritten,
            self.snapshot_ids,
        ).move()

    def step(self, files: TableFiles, keys: tuple[str, ...]) -> TableFiles:
        """Give the table the keys of one step, after a split of what they need split."""
        if files.schema.has_primary_key:
            primary_key = self.plan.primary_key if keys == self.plan.keys else None
            made = self.rewritten, self.snapshot_ids
            now = KeyedChange(files, keys, self.engine, self.verify, primary_key, *made).carry_out()
            # Other clients may have committed between the schema and the new entries.
            self.move_late_files(now)
            return now
        self.seen = files.snapshots.latest()
        check_columns_stay(files, keys, TableState(files, self.seen).entries)
        if any(key not in files.schema.partition_keys for key in keys):
            self.split(files, keys, None)
        prepared = self.prepared(files, keys)
        with prepared.discarded_in_the_end():
            for number in range(_MOST_ROUNDS):
                self.seen = files.snapshots.latest()
                prepared.catch_up()
                if prepared.several:
                    beside = files
                    if number >= _ROUNDS_BESIDE_WRITERS:
                        beside = replace(files, holding=files.env.new_id())
                        held = hold_writers(beside).snapshot
                        self.snapshot_ids += [] if held is None else [held.id]
                        prepared.catch_up()
                    self.split_files(beside, keys, [*prepared.several.values()])
                    continue
                try:
                    done = cut_over(prepared)
                except SeveralValues:
                    now = unchanged(files)
                    if now.schema.id != files.schema.id:
                        prepared.begin_again(now)
                    files = now
                    continue
                self.snapshot_ids += done.snapshot_ids
                self.restated = max(self.restated, done.files)
                return done.files_now
        raise CommitConflictError(
            f"other writers committed files of several partitions to {files.name} {_MOST_ROUNDS} "
            f"times while it was split by {', '.join(keys)}; what was split stays split: run it "
            "again when fewer writers commit"
        )

    def split(
        self,
        files: TableFiles,
        keys: tuple[str, ...],
        partitions: Sequence[Mapping[str, object]] | None,
    ) -> None:
        """Split the files that hold several values of the keys."""
        entries = latest_state(files, takes=ANY_KEYS).entries
        if partitions is not None:
            wanted = PartitionFilter.of_specs(files, partitions)
            entries = [entry for entry in entries if wanted.takes(entry)]
        values = self.values(files, keys)
        values.look(entries, self.engine)
        several = [entry for entry in entries if values.single(entry.file) is None]
        if several:
            self.split_files(files, keys, several)

    def prepared(self, files: TableFiles, keys: tuple[str, ...]) -> Prepared:
        """The manifests for a cut-over to the keys, not written yet."""
        return Prepared(files, keys, self.values(files, keys), self.engine)

    def values(self, files: TableFiles, keys: tuple[str, ...]) -> KeyValues:
        """The values of the keys, with what was found of files before: a file is read once."""
        return KeyValues(
            files,
            files.schema.fields_of(keys),
            self._known.setdefault(keys, {}),
            reads_all=self.verify is VerifyLevel.FULL,
        )

    def split_files(
        self, files: TableFiles, keys: tuple[str, ...], several: Sequence[ManifestEntry]
    ) -> None:
        """Split some files, in the partitions that have them."""
        names = {each.file.file_name for each in several}
        found = {each.partition: files.partitions.of_entry(each) for each in several}
        own = files.partitions.keys.names
        # Files of a client that knows other keys are looked for in all partitions.
        is_own = bool(own) and all(each.keys.names == own for each in found.values())
        specs = [each.spec for each in found.values()] if is_own else None
        plan = planned_splits(files, names, keys, specs)
        for done in split_files(files, plan, keys, self.engine, self.verify):
            self.rewritten.add(
                Rewritten(
                    files=done.files_before,
                    bytes=done.bytes_before,
                    files_written=done.files_after,
                    bytes_written=done.bytes_after,
                    rows_written=done.rows_after,
                    nulled_values=done.nulled_values,
                )
            )
            if done.snapshot is not None:
                self.snapshot_ids.append(done.snapshot.id)
