"""Table schemas: fields with ids, keys and options, one version per file.

Source: Paimon specification, chapter Schema (version 3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from unicodedata import category

from lakewright.storage.errors import InvalidSchema
from lakewright.storage.spec.arguments import listed_names
from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    OpaqueType,
    RowType,
    is_opaque,
    not_null,
)
from lakewright.storage.spec.partition import DEFAULT_PARTITION_NAME, escape_path
from lakewright.storage.spec.table_distribution import TableDistribution

SCHEMA_VERSION = 3

KEY_PREFIX = "_KEY_"
SEQUENCE_NUMBER = "_SEQUENCE_NUMBER"
VALUE_KIND = "_VALUE_KIND"
# The id of a row, in tables with row tracking.
ROW_ID = "_ROW_ID"
# The column with the count of a row, in tables that count rows.
COUNT = "_VALUE_COUNT"

# The merge engine of tables without a primary key that count rows (FLIP-188, chapter LSM).
VALUE_COUNT = "value-count"
# Control characters, halves of surrogate pairs, and what ends a line or a paragraph.
_UNFIT_FOR_NAMES = frozenset({"Cc", "Cs", "Zl", "Zp"})
# The most bytes of a folder's name on most stores, and what follows a key in it at least.
_MOST_FOLDER_BYTES = 255
_AFTER_KEY = f"={DEFAULT_PARTITION_NAME}"
# Names of columns that data files add, and of the input column with the row kind.
RESERVED_NAMES = frozenset({SEQUENCE_NUMBER, VALUE_KIND, "_LEVEL", ROW_ID, "rowkind", "_rowkind"})


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table to create; it has no id yet."""

    name: str
    type: DataType
    comment: str | None = None
    default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSpec:
    """The definition of a table to create; without a distribution, options or the store decide."""

    columns: tuple[Column, ...]
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""
    distribution: TableDistribution | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchema:
    """One version of a table's schema.

    `highest_field_id` never decreases, so a column that is dropped and added again is a new field.
    """

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""
    time_millis: int = 0
    version: int = SCHEMA_VERSION

    @property
    def field_names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.fields)

    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """Primary keys that are not partition keys; they order the rows of a bucket."""
        return tuple(key for key in self.primary_keys if key not in self.partition_keys)

    @property
    def crosses_partitions(self) -> bool:
        """Whether rows of one primary key may move between partitions, as a key lacks in it."""
        return self.has_primary_key and not set(self.partition_keys) <= set(self.primary_keys)

    @property
    def has_primary_key(self) -> bool:
        return bool(self.primary_keys)

    @property
    def counts_rows(self) -> bool:
        """Whether the table stores each distinct row once, with a count."""
        engine = self.options.get("merge-engine", "").strip().lower()
        return not self.primary_keys and engine == VALUE_COUNT

    @property
    def is_keyed(self) -> bool:
        """Whether a bucket is an LSM tree, whose rows are sorted by key and merged."""
        return self.has_primary_key or self.counts_rows

    @property
    def opaque_fields(self) -> tuple[DataField, ...]:
        """Columns whose values are not decoded."""
        return tuple(field for field in self.fields if is_opaque(field.type))

    @property
    def known_fields(self) -> tuple[DataField, ...]:
        """All other columns."""
        return tuple(field for field in self.fields if not is_opaque(field.type))

    @property
    def counting_names(self) -> tuple[str, ...]:
        """The name of one column, which reads that count rows read; one that is decoded, if any."""
        return tuple(field.name for field in (*self.known_fields, *self.fields)[:1])

    def field(self, name: str) -> DataField:
        """The field of that name.

        Raises:
            InvalidSchema: no column has that name; the message lists the columns.
        """
        for each in self.fields:
            if each.name == name:
                return each
        raise InvalidSchema(f"no column {name!r}; there are {', '.join(self.field_names)}")

    def names_of(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """The columns of a request, None for all.

        Raises:
            InvalidRequestError: `columns` is no list of texts.
        """
        return self.field_names if columns is None else listed_names(columns, "columns")

    def fields_of(self, names: Iterable[str]) -> tuple[DataField, ...]:
        return tuple(self.field(name) for name in names)

    @property
    def partition_fields(self) -> tuple[DataField, ...]:
        return self.fields_of(self.partition_keys)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The order of rows in a bucket: by the trimmed primary key, or the whole row."""
        if not self.counts_rows:
            return self.trimmed_primary_keys
        return tuple(name for name in self.field_names if name not in self.partition_keys)

    @property
    def key_fields(self) -> tuple[DataField, ...]:
        return self.fields_of(self.key_names)


def new_schema(spec: SchemaSpec, *, time_millis: int) -> TableSchema:
    """The first schema of a table, every field with its id.

    Primary-key columns always become NOT NULL.

    Raises:
        InvalidSchema: names repeat, are reserved or missing, or the keys contradict each other.
    """
    _check_columns(spec)
    _check_keys(spec)
    ids = count()
    fields = []
    for column in spec.columns:
        # A column takes its id before its members do: ids are assigned depth first.
        column_id = next(ids)
        data_type = with_member_ids(column.type, ids)
        if column.name in spec.primary_keys:
            data_type = not_null(data_type)
        fields.append(DataField(column_id, column.name, data_type, column.comment, column.default))
    return TableSchema(
        id=0,
        fields=tuple(fields),
        highest_field_id=next(ids) - 1,
        partition_keys=spec.partition_keys,
        primary_keys=spec.primary_keys,
        options=dict(spec.options),
        comment=spec.comment,
        time_millis=time_millis,
    )


def with_member_ids(data_type: DataType, ids: Iterator[int]) -> DataType:
    """The type with a fresh id from `ids` for every row member inside it."""
    match data_type:
        case RowType(fields=members):
            numbered = []
            for member in members:
                member_id = next(ids)
                inner = with_member_ids(member.type, ids)
                numbered.append(replace(member, id=member_id, type=inner))
            return replace(data_type, fields=tuple(numbered))
        case ArrayType(element=element) | MultisetType(element=element):
            return replace(data_type, element=with_member_ids(element, ids))
        case MapType(key=key, value=value):
            key = with_member_ids(key, ids)
            return replace(data_type, key=key, value=with_member_ids(value, ids))
        case AtomicType() | OpaqueType():
            return data_type


def check_column_name(name: str) -> None:
    """Refuse the name of a new column if it is no name, or if files or writers use it.

    Raises:
        InvalidSchema: as said.
    """
    check_member_name(name)
    if name in RESERVED_NAMES or name.startswith(KEY_PREFIX):
        raise InvalidSchema(
            f"column name {name!r} is reserved: data files or writers use it; rename the column"
        )


def check_member_name(name: str) -> None:
    """Refuse the name of a new column or member if it is empty, or breaks a line of text.

    Schema files, data files and other clients hold names of any length.

    Raises:
        InvalidSchema: as said.
    """
    if not name.strip():
        raise InvalidSchema("a column has an empty name")
    unfit = next((each for each in name if category(each) in _UNFIT_FOR_NAMES), None)
    if unfit is not None:
        raise InvalidSchema(
            f"column name {name!r:.100} has the control character {unfit!r} at "
            f"{name.index(unfit) + 1}; choose a name of printable characters"
        )


def _check_columns(spec: SchemaSpec) -> None:
    if not spec.columns:
        raise InvalidSchema("a table needs at least one column")
    names = [column.name for column in spec.columns]
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise InvalidSchema(f"column {repeated[0]!r} is declared more than once; rename one")
    for name in names:
        check_column_name(name)
    for column in spec.columns:
        check_members(column.name, column.type)


def check_members(name: str, data_type: DataType) -> None:
    """Check the rows inside of a new column: they have members, each with a name of its own.

    Raises:
        InvalidSchema: as said.
    """
    for row in _rows_of(data_type):
        if not row.fields:
            raise InvalidSchema(
                f"column {name!r} is a ROW without members, which files cannot hold; give it one"
            )
        for member in row.fields:
            check_member_name(member.name)
        members = Counter(member.name for member in row.fields)
        doubled = [each for each, times in members.items() if times > 1]
        if doubled:
            raise InvalidSchema(
                f"column {name!r} has member {doubled[0]!r} more than once; rename one"
            )


def _rows_of(data_type: DataType) -> Iterator[RowType]:
    match data_type:
        case RowType(fields=members):
            yield data_type
            for member in members:
                yield from _rows_of(member.type)
        case ArrayType(element=inner) | MultisetType(element=inner):
            yield from _rows_of(inner)
        case MapType(key=key, value=value):
            yield from _rows_of(key)
            yield from _rows_of(value)
        case AtomicType():
            return


def _check_keys(spec: SchemaSpec) -> None:
    types = {column.name: column.type for column in spec.columns}
    for kind, keys in (("partition", spec.partition_keys), ("primary", spec.primary_keys)):
        if len(set(keys)) != len(keys):
            raise InvalidSchema(f"{kind} keys repeat a column: {', '.join(keys)}")
        for key in keys:
            if key not in types:
                raise InvalidSchema(
                    f"{kind} key {key!r} is not a column; there are {', '.join(types)}"
                )
            if not isinstance(types[key], AtomicType):
                raise InvalidSchema(
                    f"{kind} key {key!r} is {types[key]}; keys must be of primitive types"
                )
    for key in spec.partition_keys:
        most = _MOST_FOLDER_BYTES - len(_AFTER_KEY)
        if (size := len(escape_path(key).encode())) > most:
            raise InvalidSchema(
                f"partition key {key!r:.100} takes {size} bytes in the name of a folder, which has "
                f"room for {most}; choose a shorter name"
            )
        data_type = types[key]
        if isinstance(data_type, AtomicType) and data_type.root.is_bytes:
            raise InvalidSchema(
                f"partition key {key!r} is {data_type}; clients of the format name folders of "
                "bytes differently; use a text column"
            )
    if spec.primary_keys:
        outside = [key for key in spec.partition_keys if key not in spec.primary_keys]
        if outside:
            raise InvalidSchema(
                f"partition key {outside[0]!r} is not in the primary key "
                f"({', '.join(spec.primary_keys)}); add it there"
            )
        if set(spec.primary_keys) <= set(spec.partition_keys):
            raise InvalidSchema(
                "the primary key holds partition keys only, so a partition could hold one row "
                "only; add a column that distinguishes rows"
            )
    if spec.columns and len(spec.partition_keys) == len(spec.columns):
        raise InvalidSchema("every column is a partition key; add a column that is not")
