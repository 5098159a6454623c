"""Jobs on whole partitions: dropped on request, expired on a schedule, renamed, exchanged."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakewright.storage import Table
from tests.pipelines.lake import EVENTS, Lake, events

POLICY = "      partitions: {older_than: 30d, schedule: '5 2 * * *', max_partitions: 1}\n"


@pytest.fixture
def filled(lake: Lake) -> Lake:
    """Three days, written as a run would write them."""
    lake.declare(EVENTS + POLICY)
    write(lake, "shop.events", "2024-01-01", "2024-01-02", "2024-01-03")
    return lake


def write(lake: Lake, name: str, *written: str) -> Table:
    columns = {"dt": "STRING NOT NULL", "id": "BIGINT NOT NULL", "amount": "DOUBLE"}
    table = lake.catalog.create_table(name, columns, partition_keys=["dt"])
    for day in written:
        table.write(pa.Table.from_pylist(events(day, 0, 3), table.arrow_schema))
    return table


def days(lake: Lake) -> list[object]:
    return [each.spec["dt"] for each in lake.table().at().partitions()]


def test_the_partitions_of_the_run_config_are_dropped_and_told(filled: Lake) -> None:
    filled.run("drop_partitions", partitions=["2024-01-01"], dry_run=True)
    assert len(days(filled)) == 3

    outcome = filled.run("drop_partitions", where="dt < '2024-01-03'")

    assert days(filled) == ["2024-01-03"]
    told = outcome.observations[None]
    assert (told["lakewright/partitions"], told["lakewright/rows"]) == (2, 6)
    refused = filled.run("drop_partitions", where="dt < '2024-01-03'", fails=True)
    assert "no partition that the filter selects" in refused.failure


def test_partitions_expire_as_declared(filled: Lake) -> None:
    filled.run("expire_partitions")
    assert days(filled) == ["2024-01-02", "2024-01-03"]
    outcome = filled.run("expire_partitions", max_partitions=5)
    assert outcome.observations[None]["lakewright/partitions"] == 2
    filled.run("expire_partitions")
    assert days(filled) == []


def test_a_partition_is_renamed(filled: Lake) -> None:
    outcome = filled.run("rename_partition", partition="2024-01-01", to="2024-02-01")
    assert days(filled) == ["2024-01-02", "2024-01-03", "2024-02-01"]
    assert outcome.observations[None]["lakewright/rows"] == 3


def test_a_partition_comes_from_another_table(filled: Lake) -> None:
    source = write(filled, "shop.staged", "2024-03-01")
    filled.run("exchange_partition", source="shop.staged", partitions=["2024-03-01"])
    assert days(filled)[-1] == "2024-03-01"
    assert source.at().partitions() == ()


def test_a_partition_that_is_done_gets_an_observation(filled: Lake) -> None:
    outcome = filled.run("mark_done", partitions=["2024-01-02"])
    assert outcome.observations["2024-01-02"]["lakewright/verb"] == "mark_done"
    assert "2024-01-01" not in outcome.observations
    (mark,) = filled.folder.rglob("_SUCCESS")
    assert mark.parent.name == "dt=2024-01-02"


def refuse(table: Table, spec: dict[str, object]) -> None:
    raise LookupError(f"no calendar has {spec['dt']}")


def test_a_function_that_fails_after_a_mark_is_told_and_not_retried(filled: Lake) -> None:
    call = f"{__name__}:refuse"
    outcome = filled.run("mark_done", partitions=["2024-01-02"], then=call, fails=True)
    assert "failed for partition dt=2024-01-02 of shop.events with LookupError" in outcome.failure
    assert "InvalidRequestError" in outcome.failure
