"""Options of aggregate functions, read from a table's schema and checked against its columns.

Source: the factories of field aggregators in Paimon.
"""

from __future__ import annotations

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
from lakewright.storage.spec.merge_option_reader import MergeOptionReader, split_names
from lakewright.storage.spec.merge_spec import (
    NO_LIMIT,
    AggregateFunction,
    FieldAggregate,
    NestedKeyNulls,
    SequenceGroup,
)
from lakewright.storage.spec.option_values import bounded_number

# The name that versions before 0.9 gave to a function.
_OLD_NAMES = {"first_not_null_value": AggregateFunction.FIRST_NON_NULL_VALUE}
# Functions over serialised sketches and bitmaps of Java libraries.
_SKETCHES = frozenset({"rbm32", "rbm64", "hll_sketch", "theta_sketch"})
_DEFAULT_FUNCTION = "fields.default-aggregate-function"


def aggregates_of_all(
    reader: MergeOptionReader, sequence: tuple[str, ...], remove: bool
) -> dict[str, FieldAggregate]:
    """The aggregate of each column outside the primary key, for the engine `aggregation`."""
    aggregates = {}
    for each in reader.schema.fields:
        if remove and reader.field_boolean(each.name, "ignore-retract"):
            reader.invalid(
                f"fields.{each.name}.ignore-retract",
                "true",
                "contradicts aggregation.remove-record-on-delete=true; leave one out",
            )
        if each.name in sequence:
            # Sequence fields order the rows, so the last row holds the highest values.
            aggregates[each.name] = FieldAggregate(
                function=AggregateFunction.LAST_VALUE,
                ignore_retract=reader.field_boolean(each.name, "ignore-retract"),
            )
        elif each.name not in reader.schema.primary_keys:
            function = _function(reader, each.name) or AggregateFunction.LAST_NON_NULL_VALUE
            aggregates[each.name] = _aggregate(reader, each, function)
    return aggregates


def aggregates_of_groups(
    reader: MergeOptionReader, groups: tuple[SequenceGroup, ...]
) -> dict[str, FieldAggregate]:
    """The aggregates of columns that sequence groups protect, for the engine `partial-update`."""
    sequence = {name for group in groups for name in group.sequence_fields}
    protected = {name for group in groups for name in group.protected}
    aggregates = {}
    for each in reader.schema.fields:
        if each.name in sequence or each.name in reader.schema.primary_keys:
            continue
        function = _function(reader, each.name)
        if function is None:
            continue
        if each.name in protected:
            aggregates[each.name] = _aggregate(reader, each, function)
        elif function is not AggregateFunction.LAST_NON_NULL_VALUE:
            reader.invalid(
                _function_option(reader, each.name),
                function.value,
                f"aggregates {each.name!r}, which no sequence group protects; partial updates "
                "aggregate columns of sequence groups only, so add it to one",
            )
    return aggregates


def _function_option(reader: MergeOptionReader, name: str) -> str:
    option = f"fields.{name}.aggregate-function"
    return option if option in reader.options else _DEFAULT_FUNCTION


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
        ignore_retract=reader.field_boolean(name, "ignore-retract"),
        delimiter=_delimiter(reader, name),
        distinct=reader.field_boolean(name, "distinct"),
    )
    match function:
        case AggregateFunction.NESTED_UPDATE | AggregateFunction.NESTED_PARTIAL_UPDATE:
            return _nested(reader, column, aggregate)
        case AggregateFunction.MERGE_MAP_WITH_KEYTIME:
            return replace(aggregate, time_field=_time_field(reader, column))
        case _:
            return aggregate


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
    return str(reader.schema.options.get(f"fields.{name}.list-agg-delimiter", ","))


def _nested(
    reader: MergeOptionReader, column: DataField, aggregate: FieldAggregate
) -> FieldAggregate:
    name = column.name
    key = _members(reader, column, "nested-key")
    sequence = _members(reader, column, "nested-sequence-field")
    for suffix in ("nested-key-null-strategy", "nested-sequence-field"):
        given = reader.field_option(name, suffix)
        if given is not None and not key:
            reader.invalid(
                f"fields.{name}.{suffix}", given, f"needs fields.{name}.nested-key; set it too"
            )
    if aggregate.function is AggregateFunction.NESTED_PARTIAL_UPDATE and not key:
        reader.invalid(
            _function_option(reader, name),
            aggregate.function.value,
            f"needs fields.{name}.nested-key; name the members that distinguish nested rows",
        )
    return replace(
        aggregate,
        nested_key=key,
        nested_sequence=sequence,
        nested_key_nulls=_nested_key_nulls(reader, name),
        count_limit=_count_limit(reader, name),
    )


