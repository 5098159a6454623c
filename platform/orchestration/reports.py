"""Reports: results of runs, as metadata that the Dagster UI can show."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from lakewright.platform.decide.report_figures import (
    DECISION_COLUMNS,
    SAVING_COLUMNS,
    TABLE_COLUMNS,
    Cell,
    ReportFigures,
    cell_text,
)
from lakewright.platform.decide.survey import TableSurvey
from lakewright.platform.decide.take_survey import survey_written
from lakewright.platform.ingest.expectations import ExpectationOutcome
from lakewright.platform.ingest.publication import PartitionTotals, Published
from lakewright.platform.upkeep.health import PartitionHealth
from lakewright.platform.upkeep.procedure import Report
from lakewright.platform.upkeep.words import counted, size_text, time_text
from lakewright.storage import Snapshot, Table, TableSchema, WriterCompaction
from lakewright.storage.file_reader.bad_rows import LeftOutRow
from lakewright.storage.file_reader.filled_columns import FilledColumns
from lakewright.storage.spec.data_types import DataType

Metadata = Mapping[str, Any]

STORAGE_KIND = "paimon"
ROWS_IN_FILES = "lakewright/rows_in_files"
PARTITION_ROWS_IN_FILES = "lakewright/partition_rows_in_files"
# Before the name of a table whose rows a run rejected.
REJECTED = "lakewright/rejected"
_MAX_ROWS = 50
# Figures of a whole commit, which would be read as those of a partition on the page of one.
OF_THE_COMMIT = frozenset(
    f"lakewright/{name}"
    for name in (
        "rows_written",
        "rows_left_out",
        "rejects",
        "files_written",
        "bytes_written",
        "partitions_written",
        "commits",
        "seconds",
        "validation_seconds",
    )
)


def column_schema(
    columns: Iterable[tuple[str, DataType, str | None]],
    *,
    partition_keys: Iterable[str] = (),
    primary_keys: Iterable[str] = (),
) -> dg.TableSchema:
    """The columns as the UI lists them."""
    partition_keys, primary_keys = tuple(partition_keys), tuple(primary_keys)
    listed = []
    for name, data_type, comment in columns:
        other = []
        if name in primary_keys:
            other.append("primary key")
        if name in partition_keys:
            other.append("partition key")
        nullable = data_type.nullable and name not in primary_keys
        listed.append(
            dg.TableColumn(
                name=name,
                type=str(data_type).removesuffix(" NOT NULL"),
                description=comment,
                constraints=dg.TableColumnConstraints(
                    nullable=nullable, unique=primary_keys == (name,), other=other
                ),
            )
        )
    return dg.TableSchema(columns=listed)


def code_reference(file: str, line: int) -> Metadata:
    """A line of a file, for the link to an editor or to source control."""
    with warnings.catch_warnings():
        # Else a terminal gets four lines of Dagster's for each table.
        warnings.simplefilter("ignore", dg.BetaWarning)
        place = dg.LocalFileCodeReference(file_path=str(Path(file).resolve()), line_number=line)
        return {"dagster/code_references": dg.CodeReferencesMetadataValue(code_references=[place])}


def schema_metadata(schema: TableSchema) -> dg.TableSchema:
    """The columns of an existing table."""
    return column_schema(
        ((field.name, field.type, field.description) for field in schema.fields),
        partition_keys=schema.partition_keys,
        primary_keys=schema.primary_keys,
    )


def table_metadata(table: Table) -> dict[str, Any]:
    """What every event about a table tells of it, by Dagster's standard keys."""
    return {
        "dagster/column_schema": schema_metadata(table.schema),
        "dagster/table_name": table.name,
        "dagster/uri": table.location,
        "dagster/storage_kind": STORAGE_KIND,
    }


def whole_table_metadata(table: Table, snapshot: Snapshot | None = None) -> dict[str, Any]:
    """What every event about all rows of a table tells of it, at a snapshot or else the latest."""
    found = snapshot or table.history.latest_snapshot()
    return {**table_metadata(table), **({} if found is None else rows_at(table, found))}


def rows_at(table: Table, snapshot: Snapshot) -> dict[str, int]:
    """The rows of a table at a snapshot, or those in its files if these are not to be read alone.

    Files of keyed tables hold versions of a key and retractions, an index may mark rows of any
    table as deleted, and with data evolution several files hold columns of one row.
    """
    in_files = snapshot.total_record_count
    holds_more = table.schema.is_keyed or table.options.data_evolution_enabled
    is_merged = not holds_more and snapshot.index_manifest is None
    return row_counts(in_files, in_files if is_merged else None)


def row_counts(in_files: int, merged: int | None) -> dict[str, int]:
    """The rows of a table by Dagster's key, or those in its files if no more is known."""
    return {ROWS_IN_FILES: in_files} if merged is None else {"dagster/row_count": merged}


def partition_row_counts(in_files: int, merged: int | None) -> dict[str, int]:
    """The same of a partition."""
    return (
        {PARTITION_ROWS_IN_FILES: in_files}
        if merged is None
        else {"dagster/partition_row_count": merged}
    )


