"""`lakewright show`: the description of one table from its metadata, as JSON and as text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass

from lakewright.cli.output.tables import Block, Facts, Heading, TextColumn, TextTable
from lakewright.cli.output.text import Cell, iso_time, time_text
from lakewright.platform.upkeep.refused import refused_text
from lakewright.platform.upkeep.words import counted, duration_text, size_text
from lakewright.storage import CondemnedRun, Lease, PartitionStats, Snapshot, Table, TableSchema
from lakewright.storage.errors import SchemaMoved, StorageError
from lakewright.storage.lsm.bin_packing import SMALL_FILE_RATIO
from lakewright.storage.operations.iceberg.metadata_files import IcebergStatus, read_status
from lakewright.storage.operations.inspection.late_writers import LateWriter
from lakewright.storage.operations.rewrite.compaction_plan import CompactionPlan
from lakewright.storage.secret_texts import shown_options
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.supported_options import Use


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """The description of a table.

    `leases_refusal` is the error of reading its leases. `refused` has the uses that are not
    possible, with the reasons, and `upkeep_refusal` says why no compaction is planned. `compaction`
    is the plan of
    a compaction with the table's own options. `away_files` are named by their places.
    `has_other_keys` says that files have other partition keys than the table, and `late_writers`
    are the clients that wrote them.
    """

    table: Table
    snapshots: tuple[Snapshot, ...]
    partitions: tuple[PartitionStats, ...]
    compaction: CompactionPlan | None
    away_files: int
    away_bytes: int
    has_other_keys: bool
    late_writers: tuple[LateWriter, ...]
    refused: Mapping[str, str]
    upkeep_refusal: str | None
    condemned: tuple[CondemnedRun, ...] = ()
    leases: tuple[Lease, ...] = ()
    leases_refusal: str | None = None
    iceberg: IcebergStatus | None = None

    @property
    def files(self) -> int:
        return sum(partition.file_count for partition in self.partitions)

    @property
    def small_files(self) -> int:
        return sum(partition.small_file_count for partition in self.partitions)

    @property
    def size_bytes(self) -> int:
        return sum(partition.size_bytes for partition in self.partitions)

    @property
    def rows_in_files(self) -> int:
        return sum(partition.row_count for partition in self.partitions)

    @property
    def buckets(self) -> int:
        return sum(len(partition.buckets) for partition in self.partitions)

    @property
    def most_sorted_runs(self) -> int:
        return max(
            (
                bucket.sorted_run_count
                for partition in self.partitions
                for bucket in partition.buckets
            ),
            default=0,
        )


def report_table(table: Table) -> TableReport:
    """Describe a table from metadata, even if it has options that are not implemented."""
    refused = {use.value: reason for use, reason in table.inspect.refused_uses().items()}
    compaction, upkeep_refusal = _compaction(table, refused.get(Use.COMPACT.value))
    leases, leases_refusal = _leases(table)
    layout = table.inspect.layout()
    has_other_keys = not table.inspect.files_fit(layout)
    return TableReport(
        table=table,
        snapshots=table.history.snapshots(),
        partitions=table.at().partitions(),
        compaction=compaction,
        away_files=layout.buckets.away_files,
        away_bytes=layout.buckets.away_bytes,
        has_other_keys=has_other_keys,
        late_writers=table.inspect.late_writers() if has_other_keys else (),
        refused=refused,
        upkeep_refusal=upkeep_refusal,
        condemned=_condemned(table),
        leases=leases,
        leases_refusal=leases_refusal,
        iceberg=_iceberg(table),
    )


def _iceberg(table: Table) -> IcebergStatus | None:
    """What Iceberg readers see; nothing if that cannot be read, which its verb tells."""
    with suppress(StorageError):
        return read_status(table.table_files)
    return None


def _compaction(table: Table, refusal: str | None) -> tuple[CompactionPlan | None, str | None]:
    """The plan of a compaction, or why there is none."""
    if refusal is not None:
        return None, refusal
    try:
        return table.upkeep.plan_compact(), None
    except SchemaMoved as error:
        # Its files have other partition keys.
        return None, error.message


def _condemned(table: Table) -> tuple[CondemnedRun, ...]:
    """What verbs have condemned; nothing if a record is damaged, which `collect` tells."""
    with suppress(StorageError):
        return table.upkeep.condemned()
    return ()


def _leases(table: Table) -> tuple[tuple[Lease, ...], str | None]:
    """The leases of a table, or the error of reading them; the report goes on."""
    try:
        return table.upkeep.leases(), None
    except StorageError as error:
        return (), error.message


def report_json(report: TableReport) -> dict[str, object]:
    """The report for scripts."""
    table, schema = report.table, report.table.schema
    latest = report.snapshots[-1] if report.snapshots else None
    plan = report.compaction
    return {
        "table": table.name,
        "location": table.location,
        "comment": schema.comment,
        "schema_id": schema.id,
        "columns": column_records(schema),
        "primary_key": list(schema.primary_keys),
        "partition_keys": list(schema.partition_keys),
        "bucket": table.options.bucket,
        "bucket_key": list(table.options.bucket_keys),
        "options": shown_options(schema.options),
        "snapshot": None
        if latest is None
        else {
            "id": latest.id,
            "time": iso_time(latest.time_millis),
            "commit_kind": latest.commit_kind.value,
            "schema_id": latest.schema_id,
        },
        "snapshot_count": len(report.snapshots),
        "earliest_snapshot_id": report.snapshots[0].id if report.snapshots else None,
        "partition_count": len(report.partitions),
        "bucket_count": report.buckets,
        "file_count": report.files,
        "size_bytes": report.size_bytes,
        "rows_in_files": report.rows_in_files,
        "condemned_file_count": sum(each.files for each in report.condemned),
        "condemned_bytes": sum(each.bytes for each in report.condemned),
        "health": {
            "small_file_count": report.small_files,
            "most_sorted_runs": report.most_sorted_runs,
            "has_other_keys": report.has_other_keys,
            "late_writers": [asdict(late_writer) for late_writer in report.late_writers],
            "read_refusal": report.refused.get(Use.READ.value),
            "refused": dict(report.refused),
            "upkeep_refusal": report.upkeep_refusal,
            "away_file_count": report.away_files,
            "compaction": None
            if plan is None
            else {
                "tasks": len(plan.tasks),
                "files": plan.files_before,
                "size_bytes": plan.bytes_before,
                "rows": plan.rows,
            },
            "at_work": [
                {"holder": lease.holder, "work": lease.kind.value, "on": str(lease.scope)}
                for lease in report.leases
            ],
            "leases_refusal": report.leases_refusal,
            "iceberg": None if report.iceberg is None else asdict(report.iceberg),
        },
    }


def column_records(schema: TableSchema) -> list[dict[str, object]]:
    """The columns of a table for scripts."""
    return [
        {
            "id": field.id,
            "name": field.name,
            "type": str(field.type),
            "nullable": field.type.nullable,
            "comment": field.description,
        }
        for field in schema.fields
    ]


def report_text(report: TableReport) -> list[Block]:
    """The report for people."""
    table, schema = report.table, report.table.schema
    facts = {
        "location": table.location,
        "comment": schema.comment,
        "kind": _kind(table),
        "primary key": ", ".join(schema.primary_keys),
        "partitioned by": ", ".join(schema.partition_keys),
        "snapshot": _snapshot(report),
    }
    text: list[Block] = [Heading(table.name), Facts(facts), ""]
    text += [Heading(f"columns (schema {schema.id})"), column_table(schema), ""]
    if schema.options:
        text += [Heading("options"), Facts(shown_options(schema.options)), ""]
    text += [Heading("contents"), Facts(_contents(report)), ""]
    return [*text, Heading("health"), Facts(_health(report))]


def _kind(table: Table) -> str:
    options = table.options
    keyed = "primary-key table" if table.schema.has_primary_key else "append table"
    by = ", ".join(options.bucket_keys)
    match options.bucket_mode:
        case BucketMode.UNAWARE:
            return keyed
        case BucketMode.DYNAMIC:
            return f"{keyed}, dynamic buckets, found by an index of keys"
        case BucketMode.POSTPONE:
            return f"{keyed}, postponed buckets, assigned by {by} after the write"
        case BucketMode.FIXED:
            return f"{keyed}, {counted(options.bucket, 'bucket')} by {by}"


def _snapshot(report: TableReport) -> str:
    if not report.snapshots:
        return "none: nothing was committed yet"
    latest, earliest = report.snapshots[-1], report.snapshots[0]
    text = f"{latest.id} ({latest.commit_kind.value}, {time_text(latest.time_millis)} UTC)"
    if earliest.id == latest.id:
        return f"{text}, the only one"
    return f"{text}, {len(report.snapshots)} kept from {earliest.id} on"


def column_table(schema: TableSchema) -> TextTable:
    """The columns of a table for people."""
    described = any(field.description for field in schema.fields)
    columns = [TextColumn("name"), TextColumn("type"), TextColumn("key")]
    rows: list[list[Cell]] = []
    for field in schema.fields:
        keys = [
            name
            for name, names in (
                ("primary", schema.primary_keys),
                ("partition", schema.partition_keys),
            )
            if field.name in names
        ]
        row: list[Cell] = [field.name, str(field.type), ", ".join(keys)]
        rows.append([*row, field.description or ""] if described else row)
    if described:
        columns.append(TextColumn("comment"))
    return TextTable(columns, rows, indent=2)


def _contents(report: TableReport) -> dict[str, str]:
    contents = {
        "partitions": f"{len(report.partitions):,}" if report.table.schema.partition_keys else "",
        "buckets": f"{report.buckets:,}",
        "files": f"{report.files:,}",
        "size": size_text(report.size_bytes),
        "rows": f"{report.rows_in_files:,}",
    }
    if report.condemned:
        count = sum(each.files for each in report.condemned)
        size = sum(each.bytes for each in report.condemned)
        until = time_text(max(each.due_ms for each in report.condemned))
        contents["marked for deletion"] = (
            f"{counted(count, 'file')}, {size_text(size)} more, which can be restored until "
            f"{until} UTC"
        )
    if report.table.schema.has_primary_key:
        contents["rows"] += " in files, including older versions of a key"
    elif report.table.options.deletion_vectors_enabled:
        contents["rows"] += " in files, including deleted ones"
    elif report.table.options.data_evolution_enabled:
        contents["rows"] += " in files, of which some hold single columns of the same rows"
    return contents


def _readers_text(table: Table, status: IcebergStatus) -> str:
    now_ms = table.table_files.env.now_ms()

    def age(since_ms: int) -> str:
        return duration_text(max(now_ms - since_ms, 0))

    if status.snapshot_id is None:
        return f"see nothing yet: lakewright publish-iceberg {table.name}"
    told = f"see snapshot {status.snapshot_id}, at {status.location}"
    if status.unseen_since_ms is not None:
        told += f", and no commit of the last {age(status.unseen_since_ms)}"
    if status.shows_merged:
        when = "before any" if status.merged_ms is None else f"of {age(status.merged_ms)} ago"
        told += f"; of the rows, those of the last full compaction, {when}"
    return told


def _health(report: TableReport) -> dict[str, str]:
    options = report.table.options
    small = round(options.target_file_size * SMALL_FILE_RATIO)
    health = {
        "small files": f"{report.small_files:,} of {report.files:,}, below {size_text(small)}"
    }
    if report.table.schema.has_primary_key:
        health["sorted runs"] = (
            f"at most {report.most_sorted_runs} in a bucket, merged from "
            f"{options.num_sorted_run_compaction_trigger} on"
        )
    for each in report.condemned:
        if each.stopped:
            health["half done"] = (
                f"{each.verb.replace('_', ' ')}, whose process died: carry it out again, or "
                f"`lakewright condemned put-back {shlex.quote(report.table.name)} {each.id}`"
            )
    refused = refused_text(report.refused)
    if refused is not None:
        health["refused"] = refused
    if report.has_other_keys:
        keys = report.table.schema.partition_keys
        # With the verb come the declarations, which a table with one set of keys does not need.
        from lakewright.platform.upkeep.respec import other_keys_text

        health["partition keys"] = other_keys_text(report.table.name, keys, report.late_writers)
    if report.away_files:
        from lakewright.platform.upkeep.settle import away_text

        health["places"] = away_text(report.table.name, report.away_files, report.away_bytes)
    if report.iceberg is not None:
        health["Iceberg readers"] = _readers_text(report.table, report.iceberg)
    plan = report.compaction
    if plan is None:
        if refused is None:
            health["compaction"] = f"not possible: {report.upkeep_refusal}"
    elif plan.tasks:
        health["compaction"] = (
            f"would rewrite {counted(plan.files_before, 'file')} "
            f"({size_text(plan.bytes_before)}, {counted(plan.rows, 'row')}) "
            f"in {counted(len(plan.tasks), 'task')}"
        )
    else:
        health["compaction"] = "nothing to do"
    waiting = sum(partition.waiting_row_count for partition in report.partitions)
    if waiting:
        postponed = report.table.options.bucket_mode is BucketMode.POSTPONE
        verb = "postpone-compact" if postponed else "compact"
        health["waiting"] = (
            f"{counted(waiting, 'row')} that readers see only after: lakewright {verb} "
            f"{shlex.quote(report.table.name)}"
        )
    if report.leases:
        health["at work"] = "; ".join(
            f"{lease.holder} ({lease.kind.value}: {lease.scope})" for lease in report.leases
        )
    if report.leases_refusal is not None:
        health["at work"] = f"not known: {report.leases_refusal}"
    return health
