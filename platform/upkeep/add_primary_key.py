"""A primary key for a table without one, as a verb: all rows are rewritten into buckets."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from lakewright.platform.tables.upkeep_policies import EngineChoice
from lakewright.platform.upkeep.effects import Effect
from lakewright.platform.upkeep.measures import Benefit, Cost, Measures
from lakewright.platform.upkeep.options import COUNT, ENGINE, choice, names, option
from lakewright.platform.upkeep.verb import Command, Outcome, Report, Verb, Work
from lakewright.platform.upkeep.words import counted, duration_text, size_text
from lakewright.storage import LeaseKind, Table, VerifyLevel
from lakewright.storage.plans import AddPrimaryKeyPlan, AddPrimaryKeyResult


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPrimaryKeyOptions:
    """What the verb may be told."""

    keys: tuple[str, ...] = option(
        names(), (), "The columns of the primary key, with all partition keys."
    )
    buckets: int | None = option(
        COUNT,
        None,
        "Buckets of each partition (default: as now, if their number is fixed; else one for each "
        "256 MB of the largest partition).",
    )
    engine: EngineChoice = option(
        ENGINE,
        EngineChoice.AUTO,
        "Where the rewrite runs: spark, local, or auto, by size.",
        at_run=True,
    )
    verify: VerifyLevel = option(
        choice(VerifyLevel),
        VerifyLevel.CHECKSUMS,
        "How new files are verified before they are published: counts, checksums, or full, which "
        "reads the new files back.",
        at_run=True,
    )


_Done = Outcome[AddPrimaryKeyOptions, AddPrimaryKeyPlan, AddPrimaryKeyResult]


def _run(
    table: Table, plan: AddPrimaryKeyPlan, options: AddPrimaryKeyOptions, work: Work
) -> AddPrimaryKeyResult:
    engine = work.engine(options.engine, plan.bytes_before)
    return table.upkeep.run(plan, engine, verify=options.verify)


def _report(_: Table, done: _Done) -> Report:
    plan, result = done.plan, done.result
    keys = ", ".join(plan.keys)
    if plan.is_there:
        return Report(summary=f"{plan.table} has the primary key {keys}", facts={}, is_empty=True)
    if result is None:
        return Report(
            summary=f"{plan.table} can have the primary key {keys}: no key is null or stands "
            f"twice; {counted(plan.files_before, 'file')}, {size_text(plan.bytes_before)}, "
            f"{counted(plan.rows, 'row')} to rewrite into {counted(plan.buckets, 'bucket')} of "
            "each partition",
            facts={"files": plan.files_before, "bytes": plan.bytes_before, "rows": plan.rows},
            notes=("writers of other clients that have opened the table must be stopped before",),
        )
    return Report(
        summary=f"{plan.table} has the primary key {keys} now: {counted(result.rows, 'row')} in "
        f"{counted(result.files_after, 'file')}, {duration_text(result.duration_ms)}",
        facts={
            **{name: value for name, value in asdict(result).items() if isinstance(value, int)},
            "schema_id": result.schema.id,
        },
        notes=("open the table again",),
        snapshot=result.snapshot,
    )


def _measures(_: Table, done: _Done) -> Measures:
    plan, result = done.plan, done.result
    snapshot = None if result is None else result.snapshot
    after = sum(min(task.rows, plan.buckets) for task in plan.tasks)
    if result is not None:
        after = result.files_after
    return Measures(
        cost=Cost(
            bytes=plan.bytes_before,
            files=plan.files_before,
            bytes_written=plan.bytes_before if result is None else result.bytes_after,
        ),
        benefit=Benefit(files_fewer=plan.files_before - after),
        snapshots=() if snapshot is None else (snapshot.id,),
    )


ADD_PRIMARY_KEY = Verb(
    name="add_primary_key",
    summary="give a table without a primary key one",
    effect=Effect.CHANGES_KEYS,
    may_use_spark=True,
    alone=LeaseKind.OVERWRITE,
    not_undone="its files have the key; no verb takes a primary key away: INSERT the rows into a "
    "table without one",
    command=Command(
        purpose="Upkeep",
        examples="""
lakewright add-primary-key shop.orders --keys dt,id --dry-run
lakewright add-primary-key shop.orders --keys dt,id --buckets 4
""",
        notes="""
Keys that are null or stand twice are shown, and nothing is changed. Every client reads the table at
each moment. Stop writers of other clients before: one that opened the table earlier knows no key.
""",
    ),
    options=AddPrimaryKeyOptions,
    plan_type=AddPrimaryKeyPlan,
    plan=lambda table, options: table.upkeep.plan_add_primary_key(
        options.keys, buckets=options.buckets
    ),
    run=_run,
    report=_report,
    measures=_measures,
)
