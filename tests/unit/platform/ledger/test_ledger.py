"""The ledger: a table with a row for each action, which several processes write."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import fields, replace

import pyarrow as pa
import pytest

from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.action_rows import ledger_columns
from lakewright.platform.ledger.ledger import LEDGER, LastActions, Ledger
from lakewright.platform.upkeep.measures import Benefit, Cost
from lakewright.storage import AddColumn, Catalog, DropColumn
from lakewright.storage.errors import InvalidRequestError
from tests.support.processes.racing import quick_starts
from tests.support.stores.watched_files import watched_catalog

_DAY = 86_400_000
_START = 1_704_067_200_000  # 2024-01-01


def action(at: int = 0, **given: object) -> Action:
    made = Action(
        id=f"action-{at}",
        run="a run",
        table="db.t",
        table_uuid="db.t.1",
        verb="compact",
        started_ms=_START + at * _DAY,
        ended_ms=_START + at * _DAY + 70,
        verdict=Verdict.DONE,
    )
    return replace(made, **given)  # type: ignore[arg-type]


EVERY_FIELD = action(
    reason="12 small files",
    summary="done",
    error="no, it failed",
    options={"full": True, "partitions": [{"day": "a"}], "min_files": None},
    snapshot_before=4,
    snapshot_after=7,
    predicted_cost=Cost(bytes=10, files=2, milliseconds=3, bytes_written=9),
    predicted_benefit=Benefit(files_fewer=1, bytes_freed=5),
    cost=Cost(bytes=11, files=3, milliseconds=70, bytes_written=8),
    benefit=Benefit(files_fewer=2, runs_fewer=1, rows_shown=4, bytes_fewer=-3),
    condemned=("q1", "q2"),
    snapshots=(5, 7),
    state="tick 7",
    policy="0c1d",
)


@pytest.fixture
def ledger(catalog: Catalog) -> Ledger:
    return Ledger(catalog)


def test_an_action_comes_back_with_every_field(ledger: Ledger) -> None:
    nothing_set = {
        each.name for each in fields(Action) if getattr(EVERY_FIELD, each.name) in (None, "", ())
    }
    assert not nothing_set
    bare = action(1, table_uuid="")

    ledger.record([EVERY_FIELD, bare])

    assert ledger.actions() == (EVERY_FIELD, bare)


def test_a_warehouse_without_a_ledger_has_no_actions_and_gets_none_by_reading(
    ledger: Ledger,
) -> None:
    assert ledger.actions() == ()
    assert ledger.last() == LastActions()
    assert not ledger.exists()


def test_actions_are_found_by_table_verb_run_and_time(ledger: Ledger) -> None:
    first, other = action(0), action(1, table="db.other", table_uuid="db.other.1")
    expired, mine = action(40, verb="expire_snapshots"), action(41, run="mine")
    ledger.record([first, other, expired, mine])

    assert ledger.actions(table="db.other") == (other,)
    assert ledger.actions(verb="expire_snapshots") == (expired,)
    assert ledger.actions(run="mine") == (mine,)
    assert ledger.actions(since_ms=expired.started_ms) == (expired, mine)
    assert ledger.actions(until_ms=expired.started_ms) == (first, other)
    assert ledger.actions(table="db.t", since_ms=_START + _DAY, until_ms=mine.started_ms) == (
        expired,
    )


def test_only_the_months_asked_for_are_read(ledger: Ledger) -> None:
    for month in range(4):
        ledger.record([action(31 * month)])
    catalog, files = watched_catalog(ledger.catalog)

    found = Ledger(catalog).actions(since_ms=_START + 31 * 3 * _DAY)

    assert len(found) == 1
    opened = [each.path for each in files.calls if "/month=" in each.path]
    assert opened
    assert all("/month=2024-04/" in each for each in opened)


def test_the_last_actions_of_all_tables_are_read_at_once_and_then_only_what_is_new(
    ledger: Ledger,
) -> None:
    ledger.record(
        [action(0), action(1, verdict=Verdict.FAILED), action(2, verb="expire_snapshots")]
    )
    first = ledger.last()
    assert first.of("db.t", "db.t.1", "compact") == {
        Verdict.DONE: _START,
        Verdict.FAILED: _START + _DAY,
    }
    assert first.done_ms("db.t", "db.t.1", "compact") == _START
    assert first.done_ms("db.t", "created again", "compact") is None
    assert ledger.last(first) is first

    ledger.record([action(5, verdict=Verdict.NOTHING_TO_DO)])
    ledger.record([action(3, table="db.new", table_uuid="n")])
    second = ledger.last(first)

    assert second == ledger.last()
    assert second.done_ms("db.t", "db.t.1", "compact") == _START + 5 * _DAY
    assert second.done_ms("db.new", "n", "compact") == _START + 3 * _DAY


def test_the_last_actions_are_read_anew_after_the_snapshots_between_expired(ledger: Ledger) -> None:
    ledger.record([action(0)])
    first = ledger.last()
    for at in range(1, 4):
        ledger.record([action(at)])
    ledger.catalog.table(LEDGER).upkeep.expire_snapshots(
        retain_min=1, retain_max=1, time_retained_ms=0, grace_ms=0
    )

    assert ledger.last(first).done_ms("db.t", "db.t.1", "compact") == _START + 3 * _DAY


def test_a_ledger_that_was_dropped_and_made_anew_forgets_the_old_one(ledger: Ledger) -> None:
    ledger.record([action(0)])
    first = ledger.last()
    ledger.catalog.drop_table(LEDGER)
    ledger.record([action(1, table="db.new")])

    assert set(ledger.last(first).started_ms) == {("db.new", "db.t.1", "compact")}


def test_a_column_that_an_older_ledger_lacks_is_added(ledger: Ledger) -> None:
    ledger.record([action(0)])
    table = ledger.catalog.table(LEDGER)
    table.alter(DropColumn("benefit_bytes_fewer"), DropColumn("snapshots"))
    assert ledger.actions() == (action(0),)

    later = action(1, snapshots=(3,), benefit=Benefit(bytes_fewer=6))
    ledger.record([later])

    assert ledger.actions() == (action(0), later)


def test_columns_and_verdicts_of_a_later_version_are_kept_and_not_read(ledger: Ledger) -> None:
    ledger.record([action(0)])
    table = ledger.catalog.table(LEDGER).alter(AddColumn("of_later", "INT"))
    unknown = {"month": "2024-01", "id": "x", "verdict": "postponed", "started_ms": _START}
    table.write(pa.Table.from_pylist([unknown], schema=table.arrow_schema))

    ledger.record([action(1)])

    assert ledger.actions() == (action(0), action(1))
    assert set(ledger.last().of("db.t", "db.t.1", "compact")) == {Verdict.DONE}
    assert ledger.catalog.table(LEDGER).read().num_rows == 3


@pytest.mark.parametrize(
    "columns",
    [{"id": "BIGINT"}, {**ledger_columns(), "started_ms": "STRING"}],
    ids=["other-columns", "other-types"],
)
def test_a_table_of_another_with_the_name_of_the_ledger_is_left_alone(
    ledger: Ledger, columns: dict[str, str]
) -> None:
    ledger.catalog.create_table(LEDGER, columns)

    with pytest.raises(InvalidRequestError, match=r"lakewright\.ledger is not a ledger"):
        ledger.record([action()])
    with pytest.raises(InvalidRequestError, match="is not a ledger"):
        ledger.actions()

    assert ledger.catalog.table(LEDGER).history.snapshots() == ()


@pytest.mark.raced
def test_writers_at_the_same_time_lose_no_action(ledger: Ledger) -> None:
    with ThreadPoolExecutor(4) as writers:
        list(writers.map(lambda at: ledger.record([action(at)]), range(12)))

    assert [each.id for each in ledger.actions()] == [f"action-{at}" for at in range(12)]


def record_many(warehouse: str, writer: int, count: int) -> None:
    ledger = Ledger(Catalog.open(warehouse))
    for at in range(count):
        ledger.record([action(at, id=f"{writer}-{at}")])


@pytest.mark.raced
def test_processes_that_record_at_the_same_time_lose_no_action_and_make_one_ledger(
    ledger: Ledger,
) -> None:
    with ProcessPoolExecutor(2, mp_context=quick_starts()) as pool:
        done = [pool.submit(record_many, ledger.catalog.root, each, 5) for each in range(2)]
        for each in done:
            each.result()

    assert {each.id for each in ledger.actions()} == {
        f"{writer}-{at}" for writer in range(2) for at in range(5)
    }