def _members(reader: MergeOptionReader, column: DataField, suffix: str) -> tuple[str, ...]:
    text = reader.field_option(column.name, suffix)
    if text is None:
        return ()
    row = column.type.element if isinstance(column.type, ArrayType) else None
    members = [each.name for each in row.fields] if isinstance(row, RowType) else []
    names = split_names(text)
    for name in names:
        if name not in members:
            reader.invalid(
                f"fields.{column.name}.{suffix}",
                text,
                f"names {name!r}, which is not a member of {column.type}; "
                f"there are {', '.join(members)}",
            )
    return names


def _nested_key_nulls(reader: MergeOptionReader, name: str) -> NestedKeyNulls:
    text = reader.field_option(name, "nested-key-null-strategy")
    if text is None:
        return NestedKeyNulls.MERGE
    values = [each.value for each in NestedKeyNulls]
    if text.lower() not in values:
        reader.invalid(
            f"fields.{name}.nested-key-null-strategy", text, f"is not one of {', '.join(values)}"
        )
    return NestedKeyNulls(text.lower())


def _count_limit(reader: MergeOptionReader, name: str) -> int:
    text = reader.field_option(name, "count-limit")
    if text is None:
        return NO_LIMIT
    limit = bounded_number(text, 32)
    if limit is None or limit < 0:
        reader.invalid(
            f"fields.{name}.count-limit", text, "is not a number of rows; write one such as 100"
        )
    return limit


def _time_field(reader: MergeOptionReader, column: DataField) -> str:
    row = column.type.value if isinstance(column.type, MapType) else None
    members = row.fields if isinstance(row, RowType) else ()
    text = reader.field_option(column.name, "ts-field")
    # The last member is the time of its entry where no other is named.
    name = members[-1].name if text is None else text
    found = [each for each in members if each.name == name]
    option = f"fields.{column.name}.ts-field"
    if not found:
        reader.invalid(
            option,
            name,
            f"is not a member of {row}; there are {', '.join(each.name for each in members)}",
        )
    data_type = found[0].type
    if not (isinstance(data_type, AtomicType) and data_type.root.is_text):
        reader.invalid(option, name, f"is {data_type}; times are compared as texts")
    return name


# --- what functions take ---------------------------------------------------------------------


def _is_number(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and (
        data_type.root.is_integer
        or data_type.root.is_floating
        or data_type.root is TypeRoot.DECIMAL
    )


def _is_primitive(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType)


def _is_boolean(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root is TypeRoot.BOOLEAN


def _is_string(data_type: DataType) -> bool:
    return (
        isinstance(data_type, AtomicType)
        and data_type.root is TypeRoot.VARCHAR
        and data_type.length == MAX_LENGTH
    )


def _is_array(data_type: DataType) -> bool:
    return isinstance(data_type, ArrayType)


def _is_map(data_type: DataType) -> bool:
    return isinstance(data_type, MapType)


def _is_map_of_rows(data_type: DataType) -> bool:
    return (
        isinstance(data_type, MapType)
        and isinstance(data_type.value, RowType)
        and len(data_type.value.fields) >= 2
    )


def _is_array_of_rows(data_type: DataType) -> bool:
    return isinstance(data_type, ArrayType) and isinstance(data_type.element, RowType)


def _is_any(_data_type: DataType) -> bool:
    return True


_TAKES = {
    AggregateFunction.SUM: (_is_number, "numbers"),
    AggregateFunction.PRODUCT: (_is_number, "numbers"),
    AggregateFunction.MAX: (_is_primitive, "primitive types"),
    AggregateFunction.MIN: (_is_primitive, "primitive types"),
    AggregateFunction.FIRST_VALUE: (_is_any, "any type"),
    AggregateFunction.LAST_VALUE: (_is_any, "any type"),
    AggregateFunction.FIRST_NON_NULL_VALUE: (_is_any, "any type"),
    AggregateFunction.LAST_NON_NULL_VALUE: (_is_any, "any type"),
    AggregateFunction.BOOL_AND: (_is_boolean, "BOOLEAN"),
    AggregateFunction.BOOL_OR: (_is_boolean, "BOOLEAN"),
    AggregateFunction.LISTAGG: (_is_string, "STRING without a length"),
    AggregateFunction.COLLECT: (_is_array, "ARRAY"),
    AggregateFunction.MERGE_MAP: (_is_map, "MAP"),
    AggregateFunction.MERGE_MAP_WITH_KEYTIME: (
        _is_map_of_rows,
        "MAP whose values are ROWs of two members or more",
    ),
    AggregateFunction.NESTED_UPDATE: (_is_array_of_rows, "ARRAY<ROW>"),
    AggregateFunction.NESTED_PARTIAL_UPDATE: (_is_array_of_rows, "ARRAY<ROW>"),
}
