"""Asking: once for each state of a table, again later for what was not done."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from lakewright.platform.declare.upkeep_policies import CompactionPolicy
from lakewright.platform.upkeep.asking import Answer, Memory, ask
from lakewright.platform.upkeep.compact import COMPACT, CompactOptions
from lakewright.platform.upkeep.decide import Asked
from lakewright.platform.upkeep.verb import Work, carry_out
from lakewright.storage import Catalog, Table
from tests.support.tables.builders import events, new_table, rows
from tests.support.tables.environment import START_MS, FixedEnv
from tests.support.tables.fixtures import memory_uri

HOUR_MS = 3_600_000


@dataclass
class Asker:
    """Looks at a table as a sensor does, with the memory of its last look."""

    table: Table
    policy: CompactionPolicy = field(default_factory=lambda: CompactionPolicy(small_files=3))
    memory: Memory = field(default_factory=Memory)
    at_work: tuple[str, ...] = ()
    now_ms: int = START_MS

    def look(self) -> Answer:
        # A sensor keeps text between its looks.
        memory = Memory.from_cursor(self.memory.to_cursor())
        answer = ask(
            self.table, self.policy, memory, in_flight=lambda: self.at_work, now_ms=self.now_ms
        )
        self.memory = answer.memory
        return answer

    def asked(self) -> tuple[str, ...] | None:
        request = self.look().request
        return None if request is None else request.partitions

    def write(self, day: str, count: int) -> None:
        for _ in range(count):
            self.table.write(rows(self.table, events(0, 1, day=day)))


@pytest.fixture
def catalog() -> Catalog:
    return Catalog.open(memory_uri(), env=FixedEnv())


def days(catalog: Catalog) -> Table:
    return new_table(catalog, partitions=("day",))


@pytest.fixture
def due(catalog: Catalog) -> Asker:
    """Three small files on b, one on a; a bucket is due from three."""
    asker = Asker(days(catalog))
    asker.write("a", 1)
    asker.write("b", 3)
    return asker


def test_it_asks_for_the_partitions_that_are_due_and_says_why(due: Asker) -> None:
    answer = due.look()

    assert answer.request is not None
    assert answer.request.partitions == ("b",)
    assert "partition day=b: 3 small files ≥ 3: compact" in answer.reason
    assert "partition day=a: 1 small files < 3: leave" in answer.reason


def test_it_asks_once_for_one_state(due: Asker) -> None:
    assert due.asked() == ("b",)
    answers = [due.look() for _ in range(3)]
    assert not any(answer.request for answer in answers)
    assert "was asked for already in this state" in answers[-1].reason
    assert "nothing was committed since" in answers[-1].reason


def test_it_asks_again_when_the_partition_got_another_file(due: Asker) -> None:
    due.look()
    due.write("b", 1)
    assert due.asked() == ("b",)


def test_a_commit_elsewhere_does_not_make_it_ask_again(due: Asker) -> None:
    due.look()
    due.write("c", 1)
    assert due.asked() is None


def test_what_was_not_done_is_asked_for_again_later_under_another_key(due: Asker) -> None:
    """The run failed, or left the partition to others who then did not write to it."""
    first = due.look().request
    assert first is not None
    assert "and is again from" in due.look().reason
    due.now_ms += HOUR_MS
    second = due.look().request
    assert second is not None
    assert second.partitions == first.partitions
    assert second.key != first.key
    due.now_ms += HOUR_MS
    options = CompactOptions.declared(due.policy)
    carry_out(COMPACT, due.table, options, Work(run="a test", session=lambda: None))
    assert due.asked() is None
    assert not due.memory.acted


def test_a_lost_memory_does_not_lead_to_another_key(due: Asker) -> None:
    first = due.look().request
    due.memory = Memory()
    second = due.look().request
    assert first is not None
    assert first == second


def test_a_table_that_was_created_again_has_other_keys(catalog: Catalog, due: Asker) -> None:
    first = due.look().request
    catalog.drop_table(due.table.name)
    due.table = days(catalog)
    due.write("a", 1)
    due.write("b", 3)

    second = due.look().request

    assert first is not None
    assert second is not None
    assert first.key.split("@")[1] == second.key.split("@")[1]
    assert first.key != second.key


def test_nothing_is_asked_for_while_the_table_is_worked_on(due: Asker) -> None:
    due.at_work = ("run 17 of ingest",)
    assert "waits for run 17 of ingest" in due.look().reason
    due.at_work = ()
    assert due.asked() == ("b",)


def test_only_so_many_partitions_are_asked_for_at_once(catalog: Catalog) -> None:
    asker = Asker(days(catalog), CompactionPolicy(small_files=2, max_partitions=2))
    for day in ("b", "c", "d"):
        asker.write(day, 2)
    assert asker.asked() == ("b", "c")
    assert asker.asked() == ("d",)


def test_a_partition_that_is_being_written_is_left_until_it_is_quiet(catalog: Catalog) -> None:
    policy = CompactionPolicy.model_validate({"small_files": 2, "quiet_for": "1h"})
    asker = Asker(days(catalog), policy)
    asker.write("a", 2)

    answer = asker.look()

    assert answer.request is None
    assert "until it is quiet for 3600 s" in answer.reason
    # The moment comes without another commit, so the next look must not skip the table.
    assert asker.memory.seen == ""
    asker.now_ms += 2 * HOUR_MS
    assert asker.asked() == ("a",)


def test_a_table_without_partitions_is_asked_for_as_a_whole(catalog: Catalog) -> None:
    table = new_table(catalog)
    asker = Asker(table)
    for _ in range(3):
        table.write(rows(table, events(0, 1)))
    request = asker.look().request
    assert request is not None
    assert request.partitions is None


def test_a_cursor_that_was_written_by_hand_counts_as_none() -> None:
    for cursor in (None, "", "17", "[]", "{}", json.dumps({"acted": 1})):
        assert Memory.from_cursor(cursor) == Memory()
    memory = Memory(
        table_uuid="a",
        seen="b",
        answer="c",
        look_again_ms=7,
        acted={"d": Asked(fingerprint="e", times=2, again_ms=7), "f": Asked(fingerprint="g")},
    )
    assert Memory.from_cursor(memory.to_cursor()) == memory
