"""The options that name columns of their table: who uses a column, and what a rename changes.

Source: Paimon `SchemaManager.applyRenameColumnsToOptions`, and the options that it leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakewright.storage.spec.flink_columns import renamed_in_expression, words_of_expression
from lakewright.storage.spec.merge_option_reader import GROUP_SUFFIX, split_names
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.supported_options import KNOWN_OPTIONS

# Options whose value is one column, or columns between commas.
_BUCKETS = "bucket-key"
_ORDER = ("sequence.field",)
_NAMING = (
    "changelog-producer.row-deduplicate-ignore-fields",
    "clustering.columns",
    "partial-update.remove-record-on-sequence-group",
    "record-level.time-field",
    "rowkind.field",
    "sink.clustering.by-columns",
    "upsert-key",
)
_INDEXED = re.compile(r"file-index\.[^.]+\.columns|pk-[a-z-]+\.index\.columns|.*filter\.columns")
_FIELDS = "fields."
# What follows the names of columns in options of single columns.
_SUFFIXES = tuple(
    each.name.removeprefix("fields.*") for each in KNOWN_OPTIONS if each.name.startswith("fields.*")
)


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """An option that names a column; `orders` if the column's order decides which row wins."""

    option: str
    value: str
    orders: bool = False
    hashes: bool = False

    def __str__(self) -> str:
        return f"option {self.option}={self.value}"


def uses_of(schema: TableSchema, column: str) -> tuple[ColumnUse, ...]:
    """The options of a table that name a column."""
    return tuple(
        ColumnUse(option, value, orders=orders, hashes=option == _BUCKETS)
        for option, value in schema.options.items()
        for names, orders in _named(option.strip(), value)
        if column in names
    )


def _named(option: str, value: str) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Columns that an option names, and whether they order rows."""
    if option in _ORDER:
        yield split_names(value), True
    elif option == _BUCKETS or option in _NAMING or _INDEXED.fullmatch(option):
        yield split_names(value), False
    elif words := words_of_expression(option, value):
        yield words, False
    of_columns = _columns_of(option)
    if of_columns is not None:
        names, suffix = of_columns
        is_group = suffix == GROUP_SUFFIX
        yield (split_names(names) if is_group else (names,)), is_group
        if is_group:
            yield split_names(value), False


def _columns_of(option: str) -> tuple[str, str] | None:
    """The names and the suffix of `fields.<names><suffix>`."""
    suffix = next((each for each in _SUFFIXES if option.endswith(each)), "")
    names = option.removeprefix(_FIELDS).removesuffix(suffix)
    return (names, suffix) if suffix and option == f"{_FIELDS}{names}{suffix}" else None


def renamed_in_options(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """The options of a table after the rename of a column."""
    return dict(
        _renamed_option(option.strip(), value, old, new) for option, value in options.items()
    )


def _renamed_option(option: str, value: str, old: str, new: str) -> tuple[str, str]:
    if not any(old in names for names, _ in _named(option, value)):
        return option, value
    if words_of_expression(option, value):
        return option, renamed_in_expression(value, old, new)
    of_columns = _columns_of(option)
    if of_columns is None:
        return option, _renamed(value, old, new)
    names, suffix = of_columns
    renamed = f"{_FIELDS}{_renamed(names, old, new)}{suffix}"
    return renamed, _renamed(value, old, new) if suffix == GROUP_SUFFIX else value


def _renamed(names: str, old: str, new: str) -> str:
    return ",".join(new if name == old else name for name in split_names(names))
