"""Options of aggregate functions, read from a table's schema and checked against its columns.

Source: the factories of field aggregators in Paimon.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lakewright.storage.spec.data_types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)
from lakewright.storage.spec.known_options import Option
from lakewright.storage.spec.merge_option_reader import MergeOptionReader, split_names
from lakewright.storage.spec.merge_option_rows import MergeOptions
from lakewright.storage.spec.merge_spec import (
    AggregateFunction,
    FieldAggregate,
    SequenceGroup,
)

# What becomes of sums and products of whole numbers that their type cannot hold: they are refused,
# or wrap around, as other clients have it. Where a table does not say, others may have written it.
OVERFLOW = "lakewright.overflow"
REFUSE, WRAP = "refuse", "wrap"
_ARITHMETIC = {AggregateFunction.SUM, AggregateFunction.PRODUCT}
# The name that versions before 0.9 gave to a function.
_OLD_NAMES = {"first_not_null_value": AggregateFunction.FIRST_NON_NULL_VALUE}
# Functions over serialised sketches and bitmaps of Java libraries.
_SKETCHES = frozenset({"rbm64", "hll_sketch", "theta_sketch"})


def aggregates_of_all(
    reader: MergeOptionReader, sequence: tuple[str, ...], remove: bool
) -> dict[str, FieldAggregate]:
    """The aggregate of each column outside the primary key, for the engine `aggregation`."""
    aggregates = {}
    for field in reader.schema.fields:
        if remove and reader.value(MergeOptions.ignore_retract, field.name):
            reader.invalid(
                MergeOptions.ignore_retract.of(field.name),
                "true",
                f"contradicts {MergeOptions.remove_aggregates_on_delete.name}=true; leave one out",
            )
        if field.name in sequence:
            # Sequence fields order the rows, so the last row holds the highest values.
            aggregates[field.name] = FieldAggregate(
                function=AggregateFunction.LAST_VALUE,
                ignore_retract=reader.value(MergeOptions.ignore_retract, field.name),
            )
        elif field.name not in reader.schema.primary_keys:
            function = _function(reader, field.name) or AggregateFunction.LAST_NON_NULL_VALUE
            aggregates[field.name] = _aggregate(reader, field, function)
    return aggregates


def aggregates_of_groups(
    reader: MergeOptionReader, groups: tuple[SequenceGroup, ...]
) -> dict[str, FieldAggregate]:
    """The aggregates of columns that sequence groups protect, for the engine `partial-update`."""
    sequence = {name for group in groups for name in group.sequence_fields}
    protected = {name for group in groups for name in group.protected}
    aggregates = {}
    for field in reader.schema.fields:
        if field.name in sequence or field.name in reader.schema.primary_keys:
            continue
        function = _function(reader, field.name)
        if function is None:
            continue
        if field.name in protected:
            aggregates[field.name] = _aggregate(reader, field, function)
        elif function is not AggregateFunction.LAST_NON_NULL_VALUE:
            reader.invalid(
                _function_option(reader, field.name),
                function.value,
                f"aggregates {field.name!r}, which no sequence group protects; partial updates "
                "aggregate columns of sequence groups only, so add it to one",
            )
    return aggregates


def _function_option(reader: MergeOptionReader, name: str) -> str:
    option = MergeOptions.function.of(name)
    return option if option in reader.options else MergeOptions.default_function.name


def _function(reader: MergeOptionReader, name: str) -> AggregateFunction | None:
    option = _function_option(reader, name)
    text = reader.options.get(option)
    if text is None:
        return None
    if text in _OLD_NAMES:
        return _OLD_NAMES[text]
    names = [each.value for each in AggregateFunction]
    if text in _SKETCHES:
        reader.unsupported(
            option,
            text,
            "it works on sketches and bitmaps that only Java libraries read; "
            f"implemented: {', '.join(names)}",
        )
    if text not in names:
        reader.unsupported(option, text, f"implemented: {', '.join(names)}")
    return AggregateFunction(text)


def _aggregate(
    reader: MergeOptionReader, column: DataField, function: AggregateFunction
) -> FieldAggregate:
    name = column.name
    _check_function_type(reader, column, function)
    aggregate = FieldAggregate(
        function=function,
        ignore_retract=reader.value(MergeOptions.ignore_retract, name),
        delimiter=_delimiter(reader, name),
        distinct=reader.value(MergeOptions.distinct, name),
        wraps=function in _ARITHMETIC and _wraps(reader),
    )
    match function:
        case AggregateFunction.NESTED_UPDATE | AggregateFunction.NESTED_PARTIAL_UPDATE:
            return _nested(reader, column, aggregate)
        case AggregateFunction.MERGE_MAP_WITH_KEYTIME:
            return replace(aggregate, time_field=_time_field(reader, column))
        case _:
            return aggregate


def _wraps(reader: MergeOptionReader) -> bool:
    value = reader.options.get(OVERFLOW, WRAP)
    if value not in (REFUSE, WRAP):
        reader.invalid(OVERFLOW, value, f"is neither {REFUSE} nor {WRAP}; write one of them")
    return value == WRAP


def _check_function_type(
    reader: MergeOptionReader, column: DataField, function: AggregateFunction
) -> None:
    takes, expected = _TAKES[function]
    if not takes(column.type):
        reader.invalid(
            _function_option(reader, column.name),
            function.value,
            f"takes {expected}, and column {column.name!r} is {column.type}; "
            "choose another function for it",
        )


def _delimiter(reader: MergeOptionReader, name: str) -> str:
    # Blanks around a delimiter belong to it, so it is not read from the stripped options.
    option = MergeOptions.delimiter
    return str(reader.schema.options.get(option.of(name), option.default))


def _nested(
    reader: MergeOptionReader, column: DataField, aggregate: FieldAggregate
) -> FieldAggregate:
    name = column.name
    key = _members(reader, column, MergeOptions.nested_key)
    sequence = _members(reader, column, MergeOptions.nested_sequence)
    needed = MergeOptions.nested_key.of(name)
    for row in (MergeOptions.nested_key_nulls, MergeOptions.nested_sequence):
        given = reader.options.get(row.of(name))
        if given is not None and not key:
            reader.invalid(row.of(name), given, f"needs {needed}; set it too")
    if aggregate.function is AggregateFunction.NESTED_PARTIAL_UPDATE and not key:
        reader.invalid(
            _function_option(reader, name),
            aggregate.function.value,
            f"needs {needed}; name the members that distinguish nested rows",
        )
    return replace(
        aggregate,
        nested_key=key,
        nested_sequence=sequence,
        nested_key_nulls=reader.value(MergeOptions.nested_key_nulls, name),
        count_limit=reader.value(MergeOptions.count_limit, name),
    )


def _members(reader: MergeOptionReader, column: DataField, option: Option[str]) -> tuple[str, ...]:
    text = reader.options.get(option.of(column.name))
    if text is None:
        return ()
    row = column.type.element if isinstance(column.type, ArrayType) else None
    members = [field.name for field in row.fields] if isinstance(row, RowType) else []
    names = split_names(text)
    for name in names:
        if name not in members:
            reader.invalid(
                option.of(column.name),
                text,
                f"names {name!r}, which is not a member of {column.type}; "
                f"there are {', '.join(members)}",
            )
    return names


def _time_field(reader: MergeOptionReader, column: DataField) -> str:
    row = column.type.value if isinstance(column.type, MapType) else None
    members = row.fields if isinstance(row, RowType) else ()
    option = MergeOptions.time_field.of(column.name)
    text = reader.options.get(option)
    # The last member is the time of its entry where no other is named.
    name = members[-1].name if text is None else text
    found = [member for member in members if member.name == name]
    if not found:
        reader.invalid(
            option,
            name,
            f"is not a member of {row}; there are {', '.join(member.name for member in members)}",
        )
    data_type = found[0].type
    if not (isinstance(data_type, AtomicType) and data_type.root.is_text):
        reader.invalid(option, name, f"is {data_type}; times are compared as texts")
    return name


# --- what functions take ---------------------------------------------------------------------

_Taken = tuple[Callable[[DataType], bool], str]


def _is_number(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and (
        data_type.root.is_integer
        or data_type.root.is_floating
        or data_type.root is TypeRoot.DECIMAL
    )


def _is_map_of_rows(data_type: DataType) -> bool:
    return (
        isinstance(data_type, MapType)
        and isinstance(data_type.value, RowType)
        and len(data_type.value.fields) >= 2
    )


_NUMBERS: _Taken = (_is_number, "numbers")
_PRIMITIVES: _Taken = (lambda each: isinstance(each, AtomicType), "primitive types")
_ANY: _Taken = (lambda _: True, "any type")
_BOOLEAN: _Taken = (lambda each: getattr(each, "root", None) is TypeRoot.BOOLEAN, "BOOLEAN")
_STRING: _Taken = (
    lambda each: (
        isinstance(each, AtomicType) and each.root is TypeRoot.VARCHAR and each.length == MAX_LENGTH
    ),
    "STRING without a length",
)
_BYTES: _Taken = (lambda each: getattr(each, "root", None) is TypeRoot.VARBINARY, "BYTES")
_ARRAY: _Taken = (lambda each: isinstance(each, ArrayType), "ARRAY")
_MAP: _Taken = (lambda each: isinstance(each, MapType), "MAP")
_MAP_OF_ROWS: _Taken = (_is_map_of_rows, "MAP whose values are ROWs of two members or more")
_ARRAY_OF_ROWS: _Taken = (
    lambda each: isinstance(each, ArrayType) and isinstance(each.element, RowType),
    "ARRAY<ROW>",
)
_TAKES = {
    AggregateFunction.SUM: _NUMBERS,
    AggregateFunction.PRODUCT: _NUMBERS,
    AggregateFunction.MAX: _PRIMITIVES,
    AggregateFunction.MIN: _PRIMITIVES,
    AggregateFunction.FIRST_VALUE: _ANY,
    AggregateFunction.LAST_VALUE: _ANY,
    AggregateFunction.FIRST_NON_NULL_VALUE: _ANY,
    AggregateFunction.LAST_NON_NULL_VALUE: _ANY,
    AggregateFunction.BOOL_AND: _BOOLEAN,
    AggregateFunction.BOOL_OR: _BOOLEAN,
    AggregateFunction.LISTAGG: _STRING,
    AggregateFunction.RBM32: _BYTES,
    AggregateFunction.COLLECT: _ARRAY,
    AggregateFunction.MERGE_MAP: _MAP,
    AggregateFunction.MERGE_MAP_WITH_KEYTIME: _MAP_OF_ROWS,
    AggregateFunction.NESTED_UPDATE: _ARRAY_OF_ROWS,
    AggregateFunction.NESTED_PARTIAL_UPDATE: _ARRAY_OF_ROWS,
}
