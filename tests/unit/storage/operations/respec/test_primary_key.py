"""Partition keys that join the primary key, or leave it, as they come and go."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import (
    CommitOutcomeUnknownError,
    InvalidRequestError,
    UnavailableError,
    UnsupportedError,
)
from tests.support.stores.watched_files import Call, WatchedFiles, looked_at
from tests.support.tables.builders import content, expire, new_table, remove_orphans, rows
from tests.support.tables.invariants import assert_only_reachable_files, assert_readable_history
from tests.support.tables.late_commits import commit_late

pytestmark = pytest.mark.mission("PT1")

COLUMNS = {"dt": "STRING NOT NULL", "id": "BIGINT NOT NULL", "origin": "STRING", "v": "STRING"}
FINER, LONGER = ["dt", "origin"], ["id", "dt", "origin"]


def order(day: str, number: int, origin: str | None, v: str = "x") -> dict[str, Any]:
    return {"dt": day, "id": number, "origin": origin, "v": v}


def orders(catalog: Catalog, **options: str) -> Table:
    """Rows that were replaced under another origin, and a row that was deleted without one."""
    table = new_table(
        catalog, COLUMNS, partitions=["dt"], keys=["dt", "id"], options={"bucket": "2", **options}
    )
    table.write(rows(table, [order(day, n, "JFK", "old") for day in "ab" for n in range(6)]))
    table.write(rows(table, [order(day, n, "L/G A", "new") for day in "ab" for n in (1, 2)]))
    table.write(rows(table, [order(day, 5, None) for day in "ab"], ["-D"] * 2))
    return table


def test_orphan_removal_finds_what_a_stopped_change_wrote_and_leaves_folders_of_others(
    catalog: Catalog,
) -> None:
    table = orders(catalog)
    place = Path(table.table_files.paths.root)
    # The last one lies in a folder of a column, as those of the change do.
    theirs = [
        place / "dt=a" / "theirs=1" / "bucket-0" / "file.parquet",
        place / "dt=a" / "origin=DE" / "bucket-0" / "file.parquet",
    ]
    for each in theirs:
        each.parent.mkdir(parents=True)
        each.write_bytes(b"theirs")

    def fail(call: Call) -> None:
        is_snapshot = call.name == "put_if_absent" and "/snapshot/snapshot-" in call.path
        if is_snapshot and [*place.glob("dt=*/origin=*/bucket-*/data-*")]:
            raise UnavailableError("the store does not answer")

    watched = replace(catalog, fs=WatchedFiles(catalog.fs, before=fail))
    # The snapshot may be there, so what it would name is left.
    with pytest.raises(CommitOutcomeUnknownError):
        watched.table(table.name).upkeep.respec(FINER, primary_key=LONGER)
    assert [*place.glob("dt=*/origin=*/bucket-*/data-*")]
    assert remove_orphans(table, grace_ms=None).files_condemned
    for each in theirs:
        assert each.read_bytes() == b"theirs"
        shutil.rmtree(each.parent.parent)
    assert_only_reachable_files(table)


def test_a_column_joins_the_primary_key_as_it_becomes_a_partition_key(catalog: Catalog) -> None:
    table = orders(catalog)
    due, moments, last = content(table), 0, table.history.snapshots()[-1].id

    def look(call: Call) -> None:
        nonlocal moments
        if call.changes and ("/snapshot/snapshot-" in call.path or "/schema/schema-" in call.path):
            moments += 1
            now = catalog.table(table.name)
            assert content(now) == due
            assert now.read("origin = 'L/G A' AND id = 2").num_rows == 2

    watched = replace(catalog, fs=WatchedFiles(catalog.fs, after=looked_at(look)))
    way = r"lakewright respec db\.t --keys dt,origin --primary-key dt,id,origin\), so"
    with pytest.raises(InvalidRequestError, match=way):
        table.upkeep.plan_respec(FINER)
    watched.table(table.name).upkeep.respec(FINER, primary_key=LONGER)
    assert moments == 4
    table = catalog.table(table.name)
    assert (table.schema.partition_keys, table.schema.primary_keys) == (
        ("dt", "origin"),
        tuple(LONGER),
    )
    assert not table.schema.field("origin").type.nullable
    assert len(table.at().partitions()) == 4
    table.write(rows(table, [order("a", 2, "L/G A", "same"), order("a", 2, "JFK", "other")]))
    assert sorted(row["v"] for row in table.read("dt = 'a' AND id = 2").to_pylist()) == [
        "other",
        "same",
    ]
    with pytest.raises(
        InvalidRequestError, match=r"2 rows of db\.t share 1 values of the primary key \(dt, id\)"
    ):
        table.history.rollback(snapshot=last, grace_ms=0)
    table.write(rows(table, [order("a", 2, "JFK")], ["-D"]))
    assert_readable_history(table, mixed=False)
    table.history.rollback(snapshot=last, grace_ms=0)
    table = catalog.table(table.name)
    assert (table.schema.partition_keys, table.schema.primary_keys) == (("dt",), ("dt", "id"))
    assert content(table) == due
    remove_orphans(table, grace_ms=None)
    assert_only_reachable_files(table)


def test_a_key_that_goes_leaves_the_primary_key_if_no_rows_share_the_rest(catalog: Catalog) -> None:
    table = orders(catalog)
    due = content(table)
    table.upkeep.respec(FINER, primary_key=LONGER)
    table = catalog.table(table.name)
    table.upkeep.respec(["dt"], primary_key=["dt", "id"])
    table = catalog.table(table.name)
    assert (table.schema.partition_keys, table.schema.primary_keys) == (("dt",), ("dt", "id"))
    assert content(table) == due
    table.write(rows(table, [order("a", 2, "EWR")]))
    assert len(content(table)) == len(due)
    expire(table)
    assert_only_reachable_files(table)


def test_nulls_in_a_column_that_joins_are_refused_with_their_number(catalog: Catalog) -> None:
    table = orders(catalog)
    table.write(rows(table, [order("a", n, None) for n in (1, 2, 8)]))
    with pytest.raises(InvalidRequestError, match=r"3 rows of db\.t have null in origin"):
        table.upkeep.plan_respec(FINER, primary_key=LONGER)


@pytest.mark.parametrize(
    ("keys", "primary_key"),
    [
        (["dt"], ["dt", "id", "v"]),
        (["dt", "origin"], ["dt", "origin", "v"]),
        (["dt", "origin"], ["origin", "dt", "id", "v"]),
        ([], ["id", "origin"]),
    ],
    ids=str,
)
def test_primary_keys_that_no_steps_lead_to_are_refused_and_a_new_table_is_named(
    catalog: Catalog, keys: list[str], primary_key: list[str]
) -> None:
    told = r"the primary key of db\.t cannot become .* create a table with these keys"
    with pytest.raises(InvalidRequestError, match=told):
        orders(catalog).upkeep.plan_respec(keys, primary_key=primary_key)


@pytest.mark.parametrize(
    ("keys", "primary_key", "steps"),
    [
        (["origin"], None, 2),
        (["origin", "dt"], None, 2),
        (["origin"], ["id", "origin"], 3),
        (["origin", "dt"], ["dt", "id", "origin"], 2),
    ],
    ids=str,
)
def test_a_refusal_names_the_steps_that_lead_to_the_keys(
    catalog: Catalog, keys: list[str], primary_key: list[str] | None, steps: int
) -> None:
    table = orders(catalog)
    # Rows of both days share ids, which the shorter key would not tell apart.
    table.upkeep.drop_partitions("dt = 'b'")
    due = content(table)
    with pytest.raises(InvalidRequestError) as refused:
        table.upkeep.plan_respec(keys, primary_key=primary_key)
    said = r"lakewright respec db\.t --keys ([a-z,]+)(?: --primary-key ([a-z,]+))?"
    named = re.findall(said, refused.value.message)
    assert len(named) == steps
    for step, longer in named:
        asked = longer.split(",") if longer else None
        catalog.table("db.t").upkeep.respec(step.split(","), primary_key=asked)
    table = catalog.table("db.t")
    assert table.schema.partition_keys == tuple(keys)
    assert set(table.schema.primary_keys) == set(primary_key or ["dt", "id", "origin"])
    assert content(table) == due


def test_late_rows_of_another_primary_key_are_refused(catalog: Catalog) -> None:
    table = opened = orders(catalog)
    late = table.stage(rows(table, [order("a", 2, "EWR")]))
    table.upkeep.respec(FINER, primary_key=LONGER)
    table = catalog.table(table.name)
    due, last = content(table), table.history.snapshots()[-1].id
    commit_late(opened, late)
    with pytest.raises(UnsupportedError, match=r"by the primary key \(dt, id\), and it is"):
        table.upkeep.respec(FINER)
    table.history.rollback(snapshot=last, grace_ms=0)
    assert content(catalog.table(table.name)) == due
    remove_orphans(table, grace_ms=None)
