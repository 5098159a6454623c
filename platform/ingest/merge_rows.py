"""Merging the rows of a file into a table as a verb: the statement is one snapshot.

A run reads the file and the table once. So it makes a plan that counts nothing; a dry run counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from lakewright.platform.ingest.given_file import rows_of_file
from lakewright.platform.upkeep.change_rows import report_of_plan, report_of_result
from lakewright.platform.upkeep.procedure import Command, Outcome, Procedure, Report, Work
from lakewright.platform.upkeep.words import counted
from lakewright.storage import Table
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.row_changes.merge_rows import MergeRowsPlan
from lakewright.storage.operations.row_changes.statement import RowChangeResult
from lakewright.storage.operations.running.verb_options import choice, names, option, text
from lakewright.storage.upkeep import Upkeep


class Matched(Enum):
    """What happens to rows of the table that rows of the file match."""

    UPDATE = "update"
    DELETE = "delete"
    KEEP = "keep"


class New(Enum):
    """What happens to rows of the file without a match."""

    INSERT = "insert"
    IGNORE = "ignore"


class Missing(Enum):
    """What happens to rows of the table without a match."""

    KEEP = "keep"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRowsOptions:
    """Which file, and what its rows change."""

    file: str | None = option(
        text("FILE"),
        None,
        "A file of CSV, JSON, Parquet, ORC or Avro, which its name tells.",
        flag="--from",
    )
    on: tuple[str, ...] = option(names(), (), "Columns of both by which rows match.")
    matched: Matched = option(choice(Matched), Matched.UPDATE, "What happens to matched rows.")
    new: New = option(choice(New), New.INSERT, "What happens to rows of the file without a match.")
    missing: Missing = option(
        choice(Missing), Missing.KEEP, "What happens to rows of the table without a match."
    )


_Done = Outcome[MergeRowsOptions, MergeRowsPlan, RowChangeResult]


def _planned(table: Table, options: MergeRowsOptions, *, counts: bool) -> MergeRowsPlan:
    if options.file is None or not options.on:
        raise InvalidRequestError("say which file (--from FILE), and by which columns (--on A,B)")
    return table.upkeep.plan_merge_rows(
        rows_of_file(Path(options.file), table.schema),
        on=options.on,
        when_matched=None if options.matched is Matched.KEEP else options.matched.value,
        when_not_matched="insert" if options.new is New.INSERT else None,
        when_not_matched_by_source="delete" if options.missing is Missing.DELETE else None,
        counts=counts,
    )


def _plan(table: Table, options: MergeRowsOptions) -> MergeRowsPlan:
    return _planned(table, options, counts=True)


def _run(table: Table, plan: MergeRowsPlan, _: MergeRowsOptions, __: Work) -> RowChangeResult:
    return table.upkeep.run(plan)


def _at_once(table: Table, options: MergeRowsOptions, _: Work) -> Iterator[_Done]:
    plan = _planned(table, options, counts=False)
    yield Outcome(options=options, plan=plan, result=table.upkeep.run(plan))


def _report(_: Table, done: _Done) -> Report:
    of = done.plan if done.result is None else done.result
    counts: Mapping[str, int] = {
        "updated": of.updated,
        "inserted": of.inserted,
        "deleted": of.deleted,
    }
    if done.result is None:
        to = zip(("update", "insert", "delete"), counts.values(), strict=True)
        told = ", ".join(f"{counted(count, 'row')} to {what}" for what, count in to)
        return report_of_plan(done.plan, told, counts)
    told = ", ".join(f"{counted(count, 'row')} {what}" for what, count in counts.items())
    snapshot = done.result.snapshot
    facts = {**counts, "snapshot": None if snapshot is None else snapshot.id}
    return report_of_result(done.plan, done.result, told, facts)


MERGE_ROWS = Procedure(
    verb=Upkeep.merge_rows,
    options=MergeRowsOptions,
    plan=_plan,
    run=_run,
    report=_report,
    command=Command(
        purpose="Rows",
        saves_plans=False,
        notes="""
Without another word, matched rows are updated by the columns of the file, and rows without a match
are inserted. All of it is one snapshot. A row of the table that matches several rows of the file is
an error, and nothing is written. The file is read as a source is: values get the types of their
columns, an empty value of a CSV is null, and columns that the table has not are left out. It is
held in memory; SQL has MERGE INTO for more.
""",
        examples="""
lakewright merge shop.orders --from changes.parquet --on id --dry-run
lakewright merge shop.orders --from all.csv --on day,id --missing delete
""",
    ),
    steps=_at_once,
)
