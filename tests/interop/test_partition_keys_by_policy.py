"""A policy names partition keys: the sensor asks, a run changes them, and every client reads on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.tags import RUN_KEY_TAG
from dagster._core.test_utils import create_run_for_test

from lakewright.definitions import build_definitions
from lakewright.platform.ledger.action import Verdict
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.orchestration.check_events import HEALTHY
from lakewright.storage import Table
from tests.interop.test_they_read_ours import as_texts
from tests.oracles.client import WritingOracle
from tests.pipelines.lake import Lake, opened
from tests.support.tables.builders import new_table, rows

COLUMNS = {"id": "BIGINT", "dt": "STRING", "origin": "STRING", "v": "STRING"}
QUIET = """
warehouse:
  compaction: {enabled: false}
  snapshots: {enabled: false}
  manifests: {enabled: false}
  orphans: {enabled: false}
"""
KINDS: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, ""),
    (
        {"keys": ("dt", "id"), "options": {"bucket": "1", "file.format": "parquet"}},
        ", primary_key: [dt, id, origin]",
    ),
)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    yield from opened(tmp_path)


def kept_by(lake: Lake, policy: str) -> None:
    file = lake.folder / "policy.yaml"
    file.write_text(QUIET + policy)
    lake.definitions_are(
        build_definitions([], warehouse=lake.warehouse, policies=[file], adopted=["shop.*"])
    )


def filled(lake: Lake, **kind: Any) -> Table:
    table = new_table(lake.catalog, COLUMNS, name="shop.orders", partitions=["dt"], **kind)
    for day in ("2024-01-01", "2024-01-02"):
        for origin in ("JFK", "LGA"):
            for first in (0, 3):
                # Each file of two origins at least; a key of the second table replaces another.
                batch = [
                    {"id": at, "dt": day, "origin": "EWR" if at == 2 else origin, "v": f"{first}"}
                    for at in range(first, first + 4)
                ]
                table.write(rows(table, batch))
    return table


def asked(lake: Lake) -> list[dg.RunRequest]:
    return [
        each for each in lake.tick().run_requests if each.tags.get("lakewright/verb") == "respec"
    ]


def told(lake: Lake) -> str:
    """The newest evaluation on the page of the table."""
    record = lake.check_records(HEALTHY, "shop.orders")[0]
    assert record.event is not None
    return str(record.event.asset_check_evaluation.description)  # type: ignore[union-attr]


@pytest.mark.parametrize(("kind", "more"), KINDS, ids=["append", "primary key"])
def test_the_keys_become_those_of_the_policy_by_one_run_and_then_nothing_is_asked_for(
    lake: Lake, released_pypaimon: WritingOracle, kind: dict[str, Any], more: str
) -> None:
    filled(lake, **kind)
    root, before = str(lake.folder / "warehouse"), lake.rows("shop.orders")
    read = as_texts(released_pypaimon.read(root, "shop.orders"))
    kept_by(lake, f"tables: {{shop.orders: {{respec: {{keys: [dt, origin]{more}}}}}}}\n")

    (request,) = asked(lake)
    assert "partition keys (dt), by its policy (dt, origin)" in told(lake)
    lake.request(request)

    schema = lake.table("shop.orders").schema
    assert schema.partition_keys == ("dt", "origin")
    assert set(schema.primary_keys) == ({"dt", "id", "origin"} if more else set())
    assert lake.rows("shop.orders") == before
    assert as_texts(released_pypaimon.read(root, "shop.orders")) == read
    answer = lake.tick()
    if not schema.primary_keys:
        # What stayed where it lay comes home.
        (request,) = answer.run_requests
        lake.request(request)
        assert not any(each.file.external_path for each in lake.table("shop.orders").at().files())
        assert as_texts(released_pypaimon.read(root, "shop.orders")) == read
        answer = lake.tick()
    assert answer.run_requests == []
    assert answer.skip_message == "looked at 1 table: nothing is due"
    (action,) = Ledger(lake.catalog).actions(table="shop.orders", verb="respec")
    assert action.verdict is Verdict.DONE
    assert action.predicted_cost is not None
    assert action.predicted_cost.bytes >= action.cost.bytes > 0
    assert action.predicted_cost.milliseconds > 0


def test_a_change_to_too_many_partitions_is_told_on_the_page_and_not_asked_for_at_each_tick(
    lake: Lake,
) -> None:
    table = filled(lake)
    limited = "tables: {{shop.orders: {{respec: {{keys: [dt, origin], max_partitions: {}}}}}}}\n"
    kept_by(lake, limited.format(3))
    (request,) = asked(lake)
    lake.request(request, fails=True)
    for at in range(2):
        # New rows let no refusal pass.
        table.write(rows(table, [{"id": 90 + at, "dt": "2024-01-01", "origin": "JFK"}]))
        assert asked(lake) == []
        assert "would have 6 partitions under the keys dt, origin" in told(lake)
        assert "is again from" in told(lake)
    (action,) = Ledger(lake.catalog).actions(table="shop.orders")
    assert action.verdict is Verdict.FAILED

    (lake.folder / "policy.yaml").write_text(QUIET + limited.format(100))
    (request,) = asked(lake)
    lake.request(request)
    assert asked(lake) == []
    assert lake.table("shop.orders").schema.partition_keys == ("dt", "origin")


def test_a_run_that_waited_leaves_the_keys_of_a_policy_that_names_them_no_more(lake: Lake) -> None:
    filled(lake)
    kept_by(lake, "tables: {shop.orders: {respec: {keys: [dt, origin]}}}\n")
    (request,) = asked(lake)
    (lake.folder / "policy.yaml").write_text(f"{QUIET}# no keys\n")
    lake.request(request)
    assert lake.table("shop.orders").schema.partition_keys == ("dt",)


def test_a_run_that_died_is_asked_for_again_at_once_and_goes_on_from_what_it_had_split(
    lake: Lake,
) -> None:
    table = filled(lake)
    due = lake.rows("shop.orders")
    kept_by(lake, "tables: {shop.orders: {respec: {keys: [dt, origin]}}}\n")
    (request,) = asked(lake)
    half = table.upkeep.plan_respec(["dt", "origin"], [{"dt": "2024-01-01"}])
    table.upkeep.run(half)
    create_run_for_test(
        lake.instance,
        job_name="upkeep",
        status=dg.DagsterRunStatus.FAILURE,
        run_config=dict(request.run_config),
        tags={**request.tags, RUN_KEY_TAG: str(request.run_key)},
    )

    (again,) = asked(lake)
    assert again.run_key != request.run_key
    lake.request(again)

    assert lake.table("shop.orders").schema.partition_keys == ("dt", "origin")
    assert lake.rows("shop.orders") == due
    (action,) = Ledger(lake.catalog).actions(table="shop.orders")
    assert action.predicted_cost is not None
    # Files of the first day stay where they lie.
    assert 0 < action.cost.bytes < action.predicted_cost.bytes * 0.75
