"""Changes of a table's options: which may change while the table has data.

Source: Paimon `SchemaManager.checkAlterTableOption` and `checkResetTableOption`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from lakewright.storage.errors import InvalidOption
from lakewright.storage.spec.option_values import BOOLEAN, INTEGER
from lakewright.storage.spec.options import trimmed
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.schema_change import ResetOption, SetOption
from lakewright.storage.spec.supported_options import (
    check_option_name,
    check_option_type,
    find_option,
    read_option,
)

# Options that the schema itself says in fields of its own.
_SAID_BY_SCHEMA = {
    "primary-key": "the key of a table never changes; create a new table",
    "partition": "the partition keys of a table are no option",
    "type": "a table never becomes one of another type",
}
# Options that hide rows which are stored; a change from true to false would show their effect.
_IGNORING = frozenset({"ignore-delete", "ignore-update-before"})
_BUCKET, _VECTORS, _MODIFIABLE = (
    "bucket",
    "deletion-vectors.enabled",
    "deletion-vectors.modifiable",
)


def with_option(
    schema: TableSchema, change: SetOption, table: str, *, has_snapshots: bool
) -> TableSchema:
    """The schema with another value of an option.

    Raises:
        InvalidOption: the name is misspelt, the value is of another type, or the option cannot
            change.
    """
    name, value = change.name.strip(), change.value.strip()
    if not name:
        raise InvalidOption(f"{table}: an option without a name cannot be set")
    check_option_name(name, value, table=table)
    check_option_type(name, value, table=table)
    options = trimmed(schema.options)
    if options.get(name) == value:
        return schema
    _check_change(schema, name, value, table, has_snapshots=has_snapshots)
    return replace(schema, options={**_without(schema, name), name: value})


def without_option(
    schema: TableSchema, change: ResetOption, table: str, *, has_snapshots: bool
) -> TableSchema:
    """The schema without an option, which then has its default.

    Raises:
        InvalidOption: the table does not set the option, or the option cannot change.
    """
    name = change.name.strip()
    if name not in trimmed(schema.options):
        there = ", ".join(sorted(schema.options)) or "no options"
        raise InvalidOption(f"{table} does not set {name}; it sets {there}")
    _check_change(schema, name, None, table, has_snapshots=has_snapshots)
    return replace(schema, options=_without(schema, name))


def _without(schema: TableSchema, name: str) -> dict[str, str]:
    return {key: value for key, value in schema.options.items() if key.strip() != name}


def _check_change(
    schema: TableSchema, name: str, value: str | None, table: str, *, has_snapshots: bool
) -> None:
    if name in _SAID_BY_SCHEMA:
        _refuse(table, name, _SAID_BY_SCHEMA[name])
    if not has_snapshots:
        return
    option = find_option(name)
    if option is not None and option.immutable:
        _refuse(table, name, "the rows that are there depend on it; create a new table")
    ignores = trimmed(schema.options).get(name, "").lower() == "true"
    if option is not None and option.name in _IGNORING and ignores:
        _refuse(table, name, "rows that were ignored until now would take effect")
    if name == _BUCKET:
        _check_bucket(schema, value, table)
    if name == _VECTORS and not read_option(schema, _MODIFIABLE, BOOLEAN, table=table):
        _refuse(table, name, f"set {_MODIFIABLE}=true to allow it")


def _check_bucket(schema: TableSchema, value: str | None, table: str) -> None:
    """A number of buckets may become another one, for partitions that are written later."""
    now = read_option(schema, _BUCKET, INTEGER, table=table)
    wanted = None if value is None else int(value)
    if wanted is None or now < 1 or wanted < 1:
        _refuse(
            table,
            _BUCKET,
            f"rows lie in buckets by the rule of bucket={now}, and only a positive number may "
            "become another positive number",
        )


def _refuse(table: str, name: str, reason: str) -> NoReturn:
    raise InvalidOption(f"{table}: option {name} cannot change: {reason}", option=name)
