"""System tables: a table's metadata as rows, with the names, columns and order of the format.

They are read from metadata alone, except three. `audit_log` holds the table's rows with their
kinds, including deletions that files still hold. `ro` holds the rows that a full compaction has
merged, or all rows of tables without keys. `row_tracking` holds the rows of a table with row
tracking, with their ids and the snapshots that wrote them last. Partitions are printed as
`{v1, v2}`, in `partitions` as `k1=v1/k2=v2`; times are UTC.

Source: Paimon, classes of `table.system`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.arrow_values import keep_matching
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.changes.change_plan import ChangePlan
from lakewright.storage.operations.changes.change_read import ChangeReader
from lakewright.storage.operations.changes.incremental import plan_audit_log
from lakewright.storage.operations.inspection.system_table_files import (
    bucket_rows,
    data_file_rows,
    manifest_rows,
    partition_rows,
    table_index_rows,
)
from lakewright.storage.operations.inspection.system_table_history import (
    Row,
    View,
    aggregation_field_rows,
    branch_rows,
    consumer_rows,
    option_rows,
    schema_rows,
    snapshot_rows,
    statistics_rows,
    tag_rows,
)
from lakewright.storage.operations.read.expired_reads import told_if_expired
from lakewright.storage.operations.read.read import SplitReader
from lakewright.storage.operations.read.scan import plan_scan
from lakewright.storage.operations.read.unfit_values import logged
from lakewright.storage.spec.data_types import DataField, parse_data_type
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.rows import ROW_KIND_COLUMN
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported

AUDIT_LOG = "audit_log"
READ_OPTIMIZED = "ro"
ROW_TRACKING = "row_tracking"
# The column of row kinds in `audit_log`.
ROW_KIND_NAME = "rowkind"


@dataclass(frozen=True, slots=True)
class SystemTable:
    """One system table: its columns, and the function that makes its rows."""

    fields: tuple[DataField, ...]
    rows: Callable[[View], Iterable[Row]]


def system_table_names() -> tuple[str, ...]:
    """The names of all system tables."""
    return tuple(sorted((*_TABLES, AUDIT_LOG, READ_OPTIMIZED, ROW_TRACKING)))


def check_system_table(files: TableFiles, name: str) -> None:
    """Check that a system table exists.

    Raises:
        InvalidRequestError: it does not exist; the message lists the existing names.
    """
    if name not in system_table_names():
        raise InvalidRequestError(
            f"{files.name} has no system table {name!r}; there are "
            f"{', '.join(system_table_names())}"
        )


def system_table_schema(files: TableFiles, name: str) -> TableSchema:
    """The columns of a system table, as a schema for parsing filters.

    Raises:
        InvalidRequestError: the system table does not exist.
    """
    check_system_table(files, name)
    if name == READ_OPTIMIZED:
        return files.schema
    if name == ROW_TRACKING:
        return _tracked(files).schema
    if name != AUDIT_LOG:
        fields = _TABLES[name].fields
    else:
        kind = DataField(-1, ROW_KIND_NAME, parse_data_type("STRING NOT NULL"))
        fields = (kind, *files.schema.fields)
    return TableSchema(id=0, fields=fields, highest_field_id=len(fields))


def read_system_table(
    files: TableFiles, name: str, snapshot: Snapshot | None, predicate: Predicate | None = None
) -> pa.Table:
    """A system table at a snapshot; tables that do not depend on one show the current state.

    Raises:
        InvalidRequestError: the system table does not exist.
    """
    schema = system_table_schema(files, name)
    if name == READ_OPTIMIZED:
        return _merged_already(files, snapshot, predicate)
    if name == ROW_TRACKING:
        return _merged_already(_tracked(files), snapshot, predicate)
    arrow_schema = to_arrow_schema(schema.fields)
    if name == AUDIT_LOG:
        plan = plan_audit_log(files, snapshot)
        parts = list(audit_log_rows(files, plan))
        nullable = pa.schema([field.with_nullable(True) for field in arrow_schema])
        rows = pa.concat_tables([nullable.empty_table(), *(part.cast(nullable) for part in parts)])
    else:
        listed = list(_TABLES[name].rows(View(files, snapshot)))
        columns = [
            pa.array([row[index] for row in listed], field.type)
            for index, field in enumerate(arrow_schema)
        ]
        rows = pa.table(columns, schema=arrow_schema)
    return keep_matching(rows, predicate, schema)


def _tracked(files: TableFiles) -> TableFiles:
    if not files.options.row_tracking_enabled:
        raise InvalidRequestError(
            f"{files.name} does not track rows: row-tracking.enabled is not true, so it has no "
            f"system table {ROW_TRACKING}"
        )
    return files.with_row_ids()


def _merged_already(
    files: TableFiles, snapshot: Snapshot | None, predicate: Predicate | None
) -> pa.Table:
    """The rows of the deepest level, which need no merge."""
    check_supported(files.schema, Use.READ, table=files.name)
    deepest = range(files.options.max_level, files.options.num_levels)
    levels = deepest if files.schema.has_primary_key else None
    snapshot_id = None if snapshot is None else snapshot.id
    with told_if_expired(files, snapshot_id):
        plan = plan_scan(files, snapshot, predicate, levels=levels)
    reader = SplitReader(files, columns=None, predicate=predicate, snapshot_id=snapshot_id)
    schema = reader.arrow_schema
    with logged(reader.nulled, files.name):
        parts = [rows.cast(schema) for split in plan.splits for rows in reader.read(split)]
    return pa.concat_tables([schema.empty_table(), *parts])


def audit_log_rows(files: TableFiles, plan: ChangePlan) -> Iterator[pa.Table]:
    """The rows of `audit_log`, or of any change plan, piece by piece."""
    reader = ChangeReader(files, columns=None, predicate=None, snapshot_ids=plan.snapshot_ids)
    names = [
        ROW_KIND_NAME if name == ROW_KIND_COLUMN else name for name in reader.arrow_schema.names
    ]
    with logged(reader.nulled, files.name):
        for split in plan.splits:
            for rows in reader.read(split):
                yield rows.rename_columns(names)


def _columns(**types: str) -> tuple[DataField, ...]:
    return tuple(
        DataField(index, name, parse_data_type(text))
        for index, (name, text) in enumerate(types.items())
    )


_TEXT = "STRING NOT NULL"
_NUMBER = "BIGINT NOT NULL"
_TIME = "TIMESTAMP(3) NOT NULL"

_TABLES: dict[str, SystemTable] = {
    "snapshots": SystemTable(
        _columns(
            snapshot_id=_NUMBER,
            schema_id=_NUMBER,
            commit_user=_TEXT,
            commit_identifier=_NUMBER,
            commit_kind=_TEXT,
            commit_time=_TIME,
            base_manifest_list=_TEXT,
            delta_manifest_list=_TEXT,
            changelog_manifest_list="STRING",
            total_record_count="BIGINT",
            delta_record_count="BIGINT",
            changelog_record_count="BIGINT",
            watermark="BIGINT",
            next_row_id="BIGINT",
            operation="STRING",
            writer_version="STRING",
        ),
        snapshot_rows,
    ),
    "schemas": SystemTable(
        _columns(
            schema_id=_NUMBER,
            fields=_TEXT,
            partition_keys=_TEXT,
            primary_keys=_TEXT,
            options=_TEXT,
            comment="STRING",
            update_time=_TIME,
        ),
        schema_rows,
    ),
    "options": SystemTable(_columns(key=_TEXT, value=_TEXT), option_rows),
    "files": SystemTable(
        _columns(
            partition="STRING",
            bucket="INT NOT NULL",
            file_path=_TEXT,
            file_format=_TEXT,
            schema_id=_NUMBER,
            level="INT NOT NULL",
            record_count=_NUMBER,
            file_size_in_bytes=_NUMBER,
            min_key="STRING",
            max_key="STRING",
            null_value_counts=_TEXT,
            min_value_stats=_TEXT,
            max_value_stats=_TEXT,
            min_sequence_number="BIGINT",
            max_sequence_number="BIGINT",
            creation_time="TIMESTAMP(3)",
            deleteRowCount="BIGINT",
            file_source="STRING",
            first_row_id="BIGINT",
            write_cols="ARRAY<STRING>",
        ),
        data_file_rows,
    ),
    "manifests": SystemTable(
        _columns(
            file_name=_TEXT,
            file_size=_NUMBER,
            num_added_files=_NUMBER,
            num_deleted_files=_NUMBER,
            schema_id=_NUMBER,
            min_partition_stats="STRING",
            max_partition_stats="STRING",
            min_row_id="BIGINT",
            max_row_id="BIGINT",
        ),
        manifest_rows,
    ),
    "partitions": SystemTable(
        _columns(
            partition="STRING",
            record_count=_NUMBER,
            file_size_in_bytes=_NUMBER,
            file_count=_NUMBER,
            last_update_time="TIMESTAMP(3)",
            created_at="TIMESTAMP(3)",
            created_by="STRING",
            updated_by="STRING",
            options="STRING",
            total_buckets="INT NOT NULL",
            done="BOOLEAN NOT NULL",
            deleted_record_count="BIGINT",
        ),
        partition_rows,
    ),
    "buckets": SystemTable(
        _columns(
            partition="STRING",
            bucket="INT NOT NULL",
            record_count=_NUMBER,
            file_size_in_bytes=_NUMBER,
            file_count=_NUMBER,
            last_update_time="TIMESTAMP(3)",
        ),
        bucket_rows,
    ),
    "tags": SystemTable(
        _columns(
            tag_name=_TEXT,
            snapshot_id=_NUMBER,
            schema_id=_NUMBER,
            commit_time=_TIME,
            record_count="BIGINT",
            create_time="TIMESTAMP(3)",
            time_retained="STRING",
        ),
        tag_rows,
    ),
    "branches": SystemTable(_columns(branch_name=_TEXT, create_time=_TIME), branch_rows),
    "consumers": SystemTable(_columns(consumer_id=_TEXT, next_snapshot_id=_NUMBER), consumer_rows),
    "statistics": SystemTable(
        _columns(
            snapshot_id=_NUMBER,
            schema_id=_NUMBER,
            mergedRecordCount="BIGINT",
            mergedRecordSize="BIGINT",
            colstat="STRING",
        ),
        statistics_rows,
    ),
    "aggregation_fields": SystemTable(
        _columns(
            field_name=_TEXT,
            field_type=_TEXT,
            function="STRING",
            function_options="STRING",
            comment="STRING",
        ),
        aggregation_field_rows,
    ),
    "table_indexes": SystemTable(
        _columns(
            partition="STRING",
            bucket="INT NOT NULL",
            index_type=_TEXT,
            file_name=_TEXT,
            file_size=_NUMBER,
            row_count=_NUMBER,
            dv_ranges=(
                "ARRAY<ROW<f0 STRING NOT NULL, f1 INT NOT NULL, f2 INT NOT NULL, "
                "_CARDINALITY BIGINT> NOT NULL>"
            ),
            row_range_start="BIGINT",
            row_range_end="BIGINT",
            index_field_id="INT",
            index_field_name="STRING",
        ),
        table_index_rows,
    ),
}
