"""Merge options: read from a table's schema and checked as a whole, against it and each other.

Sources: Paimon `CoreOptions`, `SchemaValidation` and the factories of field aggregators.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import NoReturn

from lakewright.storage.errors import InvalidOption, UnsupportedError
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
from lakewright.storage.spec.merge_spec import (
    NO_LIMIT,
    AggregateFunction,
    FieldAggregate,
    MergeEngine,
    MergeSpec,
    NestedKeyNulls,
    SequenceGroup,
)
from lakewright.storage.spec.option_values import bounded_number, trimmed
from lakewright.storage.spec.schema import VALUE_COUNT, TableSchema

# The name that versions before 0.9 gave to a function.
_OLD_NAMES = {"first_not_null_value": AggregateFunction.FIRST_NON_NULL_VALUE}
# Functions over serialised sketches and bitmaps of Java libraries.
_SKETCHES = frozenset({"rbm32", "rbm64", "hll_sketch", "theta_sketch"})


_PREFIX = "fields."
_DEFAULT_FUNCTION = "fields.default-aggregate-function"
_GROUP_SUFFIX = ".sequence-group"
_FIELD_SUFFIXES = (
    "aggregate-function",
    "ignore-retract",
    "list-agg-delimiter",
    "distinct",
    "nested-key",
    "nested-key-null-strategy",
    "nested-sequence-field",
    "count-limit",
    "ts-field",
)
_IGNORE_DELETE = (
    "ignore-delete",
    "first-row.ignore-delete",
    "deduplicate.ignore-delete",
    "partial-update.ignore-delete",
)
_REMOVE_ON_DELETE = {
    MergeEngine.PARTIAL_UPDATE: "partial-update.remove-record-on-delete",
    MergeEngine.AGGREGATION: "aggregation.remove-record-on-delete",
}
_REMOVE_ON_GROUP = "partial-update.remove-record-on-sequence-group"
_NAMES = frozenset(
    {
        "merge-engine",
        "sequence.field",
        "sequence.field.sort-order",
        "rowkind.field",
        "ignore-update-before",
        _DEFAULT_FUNCTION,
        _REMOVE_ON_GROUP,
        *_REMOVE_ON_DELETE.values(),
        *_IGNORE_DELETE,
    }
)
_FIELD_OPTION = re.compile(
    rf"fields\.(?P<names>.+)\.(?:{'|'.join((*_FIELD_SUFFIXES, _GROUP_SUFFIX[1:]))})"
)


def is_merge_option(name: str) -> bool:
    """Whether `read_merge_spec` reads the option."""
    return name in _NAMES or _FIELD_OPTION.fullmatch(name) is not None


def read_merge_spec(schema: TableSchema, *, table: str = "the table") -> MergeSpec:
    """The schema's merge options as values, checked against its columns and each other.

    Tables without a primary key do not merge: theirs is the default.

    Raises:
        InvalidOption: a value cannot be, names no column, or contradicts another.
        UnsupportedError: a merge engine or aggregate function that is not implemented.
    """
    if schema.counts_rows:
        _check_counted(schema, table)
        return MergeSpec(engine=MergeEngine.VALUE_COUNT, table=table)
    if not schema.has_primary_key:
        return MergeSpec(table=table)
    return _Reader(schema, table).spec()


def _check_counted(schema: TableSchema, table: str) -> None:
    """Whole rows are the keys of such a table, so every column must be of a type that keys have."""
    nested = [each for each in schema.fields if not isinstance(each.type, AtomicType)]
    if nested:
        raise InvalidOption(
            f"{table}: merge-engine={VALUE_COUNT} compares whole rows, and column "
            f"{nested[0].name} of type {nested[0].type} cannot be compared; leave the column out",
            table=table,
            option="merge-engine",
        )


class _Reader:
    """Reads the merge options of one schema."""

    def __init__(self, schema: TableSchema, table: str) -> None:
        self.schema = schema
        self.table = table
        self.options = trimmed(schema.options)
        self.types: dict[str, DataType] = {each.name: each.type for each in schema.fields}

    def spec(self) -> MergeSpec:
        self._check_field_names()
        engine = self._engine()
        sequence = self._sequence_fields(engine)
        ignore_delete = self._ignore_delete()
        groups = self._sequence_groups() if engine is MergeEngine.PARTIAL_UPDATE else ()
        remove = self._remove_on_delete(engine, ignore_delete, groups)
        if engine is MergeEngine.AGGREGATION:
            aggregates = self._aggregates_of_all(sequence, remove)
        elif engine is MergeEngine.PARTIAL_UPDATE:
            groups = self._with_removals(groups, ignore_delete)
            aggregates = self._aggregates_of_groups(groups)
        else:
            aggregates = {}
        return MergeSpec(
            engine=engine,
            table=self.table,
            primary_keys=self.schema.primary_keys,
            sequence_fields=sequence,
            sequence_descending=self._descending(),
            ignore_delete=ignore_delete,
            ignore_update_before=self._boolean("ignore-update-before"),
            rowkind_field=self._rowkind_field(),
            remove_record_on_delete=remove,
            sequence_groups=groups,
            aggregates=aggregates,
        )

    # --- the engine and what orders rows -----------------------------------------------------

    def _engine(self) -> MergeEngine:
        text = self.options.get("merge-engine", MergeEngine.DEDUPLICATE.value)
        if text.lower() not in {each.value for each in MergeEngine}:
            keyed = [each.value for each in MergeEngine if each is not MergeEngine.VALUE_COUNT]
            self._unsupported("merge-engine", text, f"implemented: {', '.join(keyed)}")
        engine = MergeEngine(text.lower())
        if engine is MergeEngine.VALUE_COUNT:
            self._invalid(
                "merge-engine", text, "is for tables without a primary key; use deduplicate"
            )
        if engine is MergeEngine.FIRST_ROW:
            self._check_first_row()
        return engine

    def _check_first_row(self) -> None:
        producer = self.options.get("changelog-producer", "none").lower()
        if producer not in ("none", "lookup"):
            self._invalid(
                "changelog-producer",
                producer,
                "does not go with merge-engine=first-row; use none or lookup",
            )
        if self._boolean("deletion-vectors.enabled"):
            self._invalid(
                "deletion-vectors.enabled",
                "true",
                "does not go with merge-engine=first-row, where no row is ever replaced; "
                "leave it out",
            )

    def _sequence_fields(self, engine: MergeEngine) -> tuple[str, ...]:
        option = "sequence.field"
        text = self.options.get(option)
        if text is None:
            return ()
        names = _split(text)
        for name in names:
            self._check_column(option, text, name)
            self._check_orders(option, text, name)
            if self._field_option(name, "aggregate-function") is not None:
                self._invalid(
                    option,
                    text,
                    f"names {name!r}, which has an aggregate function too; leave out "
                    f"fields.{name}.aggregate-function",
                )
        self._check_once(option, text, names)
        if engine is MergeEngine.FIRST_ROW:
            self._invalid(
                option,
                text,
                "does not go with merge-engine=first-row, which keeps the row written first; "
                "leave it out or choose another engine",
            )
        outside = set(self.schema.partition_keys) - set(self.schema.primary_keys)
        if outside:
            self._invalid(
                option,
                text,
                f"needs every partition key in the primary key, and {min(outside)!r} is not: "
                "rows of one key would be ordered in each partition alone",
            )
        return names

    def _descending(self) -> bool:
        option = "sequence.field.sort-order"
        text = self.options.get(option, "ascending")
        if text.lower() not in ("ascending", "descending"):
            self._invalid(option, text, "is neither ascending nor descending")
        return text.lower() == "descending"

    def _rowkind_field(self) -> str | None:
        option = "rowkind.field"
        name = self.options.get(option)
        if name is None:
            return None
        self._check_column(option, name, name)
        data_type = self.types[name]
        if not (isinstance(data_type, AtomicType) and data_type.root.is_text):
            self._invalid(
                option, name, f"is {data_type}; kinds are texts such as '+I', so take a STRING"
            )
        return name

    # --- what deletions do -------------------------------------------------------------------

    def _ignore_delete(self) -> bool:
        for name in _IGNORE_DELETE:
            if name in self.options:
                return self._boolean(name)
        return False

    def _remove_on_delete(
        self, engine: MergeEngine, ignore_delete: bool, groups: tuple[SequenceGroup, ...]
    ) -> bool:
        option = _REMOVE_ON_DELETE.get(engine)
        if option is None or not self._boolean(option):
            return False
        if engine is MergeEngine.PARTIAL_UPDATE:
            if ignore_delete:
                self._invalid(option, "true", "contradicts ignore-delete=true; leave one out")
            if groups:
                self._invalid(
                    option,
                    "true",
                    f"does not go with sequence groups; use {_REMOVE_ON_GROUP} instead",
                )
        return True

    def _with_removals(
        self, groups: tuple[SequenceGroup, ...], ignore_delete: bool
    ) -> tuple[SequenceGroup, ...]:
        text = self.options.get(_REMOVE_ON_GROUP)
        if text is None:
            return groups
        if ignore_delete:
            self._invalid(_REMOVE_ON_GROUP, text, "contradicts ignore-delete=true; leave one out")
        names = _split(text)
        known = [name for group in groups for name in group.sequence_fields]
        for name in names:
            if name not in known:
                self._invalid(
                    _REMOVE_ON_GROUP,
                    text,
                    f"names {name!r}, which is no sequence field of a group; "
                    f"there are {', '.join(known) or 'none'}",
                )
        return tuple(
            SequenceGroup(
                group.sequence_fields,
                group.protected,
                removes_record=any(name in names for name in group.sequence_fields),
            )
            for group in groups
        )

    # --- sequence groups ---------------------------------------------------------------------

    def _sequence_groups(self) -> tuple[SequenceGroup, ...]:
        groups = []
        owners: dict[str, str] = {}
        for option, text in sorted(self.options.items()):
            if not (option.startswith(_PREFIX) and option.endswith(_GROUP_SUFFIX)):
                continue
            sequence = _split(option[len(_PREFIX) : -len(_GROUP_SUFFIX)])
            protected = tuple(name for name in _split(text) if name not in sequence)
            for name in sequence:
                self._check_orders(option, text, name)
            self._check_once(option, text, sequence)
            for name in dict.fromkeys(sequence + protected):
                self._check_column(option, text, name)
                if name in self.schema.primary_keys:
                    self._invalid(
                        option, text, f"holds {name!r} of the primary key; leave it out there"
                    )
                if name in owners:
                    self._invalid(
                        option,
                        text,
                        f"holds {name!r}, which {owners[name]} holds too; "
                        "a column belongs to one sequence group",
                    )
                owners[name] = option
            groups.append(SequenceGroup(sequence, tuple(dict.fromkeys(protected))))
        return tuple(groups)

    # --- aggregates --------------------------------------------------------------------------

    def _aggregates_of_all(
        self, sequence: tuple[str, ...], remove: bool
    ) -> dict[str, FieldAggregate]:
        aggregates = {}
        for each in self.schema.fields:
            if remove and self._field_boolean(each.name, "ignore-retract"):
                self._invalid(
                    f"fields.{each.name}.ignore-retract",
                    "true",
                    "contradicts aggregation.remove-record-on-delete=true; leave one out",
                )
            if each.name in sequence:
                # They order the rows, so the last row's are the highest.
                aggregates[each.name] = FieldAggregate(
                    function=AggregateFunction.LAST_VALUE,
                    ignore_retract=self._field_boolean(each.name, "ignore-retract"),
                )
            elif each.name not in self.schema.primary_keys:
                function = self._function(each.name) or AggregateFunction.LAST_NON_NULL_VALUE
                aggregates[each.name] = self._aggregate(each, function)
        return aggregates

    def _aggregates_of_groups(self, groups: tuple[SequenceGroup, ...]) -> dict[str, FieldAggregate]:
        sequence = {name for group in groups for name in group.sequence_fields}
        protected = {name for group in groups for name in group.protected}
        aggregates = {}
        for each in self.schema.fields:
            if each.name in sequence or each.name in self.schema.primary_keys:
                continue
            function = self._function(each.name)
            if function is None:
                continue
            if each.name in protected:
                aggregates[each.name] = self._aggregate(each, function)
            elif function is not AggregateFunction.LAST_NON_NULL_VALUE:
                self._invalid(
                    self._function_option(each.name),
                    function.value,
                    f"aggregates {each.name!r}, which no sequence group protects; partial updates "
                    "aggregate columns of sequence groups only, so add it to one",
                )
        return aggregates

    def _function_option(self, name: str) -> str:
        option = f"fields.{name}.aggregate-function"
        return option if option in self.options else _DEFAULT_FUNCTION

    def _function(self, name: str) -> AggregateFunction | None:
        option = self._function_option(name)
        text = self.options.get(option)
        if text is None:
            return None
        if text in _OLD_NAMES:
            return _OLD_NAMES[text]
        names = [each.value for each in AggregateFunction]
        if text in _SKETCHES:
            self._unsupported(
                option,
                text,
                "it works on sketches and bitmaps that only Java libraries can read; "
                f"implemented: {', '.join(names)}",
            )
        if text not in names:
            self._unsupported(option, text, f"implemented: {', '.join(names)}")
        return AggregateFunction(text)

    def _aggregate(self, column: DataField, function: AggregateFunction) -> FieldAggregate:
        name = column.name
        self._check_function_type(column, function)
        aggregate = FieldAggregate(
            function=function,
            ignore_retract=self._field_boolean(name, "ignore-retract"),
            delimiter=self._delimiter(name),
            distinct=self._field_boolean(name, "distinct"),
        )
        match function:
            case AggregateFunction.NESTED_UPDATE | AggregateFunction.NESTED_PARTIAL_UPDATE:
                return self._nested(column, aggregate)
            case AggregateFunction.MERGE_MAP_WITH_KEYTIME:
                return replace(aggregate, time_field=self._time_field(column))
            case _:
                return aggregate

    def _check_function_type(self, column: DataField, function: AggregateFunction) -> None:
        takes, expected = _TAKES[function]
        if not takes(column.type):
            self._invalid(
                self._function_option(column.name),
                function.value,
                f"takes {expected}, and column {column.name!r} is {column.type}; "
                "choose another function for it",
            )

    def _delimiter(self, name: str) -> str:
        # Blanks around a delimiter belong to it, so it is not read from the stripped options.
        return str(self.schema.options.get(f"fields.{name}.list-agg-delimiter", ","))

    def _nested(self, column: DataField, aggregate: FieldAggregate) -> FieldAggregate:
        name = column.name
        key = self._members(column, "nested-key")
        sequence = self._members(column, "nested-sequence-field")
        for suffix in ("nested-key-null-strategy", "nested-sequence-field"):
            given = self._field_option(name, suffix)
            if given is not None and not key:
                self._invalid(
                    f"fields.{name}.{suffix}", given, f"needs fields.{name}.nested-key; set it too"
                )
        if aggregate.function is AggregateFunction.NESTED_PARTIAL_UPDATE and not key:
            self._invalid(
                self._function_option(name),
                aggregate.function.value,
                f"needs fields.{name}.nested-key; name the members that tell nested rows apart",
            )
        return replace(
            aggregate,
            nested_key=key,
            nested_sequence=sequence,
            nested_key_nulls=self._nested_key_nulls(name),
            count_limit=self._count_limit(name),
        )

    def _members(self, column: DataField, suffix: str) -> tuple[str, ...]:
        text = self._field_option(column.name, suffix)
        if text is None:
            return ()
        row = column.type.element if isinstance(column.type, ArrayType) else None
        members = [each.name for each in row.fields] if isinstance(row, RowType) else []
        names = _split(text)
        for name in names:
            if name not in members:
                self._invalid(
                    f"fields.{column.name}.{suffix}",
                    text,
                    f"names {name!r}, which is no member of {column.type}; "
                    f"there are {', '.join(members)}",
                )
        return names

    def _nested_key_nulls(self, name: str) -> NestedKeyNulls:
        text = self._field_option(name, "nested-key-null-strategy")
        if text is None:
            return NestedKeyNulls.MERGE
        values = [each.value for each in NestedKeyNulls]
        if text.lower() not in values:
            self._invalid(
                f"fields.{name}.nested-key-null-strategy", text, f"is none of {', '.join(values)}"
            )
        return NestedKeyNulls(text.lower())

    def _count_limit(self, name: str) -> int:
        text = self._field_option(name, "count-limit")
        if text is None:
            return NO_LIMIT
        limit = bounded_number(text, 32)
        if limit is None or limit < 0:
            self._invalid(
                f"fields.{name}.count-limit", text, "is no number of rows; write one such as 100"
            )
        return limit

    def _time_field(self, column: DataField) -> str:
        row = column.type.value if isinstance(column.type, MapType) else None
        members = row.fields if isinstance(row, RowType) else ()
        text = self._field_option(column.name, "ts-field")
        # The last member is the time of its entry where no other is named.
        name = members[-1].name if text is None else text
        found = [each for each in members if each.name == name]
        option = f"fields.{column.name}.ts-field"
        if not found:
            self._invalid(
                option,
                name,
                f"is no member of {row}; there are {', '.join(each.name for each in members)}",
            )
        data_type = found[0].type
        if not (isinstance(data_type, AtomicType) and data_type.root.is_text):
            self._invalid(option, name, f"is {data_type}; times are compared as texts")
        return name

    # --- single options ----------------------------------------------------------------------

    def _field_option(self, name: str, suffix: str) -> str | None:
        return self.options.get(f"fields.{name}.{suffix}")

    def _field_boolean(self, name: str, suffix: str) -> bool:
        return self._boolean(f"fields.{name}.{suffix}")

    def _boolean(self, option: str) -> bool:
        text = self.options.get(option, "false")
        if text.lower() not in ("true", "false"):
            self._invalid(option, text, "is neither true nor false")
        return text.lower() == "true"

    # --- checks ------------------------------------------------------------------------------

    def _check_field_names(self) -> None:
        for option, text in self.options.items():
            match = _FIELD_OPTION.fullmatch(option)
            if match is None:
                continue
            group = option.endswith(_GROUP_SUFFIX)
            names = _split(match["names"]) if group else (match["names"],)
            for name in names:
                self._check_column(option, text, name)

    def _check_column(self, option: str, text: str, name: str) -> None:
        if name not in self.types:
            self._invalid(
                option,
                text,
                f"names {name!r}, which is no column; there are {', '.join(self.types)}",
            )

    def _check_orders(self, option: str, text: str, name: str) -> None:
        data_type = self.types.get(name)
        if data_type is not None and not isinstance(data_type, AtomicType):
            self._invalid(
                option,
                text,
                f"orders rows by {name!r}, which is {data_type}; take a primitive type",
            )

    def _check_once(self, option: str, text: str, names: Collection[str]) -> None:
        repeated = [name for name, times in Counter(names).items() if times > 1]
        if repeated:
            self._invalid(option, text, f"names {repeated[0]!r} more than once")

    def _invalid(self, option: str, value: str, problem: str) -> NoReturn:
        raise InvalidOption(
            f"{self.table}: {option}={value} {problem}", table=self.table, option=option
        )

    def _unsupported(self, option: str, value: str, instead: str) -> NoReturn:
        raise UnsupportedError(
            f"{self.table} sets option {option}={value}, which is not implemented ({instead})",
            table=self.table,
            option=option,
        )


def _split(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


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
