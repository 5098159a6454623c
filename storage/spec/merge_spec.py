"""A primary-key table's merge options as values: how rows of one key become one row.

Sources: Paimon `CoreOptions`, `PartialUpdateMergeFunction` and the factories of field aggregators.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.schema import VALUE_COUNT

NO_LIMIT = 2**31 - 1


class MergeEngine(Enum):
    """How rows of equal keys become one row; the value is the option's text."""

    DEDUPLICATE = "deduplicate"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"
    FIRST_ROW = "first-row"
    VALUE_COUNT = VALUE_COUNT


class AggregateFunction(Enum):
    """How the values of one column become one; the value is the option's text."""

    SUM = "sum"
    PRODUCT = "product"
    MAX = "max"
    MIN = "min"
    FIRST_VALUE = "first_value"
    LAST_VALUE = "last_value"
    FIRST_NON_NULL_VALUE = "first_non_null_value"
    LAST_NON_NULL_VALUE = "last_non_null_value"
    BOOL_AND = "bool_and"
    BOOL_OR = "bool_or"
    LISTAGG = "listagg"
    RBM32 = "rbm32"
    COLLECT = "collect"
    MERGE_MAP = "merge_map"
    MERGE_MAP_WITH_KEYTIME = "merge_map_with_keytime"
    NESTED_UPDATE = "nested_update"
    NESTED_PARTIAL_UPDATE = "nested_partial_update"

    @property
    def retractable(self) -> bool:
        """Whether the function accepts rows that retract a value."""
        return self in _RETRACTABLE


_RETRACTABLE = frozenset(
    {
        AggregateFunction.SUM,
        AggregateFunction.PRODUCT,
        AggregateFunction.LAST_VALUE,
        AggregateFunction.LAST_NON_NULL_VALUE,
        AggregateFunction.COLLECT,
        AggregateFunction.MERGE_MAP,
        AggregateFunction.NESTED_UPDATE,
    }
)


class NestedKeyNulls(Enum):
    """The treatment of nested rows with a null in their key; the value is the option's text."""

    MERGE = "merge"
    IGNORE = "ignore"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldAggregate:
    """How one column is aggregated; settings that the function does not use keep their default.

    With `wraps` whole numbers wrap around where their type cannot hold them.
    """

    function: AggregateFunction
    ignore_retract: bool = False
    delimiter: str = ","
    distinct: bool = False
    nested_key: tuple[str, ...] = ()
    nested_key_nulls: NestedKeyNulls = NestedKeyNulls.MERGE
    nested_sequence: tuple[str, ...] = ()
    count_limit: int = NO_LIMIT
    time_field: str | None = None
    wraps: bool = False


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """Columns of a partial update that change together, unless their sequence decreases.

    `protected` excludes the sequence columns themselves. With `removes_record`, a deletion that
    this group accepts deletes the whole row.
    """

    sequence_fields: tuple[str, ...]
    protected: tuple[str, ...]
    removes_record: bool = False

    @property
    def members(self) -> tuple[str, ...]:
        return self.sequence_fields + self.protected


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSpec:
    """How a primary-key table merges; `read_merge_spec` makes it from a schema.

    `aggregates` holds every column that is not in the primary key where the engine is
    `aggregation`, and the aggregated columns of sequence groups where it is
    `partial-update`. Sequence fields take precedence over sequence numbers in the order of a key's
    rows; `sequence_descending` reverses them.
    """

    engine: MergeEngine = MergeEngine.DEDUPLICATE
    table: str = "the table"
    primary_keys: tuple[str, ...] = ()
    sequence_fields: tuple[str, ...] = ()
    sequence_descending: bool = False
    ignore_delete: bool = False
    ignore_update_before: bool = False
    rowkind_field: str | None = None
    remove_record_on_delete: bool = False
    sequence_groups: tuple[SequenceGroup, ...] = ()
    aggregates: Mapping[str, FieldAggregate] = field(default_factory=dict)

    @property
    def dropped_kinds(self) -> frozenset[RowKind]:
        """Row kinds that a writer drops, with every engine."""
        if self.ignore_delete:
            return frozenset({RowKind.DELETE, RowKind.UPDATE_BEFORE})
        return frozenset({RowKind.UPDATE_BEFORE} if self.ignore_update_before else ())

    def with_needed(self, names: Iterable[str]) -> tuple[str, ...]:
        """The columns that a merge of `names` needs, with the added ones last."""
        wanted = dict.fromkeys(names)
        for group in self.sequence_groups:
            if group.removes_record or wanted.keys() & set(group.members):
                wanted |= dict.fromkeys(group.sequence_fields)
        return tuple(wanted | dict.fromkeys(self.sequence_fields))
