"""The change of partition keys as a verb: split what must be split, then restate all files.

All files of a primary-key table are rewritten, and none is split before.

With `split_only` the keys stay, and a later run finds less to split.

The file is long since it holds the whole output for one plan: report, measures and words.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from typing import Any

from lakewright.platform.tables.partition_keys import (
    InvalidPartitionKeyError,
    PartitionColumn,
    decode_partition,
    first_few,
    partition_identity,
)
from lakewright.platform.tables.partition_schemes import PartitionScheme
from lakewright.platform.tables.upkeep_policies import RespecPolicy
from lakewright.platform.upkeep.known_partitions import check_partitions_known
from lakewright.platform.upkeep.leases import partitions_scope, plan_scope
from lakewright.platform.upkeep.measures import Benefit, Cost, Measures
from lakewright.platform.upkeep.procedure import (
    Command,
    Keeping,
    LeaseNeed,
    NamedPartition,
    Outcome,
    Procedure,
    Report,
    Work,
    run_verb,
)
from lakewright.platform.upkeep.run_options import Verified
from lakewright.platform.upkeep.words import (
    counted,
    duration_text,
    named,
    nulled_text,
    size_text,
    snapshots_text,
)
from lakewright.storage import LeaseKind, Table
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.inspection.late_writers import LateWriter, late_writers_text
from lakewright.storage.operations.respec.respec import RespecOptions
from lakewright.storage.operations.respec.respec_plan import Layout, RespecPlan, RespecResult
from lakewright.storage.operations.rewrite.compaction_plan import CompactionPlan, CompactionTask
from lakewright.storage.operations.running.verb_options import (
    FLAG,
    option,
)
from lakewright.storage.spec.partition_words import describe_partition
from lakewright.storage.upkeep import Upkeep

# A table without partition keys is one partition, whose path is empty.
_WHOLE = "the table"
# Of a partition that the asset does not have.
_NO_KEY = "-"
# A partition, and those that it becomes.
_Words = list[tuple[str, list[str]]]
Done = Outcome["RespecRun", RespecPlan, RespecResult]


@dataclass(frozen=True, kw_only=True)
class RespecRun(Verified, RespecOptions):
    """What a change of partition keys takes."""

    split_only: bool = option(
        FLAG,
        False,
        "Only split the files that hold several values of the new keys. The keys stay, and a later "
        "run does not split these files again.",
    )
    settle: bool = option(
        FLAG,
        False,
        "Afterwards bring the files that stay where they lie into the folders of the new keys, as "
        "`lakewright settle` does.",
        at_run=True,
    )

    @classmethod
    def declared(cls, policy: RespecPolicy) -> RespecRun:
        """The options of a change to the partition keys that a policy names."""
        return cls(
            keys=policy.keys,
            primary_key=policy.primary_key,
            max_partitions=policy.max_partitions,
            max_files=policy.max_files,
        )


def respec_line(table: str, keys: Sequence[str]) -> str:
    """The call of `lakewright respec` with these keys, for a shell."""
    return shlex.join(["lakewright", "respec", table, "--keys", ",".join(keys)])


def other_keys_text(table: str, keys: Sequence[str], writers: Sequence[LateWriter] = ()) -> str:
    """What is wrong with a table that has files of other partition keys than its own, and helps."""
    cause = late_writers_text(writers) or (
        "a change was stopped, or a client wrote that opened the table before one"
    )
    return (
        f"files of other partition keys than the table's: {cause}; the next commit ends it, or "
        f"`{respec_line(table, keys)}`"
    )


def _plan(table: Table, options: RespecRun) -> RespecPlan:
    if options.moved_from is not None and options.keys is None:
        options = replace(options, keys=table.schema.partition_keys)
    if options.split_only:
        # An empty spec names all partitions.
        options = replace(options, partitions=options.partitions or ({},))
    elif options.partitions is not None:
        raise InvalidRequestError(
            f"the partition keys of {table.name} change in all partitions at once; name partitions "
            "only to split them before (split_only, --split-only on the command line)"
        )
    check_partitions_known(table, [each for each in options.partitions or () if each])
    return RESPEC.verb.planned(table.table_files, options)


def _lease(table: Table, plan: RespecPlan) -> LeaseNeed | None:
    """The whole table while its keys change, or the partitions whose files are split."""
    # Under a later schema, a plan is done or stale.
    if _is_idle(plan) or plan.schema_id != table.schema.id:
        return None
    scope = plan_scope(table, plan.splits) if _only_splits(plan) else partitions_scope(table, None)
    return LeaseNeed(kind=LeaseKind.COMPACT, scope=scope)


def _run(table: Table, plan: RespecPlan, options: RespecRun, work: Work) -> RespecResult:
    result: RespecResult = run_verb(Upkeep.respec, table, plan, options, work)
    if not options.settle or _only_splits(plan):
        return result
    changed = Table(replace(table.table_files, schema=result.schema))
    home = changed.upkeep.settle()
    snapshot_ids = (*result.snapshot_ids, *home.snapshot_ids)
    return replace(result, snapshot_ids=snapshot_ids, files_settled=home.files)


def _only_splits(plan: RespecPlan) -> bool:
    return not plan.steps and plan.keys != plan.former_keys


def _is_idle(plan: RespecPlan) -> bool:
    return plan.changes_nothing or (_only_splits(plan) and not plan.splits.tasks)


def _was_done(plan: RespecPlan, result: RespecResult | None) -> bool:
    """Whether a run found that its plan had been carried out before."""
    return result is not None and result.previous_schema_id != plan.schema_id


def _measures(_: Table, done: Done) -> Measures:
    """Split files are rewritten; restated ones stay as they are."""
    plan, result = done.plan, done.result
    if _is_idle(plan) or _was_done(plan, result):
        return Measures()
    left = plan.split.bytes - plan.staged.bytes
    cost = Cost(
        bytes=left,
        files=plan.split.files - plan.staged.files,
        bytes_written=left,
        files_named=0 if _only_splits(plan) else plan.restate.files,
    )
    if result is not None:
        cost = Cost(
            bytes=result.bytes_rewritten,
            files=result.files_split,
            bytes_written=result.bytes_written,
            files_named=result.files_restated,
        )
    fewer = _files_before(plan) - _files_after(plan, result)
    return Measures(
        cost=cost,
        benefit=Benefit(files_fewer=fewer),
        snapshots=() if result is None else result.snapshot_ids,
    )


def _files_before(plan: RespecPlan) -> int:
    return plan.restate.files + plan.split.files


def _files_after(plan: RespecPlan, result: RespecResult | None) -> int:
    """How many files the rows lie in after a run, or will as far as a plan foresees.

    All files of an append table are restated by each step, also those that others committed
    meanwhile.
    """
    if result is None:
        return plan.files_after
    if len(plan.steps) == 1 and not plan.is_keyed and plan.moved_from is None:
        return result.files_restated
    return _files_before(plan) - result.files_split + result.files_written


# --- report -----------------------------------------------------------------------------------


def _report(table: Table, done: Done, *, declared: PartitionScheme | None = None) -> Report:
    plan, result = done.plan, done.result
    if result is not None and _was_done(plan, result):
        return _nothing_left(result, plan)
    facts, record = _facts(plan, result), _record(plan, result)
    summary, notes = _planned(plan), _notes(plan)
    rows = _becomes(plan, table, declared)
    words = [] if _only_splits(plan) else _becomes_in_words(plan, table)
    if result is None and not _only_splits(plan):
        record["dagster_partitions"] = [
            {
                "partition": row["dagster_partition"],
                "becomes": row["dagster_becomes"],
                "words": partition,
                "becomes_words": becomes,
            }
            for row, (partition, becomes) in zip(rows, words, strict=True)
        ]
    if result is not None:
        did = {
            "files_restated": result.files_restated,
            "files_split": result.files_split,
            "bytes_rewritten": result.bytes_rewritten,
            "files_written": result.files_written,
            "bytes_written": result.bytes_written,
            "rows_written": result.rows_written,
            **({"files_continued": result.files_continued} if result.files_continued else {}),
            **({"files_settled": result.files_settled} if result.files_settled else {}),
            **({"nulled_values": result.nulled_values} if result.nulled_values else {}),
        }
        record |= {
            **did,
            "keys": list(result.schema.partition_keys),
            "schema_id": result.schema.id,
            "previous_schema_id": result.previous_schema_id,
            "differences": list(result.differences),
            "snapshots": list(result.snapshot_ids),
            "duration_ms": result.duration_ms,
            "becomes": [asdict(each) for each in plan.becomes],
        }
        facts |= {**did, "seconds": round(result.duration_ms / 1000, 3)}
        if result.snapshot_ids:
            facts["snapshot_id"] = result.snapshot_ids[-1]
        if not _is_idle(plan):
            nulled = result.nulled_values
            summary, notes = _told(plan, result), (nulled_text(nulled),) if nulled else ()
            if result.files_restated > result.files_settled:
                away = counted(result.files_restated - result.files_settled, "file")
                told = (
                    f"{away} stay where they lie, named by their places; to copy, move or rename "
                    f"the table, bring them home first: `lakewright settle {plan.table}`"
                )
                notes = (*notes, told)
    return Report(
        summary=summary,
        facts=facts,
        record=record,
        rows=rows,
        tables=_tables(plan, rows, words, is_done=result is not None),
        notes=notes,
        is_empty=_is_idle(plan),
        # Under other keys they are other partitions.
        partitions=tuple(tasks[0].partition for tasks in _by_partition(plan.splits))
        if _only_splits(plan)
        else (),
    )


def _nothing_left(result: RespecResult, plan: RespecPlan) -> Report:
    return Report(
        summary=f"nothing to do: {plan.table} has {_keys_text(plan.keys)} of this plan already, "
        f"by schema {result.schema.id}",
        facts={"keys_after": _brackets(plan.keys)},
        record={
            "keys_before": list(plan.keys),
            "keys_after": list(plan.keys),
            "keys": list(plan.keys),
            "schema_id": result.schema.id,
            "previous_schema_id": result.schema.id,
            "snapshots": [],
        },
        is_empty=True,
    )


def _planned(plan: RespecPlan) -> str:
    at = "" if plan.snapshot_id is None else f", at snapshot {plan.snapshot_id}"
    if _only_splits(plan):
        by = ", ".join(plan.keys) or "no keys"
        if not plan.splits.tasks:
            return f"nothing to split by {by} in {plan.table}{at}"
        return (
            f"{plan.table} to split by {by}{at}: {_sizes(plan.splits)}; it keeps "
            f"{_keys_text(plan.former_keys)}"
        )
    if plan.moved_from is not None:
        files = counted(plan.restate.files, "file")
        return (
            f"{files} of {plan.table} to be named where they lie now, moved from {plan.moved_from}"
            f"{at}"
        )
    if plan.changes_nothing:
        return f"{plan.table} has {_keys_text(plan.keys)}"
    if not plan.steps and (plan.gives_up or plan.damaged) and not plan.split.files:
        partitions = counted(plan.gives_up, "partition")
        return (
            f"{plan.table} keeps {_keys_text(plan.keys)}{at}: a change that was stopped is given "
            f"up, and what it had staged of {partitions} goes"
        )
    steps = " → ".join(
        _brackets(each) for each in (plan.former_keys, *(plan.steps or (plan.keys,)))
    )
    return f"partition keys of {plan.table} to change{at}: {steps}"


def _told(plan: RespecPlan, result: RespecResult) -> str:
    told = f"{counted(result.files_split, 'file')} {'rewritten' if plan.is_keyed else 'split'}"
    if result.files_continued:
        told += f", {counted(result.files_continued, 'new file')} taken up from a run that stopped"
    if not _only_splits(plan) and not plan.is_keyed:
        told += f", {counted(result.files_restated, 'file')} restated where they lie"
    if result.files_settled:
        told += f", {counted(result.files_settled, 'file')} brought home"
    return (
        f"{snapshots_text(result.snapshot_ids)} of {plan.table}: {told}, in "
        f"{duration_text(result.duration_ms)}; it has {_keys_text(result.schema.partition_keys)}"
    )


def _notes(plan: RespecPlan) -> tuple[str, ...]:
    if _is_idle(plan):
        return ()
    if _only_splits(plan):
        return _told_of_consumers(plan)
    files = (
        (f"rewritten: {_layout_text(plan.split)}", *_staged_notes(plan))
        if plan.is_keyed
        else (
            f"restated where they lie: {_layout_text(plan.restate)}",
            f"split first: {_layout_text(plan.split)}",
        )
    )
    moves = (
        "rows will move between partitions, as the primary key lacks partition keys; Lakewright "
        "will read the table, and not write it"
    )
    return (
        *files,
        *((moves,) if plan.crosses_partitions else ()),
        *_told_of_history(plan),
        *_told_of_consumers(plan),
        f"limits: {plan.most_partitions:,} partitions, {plan.most_files:,} files",
    )


def _staged_notes(plan: RespecPlan) -> tuple[str, ...]:
    """What a run that was stopped has left: what goes on from there, and what goes."""
    staged = f"staged already, and taken up: {_layout_text(plan.staged)}"
    gone = f"staged in vain, and deleted: what came of {counted(plan.gives_up, 'partition')}"
    return (
        *((staged,) if plan.staged.files else ()),
        *((gone,) if plan.gives_up else ()),
        *(f"a damaged record goes: {each}" for each in plan.damaged),
    )


def _told_of_history(plan: RespecPlan) -> tuple[str, ...]:
    """What other clients cannot do afterwards, which is to be done before."""
    if not plan.steps or plan.snapshot_id is None:
        return ()
    told = (
        "afterwards other clients cannot read the changes in snapshots of before: they fail, or "
        f"miss rows, so let their streams read to snapshot {plan.snapshot_id}; only lakewright "
        "expires these snapshots without leaving files behind"
    )
    return (told,)


def _told_of_consumers(plan: RespecPlan) -> tuple[str, ...]:
    """What the snapshots of the run itself are to consumers, which next time bar a change."""
    if plan.snapshot_id is None or not (plan.steps or plan.splits.tasks):
        return ()
    told = (
        f"its own snapshots have no rows for streams: a consumer that has read to snapshot "
        f"{plan.snapshot_id} is behind after it, which bars the next change of the keys, until its "
        f"reader goes on or `lakewright consumer set {plan.table} CONSUMER N` moves it"
    )
    return (told,)


def _sizes(plan: CompactionPlan) -> str:
    size, rows = size_text(plan.bytes_before), counted(plan.rows, "row")
    return f"{counted(plan.files_before, 'file')}, {size}, {rows}"


def _layout_text(layout: Layout) -> str:
    size, rows = size_text(layout.bytes), counted(layout.rows, "row")
    return f"{counted(layout.files, 'file')}, {size}, {rows}" if layout.files else "no file"


def _keys_text(keys: Sequence[str]) -> str:
    return f"the {named('partition key', keys)}" if keys else "no partition keys"


def _brackets(keys: Sequence[str]) -> str:
    return f"({', '.join(keys)})"


def _facts(plan: RespecPlan, result: RespecResult | None) -> dict[str, object]:
    """Single values, of which the pairs of before and after are shown as a table."""
    facts: dict[str, object] = {
        "keys_before": _brackets(plan.former_keys),
        "keys_after": _brackets(plan.former_keys if _only_splits(plan) else plan.keys),
    }
    # A plan without a change has counted nothing, and its zeros would be told of the table.
    if not plan.changes_nothing:
        facts["files_before"] = _files_before(plan)
        facts["files_after"] = _files_after(plan, result)
        if not _only_splits(plan):
            facts["partitions_before"] = plan.partitions_before
            facts["partitions_after"] = plan.partitions_after
    if result is None:
        facts |= {
            "files_to_restate": plan.restate.files,
            "bytes_to_restate": plan.restate.bytes,
            "files_to_split": plan.split.files,
            "bytes_to_split": plan.split.bytes,
        }
    if plan.snapshot_id is not None:
        facts["planned_at_snapshot"] = plan.snapshot_id
    return facts


def _record(plan: RespecPlan, result: RespecResult | None) -> dict[str, object]:
    counted_files: dict[str, object] = {
        "partitions_before": plan.partitions_before,
        "partitions_after": plan.partitions_after,
        "files_before": _files_before(plan),
        "files_after": _files_after(plan, result),
    }
    return {
        "keys_before": list(plan.former_keys),
        "keys_after": list(plan.keys),
        "steps": [list(step) for step in plan.steps],
        "only_splits": _only_splits(plan),
        "to_restate": asdict(plan.restate),
        "to_split": asdict(plan.split),
        "staged": asdict(plan.staged),
        "gives_up": plan.gives_up,
        "damaged": list(plan.damaged),
        **({} if plan.changes_nothing else counted_files),
        "max_partitions": plan.most_partitions,
        "max_files": plan.most_files,
    }


def _tables(
    plan: RespecPlan, rows: list[dict[str, Any]], words: _Words, *, is_done: bool
) -> dict[str, list[dict[str, object]]]:
    """What becomes of each partition, and the ledger of what is to split."""
    if _is_idle(plan):
        return {}
    ledger = [] if is_done else list(_to_split(plan.splits))
    if _only_splits(plan):
        return {"to split": ledger}
    becomes: list[dict[str, object]] = [
        {
            **row,
            "partition": partition,
            "becomes": first_few(new),
            "dagster_becomes": first_few([each or _NO_KEY for each in row["dagster_becomes"]]),
        }
        for row, (partition, new) in zip(rows, words, strict=True)
    ]
    return {"partitions": becomes, "to split": ledger}


def _becomes_in_words(plan: RespecPlan, table: Table) -> _Words:
    """Each partition with those that it becomes, as `--partition` takes them.

    People do not write a day as its folder does, `dt=20454`.
    """
    before, after = _words(table, plan.former_keys), _words(table, plan.keys)
    return [
        (
            before(each.key, each.partition),
            list(map(after, each.keys or [""] * len(each.becomes), each.becomes)),
        )
        for each in plan.becomes
    ]


def _words(table: Table, keys: Sequence[str]) -> Callable[[str, str], str]:
    """What messages call a partition of the keys, given its text, and its folder."""
    fields = table.schema.fields_of(keys)
    columns = [PartitionColumn(field.name, field.type) for field in fields]

    @cache
    def words_of(text: str, folder: str) -> str:
        try:
            words = describe_partition(decode_partition(text, columns)) if text else folder
            return words or _WHOLE
        except InvalidPartitionKeyError:
            # A saved plan may have been edited.
            return folder

    return words_of


def _becomes(
    plan: RespecPlan, table: Table, declared: PartitionScheme | None
) -> list[dict[str, Any]]:
    """Each partition with those that it becomes, by their folders and by their Dagster keys."""
    before = _dagster_keys(table, plan.former_keys, declared)
    after = _dagster_keys(table, plan.keys, declared)
    return [
        {
            "partition": each.partition or _WHOLE,
            "becomes": [path or _WHOLE for path in each.becomes],
            "count": len(each.becomes),
            "dagster_partition": before(each.key),
            "dagster_becomes": [after(key) for key in each.keys],
        }
        for each in plan.becomes
    ]


def _dagster_keys(
    table: Table, keys: Sequence[str], declared: PartitionScheme | None
) -> Callable[[str], str | None]:
    """What an asset calls a partition of the keys, given its text; None where it has no name.

    An asset has the declared partitions if they are by these keys, and else those found in data,
    whose keys are the texts themselves.
    """
    columns = [PartitionColumn(each.name, each.type) for each in table.schema.fields_of(keys)]
    scheme = declared if declared and set(declared.column_names) == set(keys) else None

    @cache
    def key_of(text: str) -> str | None:
        if scheme is None or not text:
            return text or None
        try:
            return scheme.key_of(decode_partition(text, columns))
        except InvalidPartitionKeyError:
            return None

    return key_of


def _to_split(plan: CompactionPlan) -> Iterator[dict[str, object]]:
    """The ledger: the files that are still to be split, by partition."""
    for tasks in _by_partition(plan):
        yield {
            "partition": NamedPartition(tasks[0].partition),
            "files": sum(len(task.files) for task in tasks),
            "bytes": sum(task.bytes for task in tasks),
            "rows": sum(task.rows for task in tasks),
        }


def _by_partition(plan: CompactionPlan) -> list[list[CompactionTask]]:
    found: dict[object, list[CompactionTask]] = {}
    for task in plan.tasks:
        found.setdefault(partition_identity(task.partition), []).append(task)
    return list(found.values())


def respec_verb(
    declared: PartitionScheme | None = None,
) -> Procedure[RespecRun, RespecPlan, RespecResult]:
    """The verb of a table whose asset has the declared partitions, as its reports name them."""
    return Procedure(
        verb=Upkeep.respec,
        options=RespecRun,
        plan=_plan,
        run=_run,
        report=partial(_report, declared=declared),
        command=Command(
            purpose="Upkeep",
            notes="""
