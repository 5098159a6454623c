"""Rows of a connector, for the partitions that a run asks for.

The declared columns and keys are those of the external table. Filters on partitions go to the
connector, if it takes them; rows of other partitions are left out here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa

from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.model.catalog_table import CONNECTOR, CatalogTable
from lakewright.connectors.model.changelog_mode import ChangelogMode, check_fits
from lakewright.connectors.model.written_options import check_no_secret
from lakewright.connectors.planning.plan_source import PlannedScan, ScanRequest, plan_scan
from lakewright.connectors.runtime import ReportsBadRecords
from lakewright.connectors.sources import SupportsSourceColumns
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.stream_declarations import StreamDeclaration
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRows, UnsupportedError
from lakewright.storage.file_reader.bad_rows import BadRow, BadRows
from lakewright.storage.spec.data_types import parse_data_type
from lakewright.storage.spec.extra_columns import ExtraColumns
from lakewright.storage.spec.predicate import And, Leaf, Operator, Or, Predicate
from lakewright.storage.spec.schema import Column
from lakewright.storage.spec.values import from_python


def connector_rows(
    declaration: TableDeclaration,
    catalog: Catalog,
    partitions: Sequence[Mapping[str, object]] | None,
    bad: BadRows | None,
) -> Iterator[pa.Table]:
    """The rows that a declared connector gives.

    Raises:
        UnsupportedError: the source has no end, or gives changes.
        NotFoundError, InvalidOption: there is no such connector, or its options are wrong.
    """
    source = declaration.source
    assert source is not None and source.connector is not None
    where = _filter(declaration, partitions)
    planned = _planned(declaration, catalog, source.connector, source.options, where=where)
    columns_not_read(declaration, planned)
    if not planned.runtime.is_bounded or not planned.mode.is_insert_only:
        raise UnsupportedError(
            f"the source of {declaration.table} ({planned.source.summary}) gives rows without end, "
            "or changes; follow it by INSERT INTO with execution.runtime-mode = streaming"
        )
    # Without rows, the columns are checked all the same.
    yield planned.schema.empty_table()
    yield from planned.rows() if bad is None else _with_bad(planned, bad)


def _with_bad(planned: PlannedScan, bad: BadRows) -> Iterator[pa.Table]:
    """The rows that can be decoded; the others with the bytes that they came as."""
    runtime, source = planned.runtime, planned.source.summary
    if not isinstance(runtime, ReportsBadRecords):
        yield from planned.rows()
        return

    def report(where: str, record: bytes, why: str) -> None:
        text = record.decode(errors="backslashreplace")
        bad.add(BadRow(source=f"{source} {where}", text=text, reason=why))

    yield from planned.rows(lambda split: runtime.read_reporting(split, report))


def columns_not_read(declaration: TableDeclaration, planned: PlannedScan) -> tuple[str, ...]:
    """The columns of the source that the table does not declare, if the connector knows them.

    Raises:
        InvalidRows: there are some, and the declaration says that they are refused.
    """
    source, declared = declaration.source, {column.name for column in declaration.columns}
    assert source is not None
    if not isinstance(planned.source, SupportsSourceColumns):
        return ()
    others = tuple(column for column in planned.source.source_columns() if column not in declared)
    # A table of a database often has more columns than are wanted, so only what is written counts.
    is_told = "extra_columns" in source.model_fields_set
    if others and is_told and source.extra_columns is ExtraColumns.REFUSE:
        raise InvalidRows(
            f"{planned.source.summary} has columns that {declaration.table} does not declare: "
            f"{', '.join(others)}; nothing was read; declare them, or write extra_columns: ignore",
            unknown=others,
        )
    return others


def planned_stream(
    declaration: TableDeclaration, catalog: Catalog, stream: StreamDeclaration
) -> PlannedScan:
    """The scan of a declared stream; changes are those of the table's key.

    Raises:
        UnsupportedError: the source gives changes, and the table has no key.
        NotFoundError, InvalidOption: there is no such connector, or its options are wrong.
    """
    assert stream.connector is not None
    # Partition keys that the stream makes are no columns of the source.
    planned = _planned(
        declaration, catalog, stream.connector, stream.options, without=stream.partition
    )
    taken = ChangelogMode.all() if declaration.primary_key else ChangelogMode.insert_only()
    name = f"the stream of {declaration.table} ({planned.source.summary})"
    check_fits(planned.mode, taken, source_name=name, sink_name=declaration.table)
    return planned


def _planned(
    declaration: TableDeclaration,
    catalog: Catalog,
    connector: str,
    options: Mapping[str, str],
    *,
    where: Predicate | None = None,
    without: Collection[str] = (),
) -> PlannedScan:
    columns = (
        Column(column.name, parse_data_type(column.type))
        for column in declaration.columns
        if column.name not in without
    )
    keys = tuple(partition_column.name for partition_column in declaration.partition_columns)
    check_no_secret(options, f"the source of {declaration.table}")
    table = CatalogTable(
        columns=tuple(columns),
        # Folders of a connector may be partitions of other columns.
        partition_keys=keys if connector == "filesystem" and not without else (),
        primary_keys=tuple(key for key in declaration.primary_key if key not in without),
        options={CONNECTOR: connector, **options},
    )
    context = ExternalTables(catalog).context(declaration.table, table.resolve(declaration.table))
    return plan_scan(context, ScanRequest(where=where))


def _filter(
    declaration: TableDeclaration, partitions: Sequence[Mapping[str, object]] | None
) -> Predicate | None:
    if partitions is None:
        return None
    types = {
        partition_column.name: partition_column.type
        for partition_column in declaration.partition_columns
    }
    if len(types) == 1:
        ((name, kind),) = types.items()
        values = [from_python(spec[name], kind) for spec in partitions]
        held = tuple(each for each in values if each is not None)
        parts: list[Predicate] = [Leaf(name, Operator.IN, held)] if held else []
        parts += [Leaf(name, Operator.IS_NULL)] if len(held) < len(values) else []
        return parts[0] if len(parts) == 1 else Or(tuple(parts))
    return Or(
        tuple(And(tuple(_is(name, spec[name], types) for name in types)) for spec in partitions)
    )


def _is(name: str, value: object, types: Mapping[str, object]) -> Predicate:
    found = from_python(value, types[name])  # type: ignore[arg-type]
    if found is None:
        return Leaf(name, Operator.IS_NULL)
    return Leaf(name, Operator.EQ, (found,))
