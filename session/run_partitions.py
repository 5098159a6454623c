"""The statements on whole partitions, as calls of the verbs."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from lakewright.session.results import StatementResult, counted, done, table_of
from lakewright.session.settings import Settings
from lakewright.storage.catalog import Catalog
from lakewright.storage.errors import InvalidRequestError, InvalidStatement, PartitionExists
from lakewright.storage.format_table import FormatTable
from lakewright.storage.operations.format_tables.format_spec import TABLE_TYPES, TYPE_OPTION
from lakewright.storage.spec.data_types import AtomicType, DataType, quote_name
from lakewright.storage.spec.literals import Moment, fitted, plain
from lakewright.storage.spec.partition_text import value_text
from lakewright.storage.spec.schema_change import ResetOption, SetOption
from lakewright.storage.spec.untold_partitions import UNTOLD, with_partition, without_partition
from lakewright.storage.sql.grammar.statements import (
    AddPartitions,
    DropPartitions,
    ExchangePartitions,
    RenamePartition,
    RepairTable,
    ShowPartitions,
    Spec,
    TrackChanges,
)
from lakewright.storage.table import Table


def clause_text(spec: Mapping[str, object]) -> str:
    """Partition values as a clause names them: `dt='2024-01-01',hour=7`."""
    return ",".join(f"{_name(name)}={_literal(value)}" for name, value in spec.items())


def _name(name: str) -> str:
    return name if name.isidentifier() else quote_name(name)


def _literal(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case int() | Decimal():
            return value_text(value)
        case _:
            text = value_text(value).replace("\\", "\\\\").replace("'", "''")
            return f"'{text}'"


def clause_values(table: Table, spec: Spec) -> dict[str, object]:
    """The values of a clause; columns that are no partition columns are left to the verb.

    Raises:
        InvalidStatement: a literal is of another type than its column.
    """
    fields = {field.name: field for field in table.schema.partition_fields}
    for name, value in spec:
        try:
            if name in fields:
                _check_fits(value, fields[name].type)
        except InvalidRequestError as error:
            shown = repr(value)
            if isinstance(value, Moment):
                shown = f"{value.kind.value} '{value.text}'"
            raise InvalidStatement(
                f"partition column {name} of {table.name} is {fields[name].type}, and {shown} is "
                f"not: {error.__cause__ or error.message}"
            ) from error
    return {name: plain(value) for name, value in spec}


def _check_fits(value: object, data_type: DataType) -> None:
    # A column that is filled holds a moment as text; a partition is named by a value of its type.
    is_text = isinstance(data_type, AtomicType) and data_type.root.is_text
    if is_text and isinstance(value, Moment):
        raise InvalidRequestError(f"text is expected; write '{value.text}'")
    fitted(value, data_type)


def is_format_table(table: Table) -> bool:
    """Whether a table is one of plain files."""
    return table.schema.options.get(TYPE_OPTION) in TABLE_TYPES


def show_partitions(catalog: Catalog, name: str, asked: ShowPartitions) -> StatementResult:
    """The partitions in the order of their texts."""
    table = _partitioned(catalog.table(name))
    wanted = clause_values(table, asked.spec)
    stored = table.table_files.partitions.stored(wanted)
    if is_format_table(table):
        specs = list(catalog.format_table(name).partitions())
        keys = table.table_files.partitions
        specs = [each for each in specs if stored.items() <= keys.stored(each).items()]
    else:
        found = table.at().partitions(named=[wanted] if wanted else None)
        specs = [each.spec for each in found]
    return table_of({"partition": "STRING"}, sorted([clause_text(spec)] for spec in specs))


def add_partitions(
    catalog: Catalog, name: str, asked: AddPartitions, settings: Settings
) -> StatementResult:
    """Take over the folder of each partition; in a format table, make and register them."""
    table = _partitioned(catalog.table(name))
    if is_format_table(table):
        if any(folder is not None for _, folder in asked.partitions):
            raise InvalidStatement(
                f"partitions of {name} lie in its own folder; leave LOCATION out"
            )
        specs = [_whole(table, spec) for spec, _ in asked.partitions]
        catalog.format_table(name).add_partitions(*specs, if_not_exists=asked.if_not_exists)
        return done(
            f"{counted(len(specs), 'partition')} of {name} added", table=name, partitions=len(specs)
        )
    wanted = []
    for spec, folder in asked.partitions:
        whole = _whole(table, spec)
        if folder is None:
            raise InvalidStatement(
                f"say where the files of ({clause_text(whole)}) lie: ADD PARTITION "
                f"({clause_text(whole)}) LOCATION '…'; a partition without files appears in {name} "
                "as soon as rows are inserted"
            )
        if asked.if_not_exists and table.at().partitions(named=[whole]):
            continue
        # Each is planned before the first is added, so that what is wrong is found first.
        plan = table.upkeep.plan_add_partitions(folder, partition=whole, age_ms=settings.age_ms)
        if not plan.partitions:
            raise PartitionExists(
                f"partition ({clause_text(whole)}) of {name} exists already, with all files of "
                f"{folder}; IF NOT EXISTS leaves it as it is"
            )
        wanted.append((whole, folder))
    rows = files = 0
    for whole, folder in wanted:
        verbs = catalog.table(name).upkeep
        result = verbs.add_partitions(folder, partition=whole, age_ms=settings.age_ms)
        rows, files = rows + result.rows, files + result.files
    return done(
        f"{counted(len(wanted), 'partition')} of {name} added, with {counted(files, 'file')} and "
        f"{counted(rows, 'row')}",
        table=name,
        partitions=len(wanted),
        files=files,
        rows=rows,
    )


def drop_partitions(catalog: Catalog, name: str, asked: DropPartitions) -> StatementResult:
    """Drop all partitions that have the values of a spec."""
    table = _partitioned(catalog.table(name))
    specs = [clause_values(table, spec) for spec in asked.specs]
    if is_format_table(table):
        catalog.format_table(name).drop_partitions(
            *(_whole(table, spec) for spec in asked.specs),
            delete_files=asked.purge,
            if_exists=asked.if_exists,
        )
        return done(
            f"{counted(len(specs), 'partition')} of {name} dropped",
            table=name,
            partitions=len(specs),
        )
    result = table.upkeep.drop_partitions(partitions=specs, if_exists=asked.if_exists)
    dropped = len(result.partitions)
    return done(
        f"{counted(dropped, 'partition')} of {name} dropped",
        table=name,
        partitions=dropped,
        snapshot=None if result.snapshot is None else result.snapshot.id,
    )


def rename_partition(catalog: Catalog, name: str, asked: RenamePartition) -> StatementResult:
    """Other values for the keys of a partition."""
    table = _partitioned(catalog.table(name))
    spec, to = _whole(table, asked.spec), _whole(table, asked.to)
    result = table.upkeep.rename_partition(spec, to)
    return done(
        f"partition ({clause_text(spec)}) of {name} is ({clause_text(to)}) now",
        table=name,
        rows=result.rows,
        snapshot=result.snapshot.id,
    )


def exchange_partitions(
    catalog: Catalog, name: str, source: str, asked: ExchangePartitions
) -> StatementResult:
    """Partitions move from the source to the table."""
    table = _partitioned(catalog.table(name))
    specs = [clause_values(table, spec) for spec in asked.specs]
    result = table.upkeep.exchange_partition(source, specs)
    moved = len(result.partitions)
    return done(
        f"{counted(moved, 'partition')} moved from {source} to {name}",
        table=name,
        source=source,
        partitions=moved,
    )


def track_changes(catalog: Catalog, name: str, asked: TrackChanges) -> StatementResult:
    """Whether writers keep changelogs of partitions, and readers of changes look at them."""
    table = catalog.table(name)
    spec, files = clause_values(table, asked.spec), table.table_files
    given = (table.schema.options, files.partitions.stored(spec), files.partitions.keys, name)
    value = without_partition(*given) if asked.on else with_partition(*given)
    change = ResetOption(UNTOLD) if value is None else SetOption(UNTOLD, value)
    if table.schema.options.get(UNTOLD) != value:
        table = table.alter(change)
    told = "tracked" if asked.on else "not tracked"
    return done(
        f"changes of {name} in {clause_text(spec)} are {told}; schema {table.schema.id}",
        table=name,
        partition=spec,
        change_tracking=asked.on,
    )


def repair_table(
    catalog: Catalog, name: str, asked: RepairTable, settings: Settings
) -> StatementResult:
    """What the folders have and the table lacks, and the other way round, by the mode."""
    table = _partitioned(catalog.table(name))
    if is_format_table(table):
        return _repair_folders(catalog.format_table(name), asked.mode)
    plan = table.upkeep.plan_repair_partitions(mode=asked.mode, age_ms=settings.age_ms)
    result = table.upkeep.run(plan)
    left = [f"{each.folder}: {each.reason}" for each in plan.left]
    return done(
        f"{name} is repaired ({asked.mode}): {counted(result.files_added, 'file')} added, "
        f"{result.files_dropped} dropped" + "".join(f"; skipped: {each}" for each in left),
        table=name,
        files_added=result.files_added,
        rows_added=result.rows_added,
        files_dropped=result.files_dropped,
        rows_dropped=result.rows_dropped,
        snapshot=None if result.snapshot is None else result.snapshot.id,
    )


def _repair_folders(table: FormatTable, mode: str) -> StatementResult:
    drift = table.repair_partitions(mode)
    found, gone = ([clause_text(each.spec) for each in part] for part in (drift.found, drift.gone))
    return done(
        f"{table.name} is repaired ({mode}): {counted(len(found), 'folder')} found, "
        f"{len(gone)} gone, {len(drift.left)} left",
        table=table.name,
        found=found,
        gone=gone,
        left=dict(drift.left),
    )


def _partitioned(table: Table) -> Table:
    """The table, if it has partitions.

    Raises:
        InvalidStatement: it has none.
    """
    if not table.schema.partition_keys:
        raise InvalidStatement(f"{table.name} is not partitioned; it has no partition columns")
    return table


def _whole(table: Table, given: Spec) -> dict[str, object]:
    """A spec that names one partition: each key has a value, and the order is the table's.

    Raises:
        InvalidStatement: a key has no value.
    """
    keys = table.schema.partition_keys
    spec = clause_values(table, given)
    table.table_files.partitions.stored(spec)
    missing = [key for key in keys if key not in spec]
    if missing:
        raise InvalidStatement(
            f"({clause_text(spec)}) does not name one partition of {table.name}: give "
            f"{', '.join(missing)} a value"
        )
    return {key: spec[key] for key in keys}
