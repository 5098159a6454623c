"""Progress: what a run of upkeep tells while it works."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import dagster as dg
import pytest

from lakewright.jobs import upkeep
from lakewright.jobs.run_progress import RunProgress
from lakewright.platform.upkeep.engines import CountedEngine
from lakewright.storage import LocalEngine
from tests.pipelines.lake import Lake
from tests.support.tables.builders import rows

PATIENCE_SECONDS = 60


def until(has_come: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE_SECONDS
    while not has_come():
        assert time.monotonic() < ends
        time.sleep(0.005)


def test_news_is_told_once() -> None:
    told: list[str] = []
    progress = RunProgress(told.append, every_ms=5)
    with progress.told():
        progress.work_at("db.t, compact")
        progress.far("3 of 8 tasks")
        until(lambda: bool(told))
        time.sleep(0.05)
    (line,) = told
    assert re.fullmatch(r"db\.t, compact: 3 of 8 tasks, .* by now", line)


def test_however_often_there_is_news_only_the_last_is_told() -> None:
    told: list[str] = []
    progress = RunProgress(told.append, every_ms=40)
    with progress.told():
        began = time.monotonic()
        until(lambda: progress.far("more") or len(told) >= 3)
        assert time.monotonic() - began >= 0.1


def test_a_failure_to_tell_ends_neither_the_work_nor_the_telling() -> None:
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        raise OSError("the log is full")

    progress = RunProgress(tell, every_ms=1)
    with progress.told():
        until(lambda: progress.far("more") or len(told) >= 2)


def test_tasks_of_this_process_are_counted() -> None:
    told: list[str] = []
    progress = RunProgress(told.append, every_ms=1)
    with progress.told():
        progress.work_at("db.t, compact")
        engine = CountedEngine(LocalEngine(), progress)
        assert engine.map(abs, [-1, -2, -3]) == [1, 2, 3]
        until(lambda: bool(told) and "3 of 3 tasks" in told[-1])


def test_a_count_without_a_total_grows_and_one_with_a_total_says_of_how_many() -> None:
    progress = RunProgress(lambda _: None)
    progress.reach(12_000, "files looked at")
    assert progress._news == "12,000 files looked at"
    progress.reach(3, "files set aside", 40)
    assert progress._news == "3 of 40 files set aside"


def test_an_expiry_tells_in_the_log_of_its_run_how_many_snapshots_of_how_many_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    often = partial(RunProgress, every_ms=1)
    monkeypatch.setattr(upkeep, "RunProgress", often)
    with dg.DagsterInstance.ephemeral() as instance:
        lake = Lake(tmp_path, instance)
        lake.declare("table: shop.events\n")
        options = {"snapshot.expire.limit": "1"}
        table = lake.catalog.create_table("shop.events", {"k": "INT"}, options=options)
        for number in range(8):
            table.write(rows(table, [{"k": number}]))
        limits = {"retain_min": 1, "retain_max": 1, "time_retained": "0s", "max_deletes": 99}
        outcome = lake.run("expire_snapshots", **limits)
        assert outcome.success, outcome.failure
        assert len(table.history.snapshots()) == 1
        logged = [each.user_message for each in instance.all_logs(outcome.run_id)]
    found = [each for each in logged if " of about " in each]
    assert found
    assert re.match(r"shop\.events, expire_snapshots: \d of about 7 snapshots; ", found[0])
