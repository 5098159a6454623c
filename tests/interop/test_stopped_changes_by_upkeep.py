"""Upkeep ends changes of partition keys that died, and brings late files to the present keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakewright.cli import main
from lakewright.platform.decide import decide
from lakewright.platform.ledger.action import Verdict
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.orchestration.check_events import HEALTHY
from lakewright.storage import Table
from lakewright.storage.inspection import Inspection
from tests.interop.test_partition_keys_by_policy import asked, kept_by
from tests.interop.test_they_read_ours import as_read_by
from tests.interop.test_writers_amid_keyed_changes import stopped
from tests.oracles.client import JavaOracle, WritingOracle
from tests.pipelines.lake import Lake, opened
from tests.support.tables.builders import content, expire, new_table, remove_orphans, rows

pytestmark = pytest.mark.mission("PT1")

NAME = "shop.orders"
COLUMNS = {"dt": "STRING NOT NULL", "hh": "INT NOT NULL", "id": "BIGINT NOT NULL", "v": "STRING"}
LATE = [{"dt": "a", "hh": 1, "id": each, "v": "late"} for each in (1, 99)]
KINDS = pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
KEYS = [("dt",), ("dt", "hh")], [("dt", "hh"), ("dt",)], [("dt",), ("hh",)]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    # The test does not wait until a change counts as dead.
    monkeypatch.setattr(decide, "_CHANGE_WITHIN_MS", 0)
    yield from opened(tmp_path)


def filled(lake: Lake, keys: tuple[str, ...], *, keyed: bool, name: str = NAME) -> Table:
    more: dict[str, Any] = {"keys": ("dt", "hh", "id"), "options": {"bucket": "2"}} if keyed else {}
    table = new_table(lake.catalog, COLUMNS, name=name, partitions=keys, **more)
    for value in ("old", "older"):
        batch = [
            {"dt": day, "hh": hour, "id": each, "v": value}
            for day in "ab"
            for hour in (1, 2)
            for each in range(3)
        ]
        table.write(rows(table, batch))
    return table


def fits(table: Table) -> bool:
    return Inspection(table.table_files, table.history.latest_snapshot()).files_fit()


@KINDS
@pytest.mark.parametrize(("before", "after"), KEYS, ids=str)
@pytest.mark.sampled(each="keyed")
def test_a_change_that_died_at_any_step_is_ended_by_one_run(
    lake: Lake,
    java_latest: JavaOracle,
    before: tuple[str, ...],
    after: tuple[str, ...],
    *,
    keyed: bool,
) -> None:
    """The policy names no keys, and the table has no declaration."""
    kept_by(lake, "")
    ended = 0
    for step in range(1, 20):
        # Runs on a table of the name of an earlier one are told apart by the second only.
        name = f"shop.died_at_{step}"
        table = filled(lake, before, keyed=keyed, name=name)
        due = content(table)
        died = stopped(lake.catalog, table, after, step)
        table = lake.table(name)
        keys = table.schema.partition_keys
        requests = asked(lake)
        assert len(requests) == (not fits(table))
        for request in requests:
            assert (
                "a change of its partition keys was stopped"
                in request.run_config["ops"]["upkeep"]["config"]["verb"]["respec"]["asked"][name][
                    "reason"
                ]
            )
            lake.request(request)
            ended += 1
            table = lake.table(name)
            assert fits(table)
            assert table.schema.partition_keys == keys
            assert content(table) == due == as_read_by(java_latest, lake.catalog, table)
            assert asked(lake) == []
            action = Ledger(lake.catalog).actions(table=name)[-1]
            assert (action.verb, action.verdict) == ("respec", Verdict.DONE)
        table.upkeep.respec(after)
        assert content(lake.table(name)) == due
        remove_orphans(lake.table(name))
        if not died:
            assert ended
            return
        lake.catalog.drop_table(name)
    raise AssertionError("the change has more steps than were tried")


@KINDS
@pytest.mark.parametrize("by", ["sensor", "command"])
def test_what_a_client_commits_late_is_brought_to_the_present_keys_before_the_next_write(
    lake: Lake,
    java_latest: JavaOracle,
    released_pypaimon: WritingOracle,
    capsys: pytest.CaptureFixture[str],
    by: str,
    *,
    keyed: bool,
) -> None:
    kept_by(lake, "")
    table = filled(lake, ("dt",), keyed=keyed)
    root = str(lake.folder / "warehouse")
    released_pypaimon.begin_write(root, NAME, LATE)
    table.upkeep.respec(["dt", "hh"])
    released_pypaimon.finish_write(root, NAME, [])
    assert not fits(lake.table(NAME))
    if by == "sensor":
        (request,) = asked(lake)
        lake.request(request)
        assert asked(lake) == []
    else:
        policy = str(lake.folder / "policy.yaml")
        assert main(["--warehouse", root, "upkeep", "--policy", policy]) == 0
        printed = capsys.readouterr().out
        assert "respec" in printed
        assert main(["--warehouse", root, "upkeep", "--policy", policy, "--dry-run"]) == 0
        assert "nothing is due" in capsys.readouterr().out
    table = lake.table(NAME)
    assert fits(table)
    found = table.read().to_pylist()
    assert len(found) == 13 if keyed else 26
    assert sum(each["v"] == "late" for each in found) == 2
    assert content(table) == as_read_by(java_latest, lake.catalog, table)
    assert content(table) == as_read_by(released_pypaimon, lake.catalog, table)
    # A snapshot with late files is read by no one.
    expire(table)
    remove_orphans(table)


def test_a_policy_that_switches_changes_of_keys_off_says_so_and_asks_for_nothing(
    lake: Lake,
) -> None:
    kept_by(lake, f"tables: {{{NAME}: {{respec: {{enabled: false}}}}}}\n")
    table = filled(lake, ("dt",), keyed=False)
    assert stopped(lake.catalog, table, ("dt", "hh"), 3)
    assert asked(lake) == []
    table = lake.table(NAME)
    table.upkeep.respec(table.schema.partition_keys)
    assert lake.check_records(HEALTHY, NAME)
    remove_orphans(lake.table(NAME))