Files whose rows share one value of the new keys stay where they lie: new metadata names them.
Other files are split first, with --split-only as many partitions at a time as are named. Clients
that open the table read it at every moment; those that have it open must open it again
(docs/how-to/changing-partition-keys.md). When the command ends, the table has the new keys.
All files of a table with a primary key are rewritten: they are sorted by its other columns.
A run that is stopped meanwhile is continued by the same command; with the present keys as --keys it
is given up, and what it had staged is deleted.
Partition keys must be in the primary key, which --primary-key lets them join.
""",
            examples="""
lakewright respec nyc.flights --keys dt,origin --dry-run
lakewright respec nyc.flights --keys dt,origin --dry-run --tables tables --format json
lakewright respec nyc.flights --keys dt,origin --split-only --partition dt=2013-12-01
lakewright respec nyc.flights --keys dt,origin --max-partitions 50000
lakewright respec nyc.flights --add origin
lakewright respec nyc.flights --keys ""
lakewright respec nyc.orders --keys dt,origin --primary-key id,dt,origin
lakewright respec nyc.flights --moved-from s3://old-bucket/warehouse/nyc.db/flights
""",
            of_declared=lambda declaration: respec_verb(declaration.scheme),
        ),
        keeping=Keeping(
            section=lambda policy: policy.respec,
            options=lambda policy: RespecRun.declared(policy.respec),
        ),
        lease=_lease,
        measures=_measures,
    )


RESPEC = respec_verb()
