"""The undo of a write gives the rows of a table on which it was never made, also after upkeep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from lakewright.platform.undo.undo import plan_undo, run_undo
from lakewright.platform.upkeep.compact import COMPACT, CompactRun
from lakewright.platform.upkeep.procedure import Work, carry_out
from lakewright.platform.upkeep.sort_compact import SORT_COMPACT, SortCompactRun
from lakewright.storage import Catalog, Table
from tests.support.histories.reverts import KINDS
from tests.support.tables.builders import content, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import empty_memory, memory_uri
from tests.support.tables.invariants import assert_only_reachable_files

FEWER = settings().max_examples // 2
RUN = "dagster-11111111-2222-4333-8444-555555555555-ingest"
UPKEEP = "lakewright upkeep (0a1b2c3d)"
# A write, an overwrite of the partitions of its rows, or a rewrite.
Step = list[dict[str, Any]] | tuple[list[dict[str, Any]]] | str


def no_session() -> NoReturn:
    raise AssertionError("no Spark session is needed")


@pytest.fixture(autouse=True)
def _empty_memory() -> Iterator[None]:
    yield
    empty_memory()


@st.composite
def written(draw: st.DrawFn, first: int) -> list[dict[str, Any]]:
    """Rows of one write; a number makes each value unlike all others."""
    ids = draw(st.lists(st.integers(first, first + 9), min_size=1, max_size=4, unique=True))
    day, number = draw(st.sampled_from("ab")), draw(st.integers(0, 10**6))
    return [{"id": each, "day": day, "v": f"{number}-{each}"} for each in ids]


def _do(table: Table, step: Step) -> None:
    work = Work(run=UPKEEP, session=no_session)
    if step == "sort" and table.options.bucket == -1 and not table.schema.has_primary_key:
        carry_out(SORT_COMPACT, table, SortCompactRun(by=("id",)), work)
    elif isinstance(step, str):
        carry_out(COMPACT, table, CompactRun(full=step == "full", min_files=2), work)
    elif isinstance(step, tuple):
        table.write(rows(table, step[0]), mode="overwrite")
    else:
        table.write(rows(table, step))


@settings(max_examples=FEWER, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_write_is_undone_through_rewrites_of_upkeep_and_rows_of_others_stay(
    data: st.DataObject,
) -> None:
    # In the others, rows that come back to level 0 are not read until a compaction.
    kind = data.draw(st.sampled_from(sorted(KINDS.keys() - {"vectors", "first row"})))
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    table, twin = (KINDS[kind].table(catalog, f"db.{name}") for name in ("t", "twin"))
    rewrites = st.sampled_from(["full", "some", "sort"])
    before = data.draw(st.lists(st.one_of(written(0), rewrites), max_size=3))
    over = st.tuples(written(20))
    # Some of the same keys, and some that only others write.
    later = data.draw(
        st.lists(
            st.one_of(written(0), written(20), over, rewrites, rewrites), min_size=1, max_size=6
        )
    )
    for step in before:
        _do(table, step)
        _do(twin, step)
    mode = data.draw(st.sampled_from(["append", "overwrite"]))
    table.write(rows(table, data.draw(written(0))), commit_user=RUN, mode=mode)
    for step in later:
        _do(table, step)
        _do(twin, step)
    told, left = content(table), content(twin)
    undone = run_undo(
        catalog, plan_undo(catalog, RUN, tables=["db.t"]), Work(run="undo", session=no_session)
    )
    if undone.left_alone:
        event(f"{kind}: {undone.left_alone[0].why.split(': ', 1)[1][:40]}")
        assert content(table) == told
        return
    event(f"{kind}: undone{', with rewrites' * bool(undone.parts[0].also)}")
    assert content(table) == left
    _do(table, "full")
    assert content(table) == left
    assert_only_reachable_files(table)
