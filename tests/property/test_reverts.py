"""A revert gives the rows of a table on which the reverted verb was never done."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import NotRevertible
from tests.support.histories.reverts import KINDS, RETRACTING, VERBS, is_tried, made_by
from tests.support.tables.builders import compact, content, expire, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import empty_memory, memory_uri
from tests.support.tables.invariants import assert_only_reachable_files

# An example makes two tables, so a quarter of what other laws try has to do.
FEWER = settings().max_examples // 4


@pytest.fixture(autouse=True)
def _empty_memory() -> Any:
    yield
    empty_memory()


@st.composite
def written(draw: st.DrawFn, *, retracts: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of one write, with their kinds; a number makes each value unlike all others."""
    ids = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True))
    day, number = draw(st.sampled_from("ab")), draw(st.integers(0, 10**6))
    kinds = st.sampled_from(["+I", "-D"] if retracts else ["+I"])
    found = [{"id": each, "day": day, "v": f"{number}-{each}"} for each in ids]
    return found, [draw(kinds) for _ in found]


# A write, or a compaction of so many files.
Step = tuple[list[dict[str, Any]], list[str]] | int


def _do(table: Table, step: Step) -> None:
    if isinstance(step, int):
        compact(table, full=step == 0, min_file_num=None if step == 0 else step)
        return
    values, kinds = step
    if table.schema.has_primary_key:
        table.write(rows(table, values, kinds=kinds))
    else:
        table.write(rows(table, values))


def steps(*, retracts: bool, most: int) -> st.SearchStrategy[list[Step]]:
    """What is done to a table."""
    write = written(retracts=retracts)
    return st.lists(st.one_of(write, write, st.sampled_from([0, 2, 3])), max_size=most)


@settings(max_examples=FEWER, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_reverted_verb_leaves_no_trace_in_the_rows(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(KINDS)))
    # A rescale changes the option of one of the tables.
    tried = [each for each in VERBS if each != "rescale" and is_tried(kind, each)]
    verb = data.draw(st.sampled_from(tried))
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    table, twin = (KINDS[kind].table(catalog, f"db.{name}") for name in ("t", "twin"))
    retracts = kind in RETRACTING
    both = (table, twin)
    before = data.draw(steps(retracts=retracts, most=4))
    # The verb finds its partition.
    first: Step = ([{"id": 0, "day": "a", "v": "first"}], ["+I"])
    for step in (first, *before):
        for each in both:
            _do(each, step)
    made = made_by(table, VERBS[verb])
    later = data.draw(steps(retracts=retracts, most=4))
    for step in later:
        for each in both:
            _do(each, step)
    done = content(table)
    try:
        result = table.history.revert(*made) if made else None
    except NotRevertible as error:
        event(f"{verb}: {str(error).split(': ', 1)[1][:20]}")
        assert later
        assert content(table) == done
        return
    event(f"{verb}: taken back")
    assert made == () or result is not None
    assert content(table) == content(twin)
    after = data.draw(steps(retracts=retracts, most=3))
    for step in (*after, 0):
        for each in both:
            _do(each, step)
        if not isinstance(step, int) or kind not in {"vectors", "first row"}:
            assert content(table) == content(twin)
    assert content(table) == content(twin)
    expire(table)
    assert content(table) == content(twin)
    assert_only_reachable_files(table)
