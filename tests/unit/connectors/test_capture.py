"""What the position of a captured table rests on, without a server."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest

from lakewright.connectors.capture.new_columns import tell_new_columns
from lakewright.connectors.postgres_cdc.state import State, check
from lakewright.connectors.rests import check_facts
from lakewright.storage.errors import SourceChanged


def _way(thing: str) -> str:
    return f"the way of {thing}"


def test_a_difference_is_one_error_with_the_thing_both_values_and_the_way() -> None:
    with pytest.raises(SourceChanged) as refused:
        check_facts("db.t", {"a": 1, "key": ["x"]}, {"a": 1, "key": ["x", "y"]}, _way)
    assert refused.value.message == (
        "db.t: key is (x, y) now, and was (x) where the stream stands; the way of key"
    )
    copied = pickle.loads(pickle.dumps(refused.value))
    assert copied.details == {"thing": "key", "before": ["x"], "now": ["x", "y"]}


def test_a_fact_that_either_side_does_not_have_is_not_compared() -> None:
    check_facts("db.t", {}, {"server": "1"}, _way)
    check_facts("db.t", {"server": None, "slot": "s"}, {"server": "1", "slot": None}, _way)


def _state(**changed: Any) -> State:
    """A table with an entry in a publication, but for what is changed."""
    column = {"type": "integer", "place": 1, "version": "7", "default": None}
    column |= {"labels": None, "label_versions": None, "attributes": None}
    table = {"oid": 5, "of": 16384, "filter": False, "columns": None}
    publication = {
        "oid": 9,
        "version": "7",
        "all": False,
        "operations": ["insert", "update", "delete", "truncate"],
        "by_root": False,
        "schemas": None,
        "tables": [{**table, **changed.pop("entry", {})}],
        **changed.pop("publication", {}),
    }
    found = {
        "table": 16384,
        "file": 16384,
        "toast": None,
        "key": ["id"],
        "is_logged": True,
        "in_schema": "7",
        "parents": None,
        "columns": {"id": column, "n": {**column, "place": 2, **changed.pop("column", {})}},
        "publication": publication,
    }
    return State({**found, **changed})


@pytest.mark.parametrize(
    ("changed", "thing"),
    [
        ({"table": 16390}, "table"),
        ({"key": ["n"]}, "key"),
        ({"column": {"place": 3}}, "column n"),
        ({"column": {"version": "8"}, "file": 16390}, "column n"),
        ({"column": {"type": "bigint"}, "file": 16390}, "column n"),
        ({"column": {"labels": {"1": "blue"}}}, "column n"),
        ({"publication": {"version": "8"}}, "publication"),
        ({"entry": {"oid": 6}}, "publication of the table"),
        ({"entry": {"filter": True}}, "publication of the table"),
        ({"publication": {"schemas": [3]}, "in_schema": "8"}, "schema of the table"),
        ({"entry": {"of": 1}, "parents": ["p since 8"]}, "parents of the table"),
        ({"entry": {"of": 1}, "file": 16390}, "rewriting of the table"),
        ({"entry": {"of": 1}, "file": 16390, "toast": 16387}, None),
        ({"in_schema": "8", "parents": ["p since 8"]}, None),
        ({"column": {"version": "8"}}, None),
        ({"column": {"type": "bigint"}}, None),
        ({"file": 16390}, None),
    ],
)
def test_a_state_of_postgresql_differs_where_rows_or_changes_would(
    changed: dict[str, Any], thing: str | None
) -> None:
    # A label counts as changed where it was another one.
    first = {"column": {"labels": {"1": "sad"}}} if "labels" in str(changed) else {}
    if {"in_schema", "parents", "file"} & {*changed}:
        same = ("publication", "entry", "toast")
        first = {name: each for name, each in changed.items() if name in same}
    before = _state(**first).facts(("1", 1), "s", ["id", "n"])
    now = _state(**changed).facts(("1", 1), "s", ["id", "n"])
    check("db.t", before, before, _way)
    if thing is None:
        check("db.t", before, now, _way)
        return
    with pytest.raises(SourceChanged) as refused:
        check("db.t", before, now, _way)
    assert refused.value.details["thing"] == thing


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, (True, False, True)),
        ({"entry": {"filter": True}}, (True, True, True)),
        # With its schema, a filter and a list of columns do not count.
        (
            {"entry": {"filter": True, "columns": ["id"]}, "publication": {"schemas": [3]}},
            (True, False, True),
        ),
        ({"entry": {"columns": ["id"]}}, (True, False, False)),
        ({"publication": {"tables": None}}, (False, False, True)),
        ({"publication": {"tables": None, "all": True}}, (True, False, True)),
        ({"entry": {"of": 1}}, (True, False, True)),
    ],
)
def test_a_publication_has_a_table_by_itself_its_schema_or_its_ancestor(
    changed: dict[str, Any], expected: tuple[bool, bool, bool]
) -> None:
    state = _state(**changed)
    assert (state.is_published, state.is_filtered, state.publishes("n")) == expected


def test_new_columns_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    told = set[str]()
    before = {"columns": {"id": 1}, "undeclared": ["x"]}
    now = {"columns": {"id": 1, "b": 1}, "undeclared": ["x", "y", "z"]}
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            tell_new_columns(before, now, told, {"x": "1", "y": "2"}, owner="db.t", place="p.t")
            tell_new_columns({}, now, set(), {}, owner="db.t", place="p.t")
    undeclared, declared = caplog.messages
    assert "not read: y, z; rows that were read have values there (y DEFAULT 2)" in undeclared
    assert "without the columns b have null" in declared