def publication_metadata(table: Table, published: Published) -> Metadata:
    """The metadata of a materialization about the whole write."""
    snapshot = published.snapshot or table.history.latest_snapshot()
    survey = None if snapshot is None else survey_written(table, snapshot)
    metadata: dict[str, Any] = {
        **({} if survey is None else overview_metadata(size_figures(survey), survey.taken_ms)),
        "lakewright/rows_written": published.row_count,
        "lakewright/files_written": published.file_count,
        "lakewright/bytes_written": published.size_bytes,
        "lakewright/partitions_written": len(published.partitions),
        "lakewright/commits": published.commits,
        "lakewright/engine": published.engine,
        "lakewright/seconds": round(published.duration_ms / 1000, 3),
    }
    if published.bad_rows:
        metadata["lakewright/rows_left_out"] = published.bad_rows
        if published.rejects is not None:
            metadata["lakewright/rejects"] = published.rejects
    if published.filled.sources:
        metadata["missing_columns"] = dg.MetadataValue.md("\n".join(filled_texts(published.filled)))
    if published.writer is not None:
        metadata["lakewright/writer"] = str(published.writer)
    if snapshot is not None:
        metadata["lakewright/snapshot_id"] = snapshot.id
        metadata |= rows_at(table, snapshot)
    if published.compaction is not None:
        metadata |= _writer_compaction_metadata(published.compaction)
    if published.report.outcomes:
        metadata["lakewright/validation_seconds"] = round(published.report.duration_ms / 1000, 3)
        metadata["lakewright/validation_engine"] = published.report.engine
    return {**metadata, **table_metadata(table)}


def filled_texts(filled: FilledColumns) -> list[str]:
    """The columns that a source lacked, each with the number of its rows and the first file."""
    return [
        f"column {column} is missing in {source}: null, or its default, in "
        + (counted(filled.rows[column], "row") if column in filled.rows else "its rows")
        for column, source in filled.sources.items()
    ]


def overview_metadata(figures: Mapping[str, str], at_ms: int) -> Metadata:
    """The table with which the overview of an asset opens, as it was at a moment."""
    if not figures:
        return {}
    then = f"at {time_text(at_ms)}"
    records = [dg.TableRecord({"": name, then: told}) for name, told in figures.items()]
    return {"overview": dg.MetadataValue.table(records=records)}


def warehouse_metadata(figures: ReportFigures) -> Metadata:
    """The figures of a warehouse, as its page shows them."""
    tables: dict[str, tuple[Sequence[str], Sequence[Sequence[Cell]]]] = {
        "tables": (TABLE_COLUMNS, figures.table_rows(figures.lines)),
        "due and deferred": (DECISION_COLUMNS, figures.decision_rows()),
        "cost and savings, actual / predicted": (SAVING_COLUMNS, figures.saving_rows()),
        "tables of Lakewright itself": (TABLE_COLUMNS, figures.table_rows(figures.own_lines)),
    }
    return {
        **overview_metadata(figures.totals(), figures.seen.at_ms),
        **{
            name: dg.MetadataValue.md(_markdown_of(columns, rows))
            for name, (columns, rows) in tables.items()
            if rows
        },
    }


