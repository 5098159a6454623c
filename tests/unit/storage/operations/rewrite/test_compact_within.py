"""A compaction within a budget: the buckets that wait longest first, and in the end all of them."""

from __future__ import annotations

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.rewrite.compaction_plan import CompactionPlan
from tests.support.tables.builders import content, events, new_table, rows

KINDS = {"append": (), "keyed": ("day", "id")}


def filled(catalog: Catalog, kind: str) -> Table:
    """Three small files in each of four days, the oldest in d."""
    options = {"bucket": "1"} if kind == "keyed" else {}
    table = new_table(catalog, partitions=("day",), keys=KINDS[kind], options=options)
    for day in "dbca":
        for at in range(3):
            table.write(rows(table, events(at, at + 1, day=day)))
    return table


def days(plan: CompactionPlan) -> list[object]:
    return [each.partition["day"] for each in plan.tasks]


@pytest.mark.parametrize("kind", KINDS)
def test_the_buckets_that_wait_longest_are_planned_up_to_the_budget(
    catalog: Catalog, kind: str
) -> None:
    table = filled(catalog, kind)
    whole = table.upkeep.plan_compact(full=True)
    budget = whole.bytes_before // 2

    plan = table.upkeep.plan_compact(full=True, max_bytes=budget)

    assert sorted(map(str, days(plan))) in (["b", "d"], ["d"])
    assert plan.bytes_before <= budget
    assert plan.bytes_before + plan.bytes_left == whole.bytes_before
    left = {each.partition["day"] for each in plan.skipped if "later run" in each.reason}
    assert left == set("abcd") - set(days(plan))
    assert CompactionPlan.from_json(plan.to_json()) == plan


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0, 0.3, 0.6, 1])
def test_repeated_runs_reach_what_one_run_does(catalog: Catalog, kind: str, share: float) -> None:
    table = filled(catalog, kind)
    before = content(table)
    whole = table.upkeep.plan_compact(full=True)
    smallest = min(each.bytes for each in whole.tasks)
    budget = max(1, int(whole.bytes_before * share))
    for _ in range(len(whole.tasks) + 1):
        plan = table.upkeep.plan_compact(full=True, max_bytes=budget)
        if not plan.tasks:
            break
        assert plan.bytes_before <= budget or len(plan.tasks) == 1
        assert budget >= smallest or len(plan.tasks) == 1
        table.upkeep.run(plan)
    assert not table.upkeep.plan_compact(full=True).tasks
    assert {stats.file_count for stats in table.at().partitions()} == {1}
    assert content(table) == before


def test_a_budget_is_at_least_a_byte(catalog: Catalog) -> None:
    with pytest.raises(InvalidRequestError, match="max_bytes is 0"):
        new_table(catalog).upkeep.plan_compact(max_bytes=0)
