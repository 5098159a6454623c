"""The result of a merge can be merged with further rows, as compactions do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.storage.lsm.key_groups import KeyGroups
from lakewright.storage.lsm.merge_engines import MergeFunction, merge_function
from lakewright.storage.spec.merge_options import read_merge_spec
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.schema import TableSchema
from tests.support.models.merge_engines import Event
from tests.support.tables.key_rows import groups_of, schema_of

INSERTS = [RowKind.INSERT, RowKind.UPDATE_AFTER]
COLUMNS: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "g": ("INT", st.integers(0, 3)),
    "n": ("INT", st.integers(-3, 3)),
    "t": ("STRING", st.sampled_from(["a", "b", "", "c"])),
    "b": ("BOOLEAN", st.booleans()),
    "m": (
        "MAP<INT, INT>",
        st.dictionaries(st.integers(0, 2), st.integers(0, 9)).map(lambda each: [*each.items()]),
    ),
    "l": ("ARRAY<INT>", st.lists(st.integers(0, 3), max_size=2)),
}
TYPES = {name: kind for name, (kind, _) in COLUMNS.items()}


def events(kinds: list[RowKind]) -> st.SearchStrategy[list[Event]]:
    values = st.fixed_dictionaries(
        {name: st.none() | strategy for name, (_, strategy) in COLUMNS.items()}
    )
    rows = st.lists(st.tuples(st.sampled_from(kinds), values), min_size=3, max_size=7)
    return rows.map(
        lambda each: [Event(kind, number, row) for number, (kind, row) in enumerate(each)]
    )


def shown(table: pa.Table) -> list[dict[str, Any]]:
    rows = table.to_pylist()
    for row in rows:
        row["m"] = None if row["m"] is None else sorted(row["m"])
    return rows


def check_steps(
    schema: TableSchema, function: MergeFunction, given: list[Event], start: int, end: int
) -> None:
    """Merging the rows from `start` to `end` first makes no difference."""
    whole = groups_of(schema, [given])
    part = KeyGroups(whole.rows.slice(start, end - start), np.array([0]))
    pieces = [whole.rows.slice(0, start), function.merge(part), whole.rows.slice(end)]
    steps = KeyGroups(pa.concat_tables(pieces), np.array([0]))
    if not steps.rows.num_rows:
        assert not function.merge(whole).num_rows
        return
    assert shown(function.merge(steps)) == shown(function.merge(whole))


FUNCTIONS = {
    "sums": {"n": "sum", "l": "collect", "m": "merge_map", "t": "listagg", "b": "bool_or"},
    "extremes": {"g": "max", "n": "min", "t": "max", "b": "bool_and"},
    "products": {"n": "product"},
    "firsts": {"n": "first_value", "t": "first_non_null_value"},
    "lasts": {"n": "last_value", "t": "last_non_null_value"},
}
SETTINGS = {
    "deduplicate": ({"merge-engine": "deduplicate"}, list(RowKind)),
    "first-row": ({"merge-engine": "first-row"}, INSERTS),
    "partial-update": ({"merge-engine": "partial-update"}, INSERTS),
    "sequence groups": (
        {
            "merge-engine": "partial-update",
            "fields.g.sequence-group": "t,b,m,n",
            "fields.n.aggregate-function": "sum",
        },
        INSERTS,
    ),
    **{
        name: (
            {
                "merge-engine": "aggregation",
                **{f"fields.{column}.aggregate-function": each for column, each in given.items()},
            },
            INSERTS,
        )
        for name, given in FUNCTIONS.items()
    },
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SETTINGS)
def test_merging_any_stretch_first_changes_nothing(name: str) -> None:
    options, kinds = SETTINGS[name]
    schema = schema_of(TYPES, options)
    function = merge_function(read_merge_spec(schema), schema.fields)

    @settings(max_examples=max(20, settings.default.max_examples // 2))
    @given(given_events=events(kinds), data=st.data())
    def compared(given_events: list[Event], data: st.DataObject) -> None:
        start = data.draw(st.integers(0, len(given_events) - 1))
        end = data.draw(st.integers(start + 1, len(given_events)))
        check_steps(schema, function, given_events, start, end)

    compared()


@given(given_events=events(list(RowKind)), data=st.data())
def test_sums_with_retractions_may_be_merged_from_the_oldest(
    given_events: list[Event], data: st.DataObject
) -> None:
    options = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
    schema = schema_of(TYPES, options)
    function = merge_function(read_merge_spec(schema), schema.fields)
    end = data.draw(st.integers(1, len(given_events)))
    check_steps(schema, function, given_events, 0, end)
