"""Creates a table: writes its first schema file only if none exists."""

from __future__ import annotations

from dataclasses import replace

from lakewright.storage.codec.default_values import check_default
from lakewright.storage.env import Env, FileSystem
from lakewright.storage.errors import AlreadyExistsError, InvalidSchema
from lakewright.storage.files.metadata_stores import SchemaStore
from lakewright.storage.files.paths import TablePaths
from lakewright.storage.operations.running.delete_files import is_half_dropped
from lakewright.storage.spec.aggregate_options import OVERFLOW, REFUSE
from lakewright.storage.spec.bucketing import check_said_once, distributed
from lakewright.storage.spec.client_rules import check_clients_open
from lakewright.storage.spec.data_types import AtomicType
from lakewright.storage.spec.merge_options import read_merge_spec
from lakewright.storage.spec.merge_spec import AggregateFunction
from lakewright.storage.spec.schema import SchemaSpec, TableSchema, new_schema
from lakewright.storage.spec.supported_options import check_new_options


def create_table(
    fs: FileSystem, root: str, spec: SchemaSpec, *, table: str, env: Env
) -> TableSchema:
    """Write schema-0.

    Raises:
        AlreadyExistsError: the table exists, or its drop was stopped halfway.
        InvalidSchema, InvalidOption, UnsupportedError: as `checked_schema`.
    """
    schema = checked_schema(spec, table=table, env=env)
    store = SchemaStore(fs, TablePaths(root))
    if is_half_dropped(fs, root):
        # The remains of the old table would become history of the new table.
        raise AlreadyExistsError(
            f"table {table} is still partly at {root}: a drop of it was stopped halfway; drop it "
            "again, then create it"
        )
    if store.ids() or not store.put_schema(schema):
        raise AlreadyExistsError(f"table {table} exists already at {root}")
    # Another process may have made the parent folders a moment ago.
    fs.make_durable([store.paths.schema(schema.id)], below="/")
    return schema


def checked_schema(spec: SchemaSpec, *, table: str, env: Env) -> TableSchema:
    """The first schema, with explicit file format and bucket, so that no later defaults apply.

    The options `primary-key` and `partition` are keys, as Paimon's statements give them.

    Raises:
        InvalidSchema: the schema is invalid, or its keys are given twice.
        InvalidOption: another client would not open the table with an option, or an option and the
            distribution both speak of buckets.
        UnsupportedError: an option is not implemented, or a default is no value of its column.
    """
    check_said_once(spec.distribution, spec.options, table)
    options = {"file.format": "parquet", "bucket": "-1", **spec.options}
    primary_keys = _keys(spec.primary_keys, options, "primary-key", table)
    partition_keys = _keys(spec.partition_keys, options, "partition", table)
    if primary_keys and "bucket" not in spec.options:
        options["bucket"] = "1"
    completed = replace(
        spec, primary_keys=primary_keys, partition_keys=partition_keys, options=options
    )
    schema = new_schema(completed, time_millis=env.now_ms())
    if spec.distribution is not None:
        schema = distributed(schema, spec.distribution, table)
    check_new_options(schema, table=table)
    schema = _refusing_overflow(schema, table)
    check_clients_open(schema, table=table)
    for field in schema.fields:
        if field.default_value is not None:
            check_default(field, table)
    return schema


def _refusing_overflow(schema: TableSchema, table: str) -> TableSchema:
    """The schema, which says that sums of whole numbers do not wrap around, if it has any."""
    aggregates = read_merge_spec(schema, table=table).aggregates
    adds = {
        name
        for name, aggregate in aggregates.items()
        if aggregate.function in (AggregateFunction.SUM, AggregateFunction.PRODUCT)
    }
    sums = [field.type for field in schema.fields if field.name in adds]
    if not any(isinstance(each, AtomicType) and each.root.is_integer for each in sums):
        return schema
    return replace(schema, options={OVERFLOW: REFUSE, **schema.options})


def _keys(
    given: tuple[str, ...], options: dict[str, str], option: str, table: str
) -> tuple[str, ...]:
    """The keys as given or as an option names them, which is taken out of the options."""
    names = tuple(filter(None, (each.strip() for each in options.pop(option, "").split(","))))
    if given and names and given != names:
        raise InvalidSchema(
            f"table {table} has the keys {', '.join(given)}, and option {option} names "
            f"{', '.join(names)}; leave the option out"
        )
    return given or names
