"""Differences of two sets of rows: by key, and by whole rows with how often they are there."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage.lsm.row_difference import difference_by_key, difference_by_row
from lakewright.storage.spec.rows import RowKind

KEYED = pa.schema(
    [("_KEY_k", pa.int64()), ("_VALUE_KIND", pa.int8()), ("k", pa.int64()), ("v", pa.string())]
)
INSERT, DELETE = int(RowKind.INSERT), int(RowKind.DELETE)


def keyed(*rows: tuple[int, int, str | None]) -> pa.Table:
    """Rows (key, kind, value), each key once, in key order."""
    ordered = sorted(rows)
    keys = [row[0] for row in ordered]
    columns = [keys, [row[1] for row in ordered], keys, [row[2] for row in ordered]]
    arrays = [pa.array(column, each.type) for column, each in zip(columns, KEYED, strict=True)]
    return pa.Table.from_arrays(arrays, schema=KEYED)


def difference(before: pa.Table, after: pa.Table) -> set[tuple[int, int, str | None]]:
    found = difference_by_key(before, after, ["_KEY_k"], ["k", "v"]).to_pylist()
    assert len({row["k"] for row in found}) == len(found)
    return {(row["k"], row["_VALUE_KIND"], row["v"]) for row in found}


def test_new_changed_and_gone_keys_are_told_and_others_not() -> None:
    before = keyed((1, INSERT, "a"), (2, INSERT, "b"), (3, INSERT, None), (5, INSERT, "e"))
    after = keyed((1, INSERT, "a"), (2, 2, "x"), (3, INSERT, None), (4, INSERT, "d"))
    assert difference(before, after) == {(2, 2, "x"), (4, INSERT, "d"), (5, DELETE, "e")}


def test_a_deletion_is_told_with_what_was_there() -> None:
    there, gone = keyed((1, INSERT, "a")), keyed((1, DELETE, None))
    assert difference(there, gone) == {(1, DELETE, "a")}
    assert difference(gone, there) == {(1, INSERT, "a")}
    # Deleted before and after, or only ever deleted.
    assert difference(gone, gone) == set()
    assert difference(gone, keyed()) == set()
    assert difference(keyed(), gone) == {(1, DELETE, None)}


def test_null_differs_from_every_value_and_from_no_null() -> None:
    assert difference(keyed((1, INSERT, None)), keyed((1, INSERT, ""))) == {(1, INSERT, "")}
    assert difference(keyed((1, INSERT, None)), keyed((1, INSERT, None))) == set()


STATES = st.dictionaries(st.integers(0, 8), st.sampled_from([None, "", "a", "b"]))


@given(before=STATES, after=STATES)
def test_a_difference_leads_from_one_state_to_the_other(
    before: dict[int, str | None], after: dict[int, str | None]
) -> None:
    tables = [keyed(*((k, INSERT, v) for k, v in each.items())) for each in (before, after)]
    found = dict(before)
    for key, kind, value in difference(*tables):
        if kind == DELETE:
            assert found.pop(key) == value
        else:
            assert key not in found or found[key] != value
            found[key] = value
    assert found == after


SOME: Any = st.tuples(
    st.sampled_from([None, 0.0, -0.0, 1.5]), st.sampled_from([None, (), (1,), (None, 1)])
)
ROW = pa.schema([("x", pa.float64()), ("list", pa.list_(pa.int64()))])


def rows(values: list[Any]) -> pa.Table:
    columns = [[row[0] for row in values], [row[1] for row in values]]
    arrays = [pa.array(column, each.type) for column, each in zip(columns, ROW, strict=True)]
    return pa.Table.from_arrays(arrays, schema=ROW)


def counted(table: pa.Table) -> Counter[str]:
    return Counter(repr(tuple(row.values())) for row in table.to_pylist())


@given(before=st.lists(SOME, max_size=8), after=st.lists(SOME, max_size=8))
def test_rows_are_counted_on_both_sides(before: list[Any], after: list[Any]) -> None:
    removed, added = difference_by_row(rows(before), rows(after))
    old, new = counted(rows(before)), counted(rows(after))
    assert counted(removed) == old - new
    assert counted(added) == new - old
