"""Hypothesis strategies: schemas over every type of the format, and rows that fit them.

Dates, times and timestamps are drawn as the integers Arrow stores, so that no Python calendar
narrows them; rows are made with `tests.support.tables.builders.rows`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from lakewright.storage.codec.arrow_types import timestamp_unit
from lakewright.storage.spec.data_types import (
    BYTES,
    STRING,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    OpaqueType,
    RowType,
    TypeRoot,
    not_null,
)

# Days of 0001-01-01 and 9999-12-31: beyond them Python has no dates to show.
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
_MICROS_PER_DAY = 86_400_000_000
FIRST_MICROS = FIRST_DAY * _MICROS_PER_DAY
LAST_MICROS = (LAST_DAY + 1) * _MICROS_PER_DAY - 1
# Characters that are difficult for paths, escapes or comparisons.
AWKWARD = "\x00\x01\x1f\x7f\"#%'*/:=?\\{}[]^ .,;&|<>$~`@!()+-_ aZ09äß中\U0001f600￿\t\n\r"
_CHARACTERS = st.one_of(st.sampled_from(AWKWARD), st.characters(exclude_categories=["Cs"]))

Values = st.SearchStrategy[Any]


def text(max_size: int = 20) -> st.SearchStrategy[str]:
    """Texts with difficult characters."""
    return st.text(_CHARACTERS, max_size=max_size)


def names() -> st.SearchStrategy[str]:
    """Column names: mostly plain, some that need quoting."""
    plain = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True)
    odd = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6)
    usable = st.one_of(plain, plain, odd)
    return usable.filter(
        lambda name: bool(name.strip()) and not name.startswith("_") and name != "rowkind"
    )


def atomic_types(*, nanoseconds: bool = False) -> st.SearchStrategy[AtomicType]:
    """Every atomic type; timestamps up to microseconds unless asked otherwise."""
    sized = st.sampled_from(
        [TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY]
    ).flatmap(lambda root: st.integers(1, 40).map(lambda length: AtomicType(root, length=length)))
    decimals = st.integers(1, 38).flatmap(
        lambda precision: st.integers(0, precision).map(
            lambda scale: AtomicType(TypeRoot.DECIMAL, precision=precision, scale=scale)
        )
    )
    precisions = [3, 6, 9] if nanoseconds else [3, 6]
    timestamps = st.builds(
        lambda root, precision: AtomicType(root, precision=precision),
        st.sampled_from([TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ]),
        st.sampled_from(precisions),
    )
    plain = [
        TypeRoot.BOOLEAN,
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.FLOAT,
        TypeRoot.DOUBLE,
        TypeRoot.DATE,
    ]
    return st.one_of(
        st.sampled_from([AtomicType(root) for root in plain]),
        st.just(STRING),
        st.just(BYTES),
        st.just(AtomicType(TypeRoot.TIME, precision=3)),
        sized,
        decimals,
        timestamps,
    )


def nested_types(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    """Arrays, maps, multisets and rows of `inner`."""
    maybe_required = st.one_of(inner, inner.map(not_null))
    keys = atomic_types().filter(lambda each: not each.root.is_floating).map(not_null)
    members = st.lists(
        st.tuples(names(), maybe_required), min_size=1, max_size=3, unique_by=lambda each: each[0]
    )
    return st.one_of(
        maybe_required.map(ArrayType),
        st.builds(MapType, keys, maybe_required),
        keys.map(MultisetType),
        members.map(lambda each: RowType(tuple(DataField(-1, name, kind) for name, kind in each))),
    )


def data_types(*, nanoseconds: bool = False) -> st.SearchStrategy[DataType]:
    """Types of any depth, nullable or not."""
    atoms = atomic_types(nanoseconds=nanoseconds)
    nested = st.recursive(atoms, nested_types, max_leaves=4)
    return st.one_of(atoms, nested, nested.map(not_null))


def partition_types() -> st.SearchStrategy[AtomicType]:
    """Types that partition columns may be of."""
    return atomic_types().filter(lambda each: not each.root.is_bytes)


def values(data_type: DataType) -> Values:
    """Values of a type, null among them where it may be."""
    known = known_values(data_type)
    return st.one_of(st.none(), known, known) if data_type.nullable else known


def known_values(data_type: DataType) -> Values:
    """Values of a type without nulls, drawn directly since a filter would discard many examples."""
    match data_type:
        case ArrayType(element=element):
            return st.lists(values(element), max_size=3)
        case MapType(key=key, value=value):
            return _maps(key, values(value))
        case MultisetType(element=element):
            return _maps(element, st.integers(1, 100))
        case RowType(fields=fields):
            return st.fixed_dictionaries({each.name: values(each.type) for each in fields})
        case AtomicType():
            return _atomic_values(data_type)
        case OpaqueType():
            raise AssertionError(data_type)


def _maps(key: DataType, held: Values) -> Values:
    pairs = st.tuples(known_values(key), held)
    return st.lists(pairs, max_size=3, unique_by=lambda pair: repr(pair[0]))


def _atomic_values(data_type: AtomicType) -> Values:
    match data_type.root:
        case TypeRoot.BOOLEAN:
            return st.booleans()
        case TypeRoot.TINYINT:
            return st.integers(-(2**7), 2**7 - 1)
        case TypeRoot.SMALLINT:
            return st.integers(-(2**15), 2**15 - 1)
        case TypeRoot.INT:
            return st.integers(-(2**31), 2**31 - 1)
        case TypeRoot.BIGINT:
            return st.integers(-(2**63), 2**63 - 1)
        case TypeRoot.FLOAT:
            return st.one_of(st.sampled_from([-0.0, 0.0]), st.floats(width=32))
        case TypeRoot.DOUBLE:
            return st.one_of(st.sampled_from([-0.0, 0.0]), st.floats())
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return text(min(data_type.length, 20))
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return st.binary(max_size=min(data_type.length, 20))
        case TypeRoot.DECIMAL:
            bound = 10**data_type.precision - 1
            edges = st.sampled_from([-bound, -1, 0, 1, bound])
            return st.one_of(edges, st.integers(-bound, bound)).map(
                lambda unscaled: decimal_of(unscaled, data_type.scale)
            )
        case TypeRoot.DATE:
            return st.integers(FIRST_DAY, LAST_DAY)
        case TypeRoot.TIME:
            return st.integers(0, 86_399_999)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _timestamps(data_type.precision)


def _timestamps(precision: int) -> st.SearchStrategy[int]:
    match timestamp_unit(precision):
        case "ms":
            return st.integers(FIRST_MICROS // 1000, LAST_MICROS // 1000)
        case "us":
            return st.integers(FIRST_MICROS, LAST_MICROS)
        case _:
            return st.integers(-(2**63) + 1, 2**63 - 1)


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """A decimal of exactly that scale, with any number of digits."""
    sign = 1 if unscaled < 0 else 0
    return Decimal((sign, tuple(int(digit) for digit in str(abs(unscaled))), -scale))