def _markdown_of(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    table = markdown_table(columns, [list(map(cell_text, row)) for row in rows[:_MAX_ROWS]])
    more = len(rows) - _MAX_ROWS
    return table if more <= 0 else f"{table}\n\nand {more:,} more, on the page"


def size_figures(survey: TableSurvey) -> dict[str, str]:
    """The size of a table, by what a page calls it."""
    files = survey.files
    found = {
        "size": size_text(files.bytes),
        "files": f"{files.files:,}",
        "small files": f"{files.small_files:,}",
        **({"sorted runs": f"{files.sorted_runs:,}"} if survey.keyed else {}),
        "snapshots": f"{survey.history.snapshots:,}",
    }
    if files.waiting_rows:
        found["not readable before a compaction"] = counted(files.waiting_rows, "row")
    return found


def rejected_metadata(table: str, what: str) -> dict[str, dg.MetadataValue[Any]]:
    """That rows were rejected, in the failure of a run; an alert tells it."""
    return {f"{REJECTED}/{table}": dg.MetadataValue.text(what)}


def _writer_compaction_metadata(compaction: WriterCompaction) -> Metadata:
    metadata: dict[str, Any] = {}
    if compaction.postponed is not None:
        metadata["lakewright/rows_given_buckets"] = compaction.postponed.rows_before
    if compaction.result is not None:
        metadata["lakewright/compacted_files_before"] = compaction.result.files_before
        metadata["lakewright/compacted_files_after"] = compaction.result.files_after
        metadata["lakewright/compaction_seconds"] = round(compaction.result.duration_ms / 1000, 3)
    if compaction.failure is not None:
        metadata["lakewright/compaction_failure"] = str(compaction.failure)
    return metadata


def partition_metadata(
    totals: PartitionTotals | None, *, are_all: bool, left_out: int | None = None
) -> Metadata:
    """The metadata of a materialization about one partition; None if the partition got no row.

    `are_all` says whether the written rows are all that readers see in the partition. `left_out` is
    the number of its bad rows, where a run leaves such out.
    """
    rows = "dagster/partition_row_count" if are_all else "lakewright/partition_rows_written"
    return {
        rows: totals.row_count if totals else 0,
        "lakewright/partition_files": totals.file_count if totals else 0,
        "lakewright/partition_bytes": totals.size_bytes if totals else 0,
        **({} if left_out is None else {"lakewright/rows_left_out": left_out}),
    }


def left_out_metadata(rows: Sequence[LeftOutRow], count: int, rejects: str | None) -> Metadata:
    """The rows that a run left out: their number, some of them, and where they are kept."""
    return {
        "rows_left_out": count,
        "sample_of_rows_left_out": rows_table(
            [{"source": e.source, "row": e.text, "reason": e.reason} for e in rows]
        ),
        **({} if rejects is None else {"rejects": rejects}),
    }


def check_metadata(outcome: ExpectationOutcome, *, row_count: int) -> Metadata:
    """The numbers behind a check, and some of the rows that made it fail."""
    metadata: dict[str, Any] = {"expectation": outcome.expectation, "rows_validated": row_count}
    if outcome.error is not None:
        metadata["error"] = outcome.error
    if outcome.checked_count is not None:
        metadata["checked_rows"] = outcome.checked_count
    if outcome.unexpected_count is not None:
        metadata["offending_rows"] = outcome.unexpected_count
    if outcome.checked_count and outcome.unexpected_count is not None:
        share = 100 * outcome.unexpected_count / outcome.checked_count
        metadata["offending_percent"] = round(share, 4)
    if outcome.observed is not None:
        metadata["observed"] = outcome.observed
    if not outcome.met and outcome.unexpected_by_partition:
        metadata["offending_rows_by_partition"] = rows_table(
            [
                {"partition": partition, "offending rows": count}
                for partition, count in outcome.unexpected_by_partition.items()
            ]
        )
    if not outcome.met and outcome.sample:
        metadata["sample"] = rows_table(outcome.sample)
    return metadata


def report_metadata(report: Report) -> Metadata:
    """The metadata of a verb's plan or result, with its tables."""
    metadata: dict[str, Any] = {
        f"lakewright/{name}": fact
        for name, fact in report.facts.items()
        if isinstance(fact, str | int | float)
    }
    if report.snapshot is not None:
        metadata["lakewright/snapshot_id"] = report.snapshot.id
    notes = report.notes[:_MAX_ROWS]
    if notes:
        more = len(report.notes) - len(notes)
        lines = [f"- {note}" for note in (*notes, *([f"and {more:,} more"] if more else []))]
        metadata["reasons"] = dg.MetadataValue.md("\n".join(lines))
    metadata |= {name: rows_table(rows) for name, rows in report.tables.items() if rows}
    return metadata


def findings_metadata(plan: Report | None) -> Mapping[str, dg.MetadataValue]:
    """The verdict and all findings of a plan as a table; empty for a plan that has none."""
    rows = plan.tables.get("findings") if plan is not None else None
    if plan is None or not rows:
        return {}
    names = list(rows[0])
    table = markdown_table(
        [name.replace("_", " ") for name in names], [[row[name] for name in names] for row in rows]
    )
    return {
        "verdict": dg.MetadataValue.text(plan.summary),
        "findings": dg.MetadataValue.md(table),
    }


def markdown_table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table of Markdown."""
    lines = [list(names), ["---"] * len(names)]
    lines += [[_markdown_cell(each) for each in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _markdown_cell(value: object) -> str:
    return "" if value is None else str(value).replace("|", "\\|").replace("\n", " ")


def partition_health_metadata(before: PartitionHealth | None, after: PartitionHealth) -> Metadata:
    """The metadata of a compaction about one partition."""
    metadata: dict[str, Any] = {
        "lakewright/files_after": after.file_count,
        "lakewright/bytes_after": after.size_bytes,
        **partition_row_counts(after.row_count, after.merged_row_count),
    }
    if before is not None:
        metadata["lakewright/files_before"] = before.file_count
        metadata["lakewright/bytes_before"] = before.size_bytes
    return metadata


def rows_table(rows: Sequence[Mapping[str, object]]) -> dg.TableMetadataValue | dg.MetadataValue:
    """Rows as the UI shows tables."""
    return dg.MetadataValue.table(records=first_records(rows))


def first_records(rows: Sequence[Mapping[str, object]]) -> list[dg.TableRecord]:
    """The first rows as records of a table, and a last one that counts those left out, if any."""
    kept = [
        dg.TableRecord({name: _cell(value) for name, value in row.items()})
        for row in rows[:_MAX_ROWS]
    ]
    if len(rows) > len(kept):
        blank: dict[str, str | None] = dict.fromkeys(rows[0])
        blank[next(iter(blank))] = f"and {len(rows) - len(kept):,} more"
        kept.append(dg.TableRecord(blank))
    return kept


def _cell(value: object) -> str | int | float | bool | None:
    if isinstance(value, float) and not math.isfinite(value):
        # JSON has no such number.
        return str(value)
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, (dict, list)):
        return json.dumps(value, default=str)
    return str(value)
