"""The rows of each case, the same for every contestant.

A case is one full load of N rows and commits of a tenth of that. In `bigint`, `string`
and `composite` rows are in random order, nine of ten commit rows change an existing key, the tenth
adds a new one. `composite` also has deletions and nulls, and a commit may hold an older version of
a key than the present one (`sequence.field`). `lineitem` is TPC-H's, loaded in the order of its
generator; commits change rows of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

COMMIT_SHARE = 10
NEW_KEY_SHARE = 10
BUCKETS = 2
ROW_KIND_COLUMN = "_rowkind"
_DAYS = 365
_FIRST_DAY = 19_723  # 2024-01-01
_VERSIONS = 1_000
_NAMES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The shape of a table; the sum of the column `checksum` reveals wrong merges."""

    name: str
    title: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    checksum: str
    sequence_fields: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


CASES = {
    case.name: case
    for case in (
        Case(
            name="bigint",
            title="bigint key, string, double, day",
            keys=("id",),
            columns=("id", "name", "amount", "day"),
            checksum="amount",
        ),
        Case(
            name="string",
            title="string key, string, double, day",
            keys=("id",),
            columns=("id", "name", "amount", "day"),
            checksum="amount",
        ),
        Case(
            name="composite",
            title="composite key, nulls, deletes, interleaved sequence numbers",
            keys=("tenant", "code"),
            columns=("tenant", "code", "version", "note", "amount", "quantity", "day"),
            checksum="amount",
            sequence_fields=("version",),
            options={"sequence.field": "version"},
        ),
        Case(
            name="lineitem",
            title="TPC-H lineitem, key (l_orderkey, l_linenumber)",
            keys=("l_orderkey", "l_linenumber"),
            columns=(
                "l_orderkey",
                "l_partkey",
                "l_suppkey",
                "l_linenumber",
                "l_quantity",
                "l_extendedprice",
                "l_discount",
                "l_tax",
                "l_returnflag",
                "l_linestatus",
                "l_shipdate",
                "l_commitdate",
                "l_receiptdate",
                "l_shipinstruct",
                "l_shipmode",
                "l_comment",
            ),
            checksum="l_quantity",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Load:
    """Rows of one commit, with the arrays that a model of the table needs."""

    rows: pa.Table
    key_ids: np.ndarray
    versions: np.ndarray
    deletes: np.ndarray
    checks: np.ndarray

    def sliced(self, row_count: int) -> Load:
        """The first rows only."""
        return Load(
            self.rows.slice(0, row_count),
            *(
                part[:row_count]
                for part in (self.key_ids, self.versions, self.deletes, self.checks)
            ),
        )


class Model:
    """The content of the table after each commit, as arrays."""

    def __init__(self) -> None:
        self._versions = np.empty(0, dtype=np.int64)
        self._alive = np.empty(0, dtype=bool)
        self._checks = np.empty(0)

    def apply(self, load: Load) -> None:
        self._grow(int(load.key_ids.max()) + 1)
        # Of equal versions the later commit wins.
        wins = load.versions >= self._versions[load.key_ids]
        keys = load.key_ids[wins]
        self._versions[keys] = load.versions[wins]
        self._alive[keys] = ~load.deletes[wins]
        self._checks[keys] = load.checks[wins]

    @property
    def row_count(self) -> int:
        return int(np.count_nonzero(self._alive))

    @property
    def checksum(self) -> float:
        return float(self._checks[self._alive].sum())

    def _grow(self, size: int) -> None:
        more = max(0, size - len(self._alive))
        self._versions = np.append(self._versions, np.full(more, np.iinfo(np.int64).min))
        self._alive = np.append(self._alive, np.zeros(more, dtype=bool))
        self._checks = np.append(self._checks, np.zeros(more))


class Loads:
    """The commits of one case: number 0 is the full load."""

    def __init__(self, case: Case, row_count: int, *, lineitem: Path | None = None) -> None:
        self.case = case
        self.row_count = row_count
        self._base: pa.Table | None = None
        if case.name == "lineitem":
            assert lineitem is not None
            self._base = _lineitem(lineitem, case, row_count)

    def load(self, number: int) -> Load:
        """One commit; the same every time."""
        generator = np.random.default_rng([number, self.row_count])
        keys = self._key_ids(generator, number)
        if self._base is not None:
            return self._of_lineitem(keys, generator, number)
        if self.case.name == "composite":
            return _composite(keys, generator, number)
        ids = pa.array(keys) if self.case.name == "bigint" else _numbered("user-", keys, 10)
        amounts = _cents(generator, len(keys))
        rows = pa.table(
            {
                "id": ids,
                "name": _names(generator, len(keys)),
                "amount": pa.array(amounts),
                "day": _days(generator, len(keys)),
            }
        )
        return Load(rows, keys, np.full(len(keys), number), np.zeros(len(keys), bool), amounts)

    def _key_ids(self, generator: np.random.Generator, number: int) -> np.ndarray:
        if number == 0:
            keys = np.arange(self.row_count, dtype=np.int64)
            return keys if self._base is not None else generator.permutation(keys)
        count = max(1, self.row_count // COMMIT_SHARE)
        new = 0 if self._base is not None else count // NEW_KEY_SHARE
        changed = generator.choice(self.row_count, size=count - new, replace=False)
        first_new = self.row_count + (number - 1) * new
        both = np.concatenate([changed, np.arange(first_new, first_new + new)])
        return generator.permutation(both).astype(np.int64)

    def _of_lineitem(self, keys: np.ndarray, generator: np.random.Generator, number: int) -> Load:
        assert self._base is not None
        rows = self._base if number == 0 else self._base.take(pa.array(keys))
        if number:
            quantity = pa.array(generator.integers(1, 51, len(keys)).astype(np.int32))
            place = rows.schema.get_field_index("l_quantity")
            field_ = rows.schema.field(place)
            rows = rows.set_column(place, field_, quantity.cast(field_.type))
        checks = rows.column("l_quantity").cast(pa.float64()).to_numpy()
        return Load(rows, keys, np.full(len(keys), number), np.zeros(len(keys), bool), checks)


def _lineitem(path: Path, case: Case, row_count: int) -> pa.Table:
    rows = pq.read_table(path, columns=list(case.columns)).slice(0, row_count)
    if rows.num_rows != row_count:
        raise ValueError(f"{path} holds {rows.num_rows} rows; {row_count} are needed")
    # Plain strings, instead of the generator's dictionaries or views.
    fields = [
        pa.field(each.name, _plain(each.type), each.name not in case.keys) for each in rows.schema
    ]
    return rows.cast(pa.schema(fields)).combine_chunks()


def _plain(arrow_type: pa.DataType) -> pa.DataType:
    textual = (pa.types.is_dictionary, pa.types.is_string_view, pa.types.is_large_string)
    return pa.string() if any(is_kind(arrow_type) for is_kind in textual) else arrow_type


def _composite(keys: np.ndarray, generator: np.random.Generator, number: int) -> Load:
    count = len(keys)
    # Versions of neighbouring commits overlap, so about one change in three is older than the
    # present row.
    versions = generator.integers(
        number * _VERSIONS // 3, number * _VERSIONS // 3 + _VERSIONS, count
    )
    deletes = generator.random(count) < (0.05 if number else 0.0)
    amounts = _cents(generator, count)
    no_amount = generator.random(count) < 0.2
    rows = pa.table(
        {
            "tenant": pa.array((keys % 997).astype(np.int32)),
            "code": _numbered("A", keys // 997, 8),
            "version": pa.array(versions),
            "note": _names(generator, count, missing=generator.random(count) < 0.3),
            "amount": pa.array(amounts, mask=no_amount),
            "quantity": pa.array(
                generator.integers(0, 100, count).astype(np.int32),
                mask=generator.random(count) < 0.1,
            ),
            "day": _days(generator, count),
        }
    )
    if deletes.any():
        kinds = pc.if_else(pa.array(deletes), "-D", "+I")
        rows = rows.append_column(ROW_KIND_COLUMN, kinds)
    return Load(rows, keys, versions, deletes, np.where(no_amount, 0.0, amounts))


def _numbered(prefix: str, numbers: np.ndarray, digits: int) -> pa.Array:
    padded = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), digits, "0")
    return pc.binary_join_element_wise(prefix, padded, "")


def _names(
    generator: np.random.Generator, count: int, *, missing: np.ndarray | None = None
) -> pa.Array:
    pool = _numbered("customer ", np.arange(_NAMES) * 7919 % 1_000_003, 6)
    return pool.take(pa.array(generator.integers(0, _NAMES, count), mask=missing))


def _cents(generator: np.random.Generator, count: int) -> np.ndarray:
    cents: np.ndarray = generator.integers(0, 10_000_000, count) / 100
    return cents


def _days(generator: np.random.Generator, count: int) -> pa.Array:
    days = (generator.integers(0, _DAYS, count) + _FIRST_DAY).astype(np.int32)
    return pa.array(days).cast(pa.date32())
