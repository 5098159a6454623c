"""Choosing under a budget: the most useful first, one verb a table, few runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.platform.decide.budget import BudgetsOf, batches, choose, spent_of
from lakewright.platform.ledger.intents import URGENT, Cost, Intent, Why, WhyNot
from lakewright.platform.ledger.past import day_of
from lakewright.platform.policies.policies import DayBudget

WHOLE = "the warehouse"


def limits(size: int | None = None, *, time: int | None = None) -> BudgetsOf:
    """One budget of the warehouse."""
    return lambda _: [budget(WHOLE, size, time=time)]


def budget(section: str, size: int | None = None, *, time: int | None = None) -> DayBudget:
    return DayBudget(
        section=section, bytes=size, time=time, bytes_place="p.yaml:3", time_place="p.yaml:4"
    )


def no_limits(_: str) -> list[DayBudget]:
    return []


def intent(table: str, *, verb: str = "compact", score: float = 1.0, size: int = 0) -> Intent:
    return Intent(
        table=table,
        verb=verb,
        why=Why.SMALL_FILES,
        told=f"{table} is due",
        cost=Cost(bytes=size, milliseconds=size),
        score=score,
    )


def test_the_most_useful_comes_first_and_the_rest_waits_for_tomorrow() -> None:
    found = [intent("a", score=1, size=60), intent("b", score=3, size=60), intent("c", score=2)]
    choice = choose(found, limits(100), {}, day_ends_ms=77)
    assert [each.table for each in choice.chosen] == ["b", "c"]
    (waits,) = choice.declined
    assert (waits.table, waits.why_not, waits.again_ms) == ("a", WhyNot.OUT_OF_BYTES, 77)
    assert waits.reason == (
        "a is due: waits, 60 B of 40 B left of the day's budget of the warehouse (100 B, p.yaml:3)"
    )


def test_what_the_day_has_spent_counts() -> None:
    choice = choose([intent("a", size=60)], limits(100), {"b": Cost(bytes=50)})
    assert [each.why_not for each in choice.declined] == [WhyNot.OUT_OF_BYTES]
    choice = choose([intent("a", size=60)], limits(time=100), {"b": Cost(milliseconds=50)})
    assert [each.why_not for each in choice.declined] == [WhyNot.OUT_OF_TIME]


SECTIONS = {
    "database sales": budget("database sales", 100, time=1000),
    WHOLE: budget(WHOLE, 500, time=5000),
    "table sales.b": budget("table sales.b", 30),
}


def sections(table: str) -> list[DayBudget]:
    names = [WHOLE, *["database sales"] * table.startswith("sales."), f"table {table}"]
    return [SECTIONS[each] for each in names if each in SECTIONS]


def test_a_day_that_took_more_bytes_than_its_budget_has_room_for_what_only_deletes() -> None:
    expiry = intent("a", verb="expire_snapshots")
    over = {"b": Cost(bytes=150, milliseconds=150)}
    (chosen,) = choose([expiry], limits(100), over).chosen
    assert chosen == expiry
    (waits,) = choose([expiry], limits(time=100), over).declined
    assert waits.why_not is WhyNot.OUT_OF_TIME


def test_what_is_due_must_fit_into_every_budget_that_covers_its_table() -> None:
    found = [
        intent("sales.a", score=4, size=80),
        intent("sales.c", score=3, size=40),
        intent("web.a", score=2, size=300),
        intent("web.b", score=1, size=130),
    ]
    choice = choose(found, sections, {"web.z": Cost(bytes=1)}, day_ends_ms=77)
    assert [each.table for each in choice.chosen] == ["sales.a", "web.a"]
    assert [(each.table, each.why_not, each.reason) for each in choice.declined] == [
        (
            "sales.c",
            WhyNot.OUT_OF_BYTES,
            (
                "sales.c is due: waits, 40 B of 20 B left of the day's budget of database sales "
                "(100 B, p.yaml:3)"
            ),
        ),
        (
            "web.b",
            WhyNot.OUT_OF_BYTES,
            (
                "web.b is due: waits, 130 B of 119 B left of the day's budget of the warehouse "
                "(500 B, p.yaml:3)"
            ),
        ),
    ]


def test_what_a_day_spent_counts_for_the_sections_of_its_table_alone() -> None:
    spent = {"sales.b": Cost(bytes=25, milliseconds=950), "web.a": Cost(bytes=70)}
    assert {each.section: cost.bytes for each, cost in spent_of(sections, spent).items()} == {
        WHOLE: 95,
        "database sales": 25,
        "table sales.b": 25,
    }
    found = [intent("sales.c", size=70), intent("sales.b", size=20), intent("web.b", size=90)]
    choice = choose(found, sections, spent)
    assert [each.table for each in choice.chosen] == ["web.b"]
    told = {each.table: each.reason.partition("waits, ")[2] for each in choice.declined}
    assert told == {
        "sales.b": "20 B of 5 B left of the day's budget of table sales.b (30 B, p.yaml:3)",
        "sales.c": "70 ms of 50 ms left of the day's budget of database sales (1.0 s, p.yaml:4)",
    }


def test_a_compaction_is_cut_to_the_budget_of_its_database_and_says_so() -> None:
    (cut,) = choose([intent("sales.a", size=400)], sections, {"sales.c": Cost(bytes=60)}).chosen
    assert (cut.options, cut.cost.bytes) == ({"max_bytes": 40}, 40)
    assert cut.reason == (
        "sales.a is due: cut to 40 B, the rest of the day's budget of database sales "
        "(100 B, p.yaml:3)"
    )
    # Cut to a whole day of its table, it fits into the rest of the database's.
    (cut,) = choose([intent("sales.b", size=400)], sections, {"sales.c": Cost(bytes=60)}).chosen
    assert cut.options == {"max_bytes": 30}


def test_what_is_larger_than_one_budget_must_fit_into_the_others() -> None:
    sorting = intent("sales.a", size=200, verb="sort_compact")
    (chosen,) = choose([sorting], sections, {"web.a": Cost(bytes=250)}).chosen
    assert chosen.reason.endswith("(100 B, p.yaml:3): no day's budget covers it")
    (waits,) = choose([sorting], sections, {"web.a": Cost(bytes=350)}).declined
    assert waits.reason.endswith(
        "200 B of 150 B left of the day's budget of the warehouse (500 B, p.yaml:3)"
    )


@pytest.mark.parametrize("why", URGENT)
def test_rows_or_writers_that_wait_are_worth_any_budget(why: Why) -> None:
    urgent = replace(intent("a", score=float("inf"), size=1000), why=why)
    (chosen,) = choose([urgent], limits(1, time=1), {"b": Cost(bytes=5)}).chosen
    assert chosen.reason.endswith(f"(1 B, p.yaml:3): {why.value.replace('_', ' ')}")


def test_what_no_whole_day_covers_is_cut_to_what_is_left() -> None:
    huge = intent("a", size=1000)
    (cut,) = choose([huge], limits(100), {"b": Cost(bytes=60)}).chosen
    assert (cut.options, cut.cost.bytes) == ({"max_bytes": 40}, 40)
    (waits,) = choose([huge], limits(100), {"b": Cost(bytes=80)}).declined
    assert waits.why_not is WhyNot.OUT_OF_BYTES
    assert "it runs in part once 25 % is free" in waits.reason
    assert not choose([huge], limits(0), {}).chosen


@pytest.mark.parametrize("verb", ["sort_compact", "respec"])
def test_what_no_day_covers_and_cannot_be_cut_begins_while_half_of_a_day_is_left(verb: str) -> None:
    sorting = replace(intent("a", size=1000, verb=verb), cost=Cost(bytes=1000, milliseconds=500))
    for limit in (limits(100), limits(time=100)):
        for cost in (Cost(), Cost(bytes=50, milliseconds=50)):
            (chosen,) = choose([sorting], limit, {"b": cost}).chosen
            assert chosen.reason.startswith("a is due; it takes ")
            assert chosen.reason.endswith("): no day's budget covers it")
            assert replace(chosen, told=sorting.told) == sorting
        spent = {"b": Cost(bytes=51, milliseconds=51)}
        (waits,) = choose([sorting], limit, spent).declined
        assert "it exceeds the daily budget; it starts once 50 % is free" in waits.reason
        # One a day.
        (done,) = choose([sorting, replace(sorting, table="c")], limit, {}).chosen
        assert done.table == sorting.table
    assert not choose([sorting], limits(0), {}).chosen


def test_a_verb_that_rewrites_have_held_up_comes_before_the_next_rewrite() -> None:
    due = replace(intent("a", verb="expire_partitions", score=float("inf")), why=Why.SCHEDULED)
    waiting = replace(intent("a", score=float("inf")), why=Why.ROWS_WAIT)
    choice = choose([waiting, due], no_limits, {})
    assert [each.verb for each in choice.chosen] == ["expire_partitions"]


def test_of_verbs_that_commit_a_table_gets_one_at_a_time() -> None:
    found = [intent("a", score=1, verb="expire_partitions"), intent("a", score=2)]
    choice = choose(found, no_limits, {})
    assert [each.verb for each in choice.chosen] == ["compact"]
    assert [(each.verb, each.why_not) for each in choice.declined] == [
        ("expire_partitions", WhyNot.CAPPED)
    ]


def test_what_only_deletes_goes_beside_the_rewrite_of_a_table() -> None:
    verbs = ["compact", "expire_snapshots", "collect", "remove_orphans"]
    found = [intent("a", verb=verb, score=-at) for at, verb in enumerate(verbs)]
    choice = choose(found, no_limits, {})
    assert [each.verb for each in choice.chosen] == verbs[:3]
    # The files of a rewrite that takes very long look like orphans.
    assert [(each.verb, each.why_not) for each in choice.declined] == [
        ("remove_orphans", WhyNot.CAPPED)
    ]


def test_thirty_due_tables_take_few_runs() -> None:
    found = [intent(f"t{at:02}") for at in range(30)]
    assert [len(each) for each in batches(found)] == [25, 5]
    large = [intent(f"t{at:02}", size=20 << 30) for at in range(3)]
    assert [len(each) for each in batches(large)] == [1, 1, 1]
    mixed = [intent("a"), intent("b", verb="collect"), intent("c")]
    assert [{each.verb for each in batch} for batch in batches(mixed)] == [{"compact"}, {"collect"}]


@given(
    sizes=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), max_size=12),
    limit=st.integers(0, 100),
    spent=st.integers(0, 100),
)
def test_the_budget_holds_and_nothing_is_lost(
    sizes: list[tuple[int, int]], limit: int, spent: int
) -> None:
    found = [intent(f"t{at}", size=size, score=of) for at, (size, of) in enumerate(sizes)]
    choice = choose(found, limits(limit), {"b": Cost(bytes=spent)})
    taken = sum(each.cost.bytes for each in choice.chosen)
    assert taken <= max(limit - spent, 0)
    told = [each.table for each in (*choice.chosen, *choice.declined)]
    assert sorted(told) == sorted(each.table for each in found)
    assert sorted(each for batch in batches(choice.chosen) for each in _tables(batch)) == sorted(
        _tables(choice.chosen)
    )


def _tables(found: tuple[Intent, ...]) -> list[str]:
    return [each.table for each in found]


def test_a_day_begins_at_midnight_of_its_zone() -> None:
    # 2024-03-31 12:00 UTC; Berlin's clocks went forward in that night.
    noon = 1_711_886_400_000
    begin, end = day_of(noon, "Europe/Berlin")
    assert (noon - begin, end - begin) == (13 * 3_600_000, 23 * 3_600_000)
    assert day_of(begin, "Europe/Berlin") == (begin, end)
    assert day_of(end, "Europe/Berlin")[0] == end


def test_a_change_of_partition_keys_comes_after_rows_that_wait_and_within_the_budget() -> None:
    keys = replace(intent("a", verb="respec", score=float("inf"), size=60), why=Why.PARTITION_KEYS)
    rows = replace(intent("b", score=float("inf"), size=50), why=Why.ROWS_WAIT)
    files = intent("a", score=9, size=10)
    choice = choose([keys, files, rows], limits(100), {})
    assert choice.chosen == (rows, files)
    (waits,) = choice.declined
    assert (waits.verb, waits.why_not) == ("respec", WhyNot.OUT_OF_BYTES)
    choice = choose([files, keys, rows], limits(200), {})
    assert choice.chosen == (rows, keys)
    # What is larger than a day begins one.
    assert [each.verb for each in choose([files, keys], limits(1), {}).chosen] == ["respec"]
