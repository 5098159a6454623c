"""Verbs on whole partitions: other clients read every state, and expire the same partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from tests.interop.test_they_read_ours import as_read_by
from tests.oracles.client import JavaOracle, Oracle, WritingOracle
from tests.support.tables.builders import (
    compact,
    content,
    events,
    expire,
    new_table,
    remove_orphans,
    rows,
)
from tests.support.tables.environment import FixedEnv
from tests.support.tables.invariants import assert_only_reachable_files

DAY_MS = 86_400_000
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "keyed": {"keys": ("day", "id"), "options": {"bucket": "2"}},
    "dynamic": {"keys": ("day", "id"), "options": {"bucket": "-1"}},
}
STEPS: dict[str, Callable[[Table], object]] = {
    "drop": lambda table: table.upkeep.drop_partitions("day = '2001-01-01'"),
    "expire": lambda table: table.upkeep.expire_partitions(older_than_ms=DAY_MS),
    "rename": lambda table: table.upkeep.rename_partition(
        {"day": "9000-01-01"}, {"day": "9000-01-02 a/b"}
    ),
    "exchange": lambda table: table.upkeep.exchange_partition("db.other", [{"day": "x"}]),
    "mark done": lambda table: table.upkeep.mark_done(partitions=[{"day": "x"}]),
}


@pytest.mark.mission("CT1", "PT68")
@pytest.mark.parametrize("kind", KINDS)
def test_other_clients_read_the_table_after_each_verb_and_write_on_it(
    catalog: Catalog, java: JavaOracle, pypaimon: WritingOracle, rust: Oracle, kind: str
) -> None:
    table = new_table(catalog, partitions=("day",), **KINDS[kind])
    other = new_table(catalog, name="db.other", partitions=("day",), **KINDS[kind])
    for number, day in enumerate(["2001-01-01", "2001-01-02", "9000-01-01", "9000-01-01"]):
        table.write(rows(table, events(number, number + 3, day=day, v=f"w{number}-")))
    other.write(rows(other, events(0, 3, day="x")))
    counts = []
    for step in STEPS.values():
        step(table)
        expected = content(table)
        counts.append(len(expected))
        for client in (java, pypaimon, rust):
            assert as_read_by(client, catalog, table) == expected
    keyed = table.schema.has_primary_key
    assert counts == ([7, 4, 4, 7, 7] if keyed else [9, 6, 6, 9, 9])
    java.write(catalog.root, "db.t", [{"id": 1, "day": "x", "v": "java"}])
    assert len(content(table)) == counts[-1] + (not keyed)
    compact(table, full=True)
    expire(table, keep=1)
    expire(other, keep=1)
    assert as_read_by(pypaimon, catalog, table) == content(table)
    assert_only_reachable_files(table)


HOURLY = {"dt": "STRING", "hh": "INT", "v": "INT"}


@pytest.mark.parametrize("former", [["dt"], ["dt", "hh"], []], ids=str)
def test_other_clients_read_partitions_exchanged_between_tables_whose_keys_changed(
    catalog: Catalog, released_pypaimon: WritingOracle, java_latest: JavaOracle, former: list[str]
) -> None:
    given = [{"dt": day, "hh": hour, "v": 10 * hour} for day in "ab" for hour in (1, 2)]
    for name, first in (("db.t", 0), ("db.other", 6)):
        table = new_table(catalog, HOURLY, name=name, partitions=former)
        table.write(rows(table, [{**each, "hh": each["hh"] + first} for each in given]))
        table.upkeep.respec(["hh"])
    table, other = catalog.table("db.t"), catalog.table("db.other")
    due = sorted(content(table) + content(other))
    for there, back, hour in ((table, other, 7), (other, table, 1), (other, table, 7)):
        there.upkeep.exchange_partition(back.name, [{"hh": hour}])
        remove_orphans(back)
        assert sorted(content(table) + content(other)) == due
        for client in (released_pypaimon, java_latest):
            for each in (table, other):
                assert as_read_by(client, catalog, each) == content(each)
                # Clients prune by the keys of the schema that a file names.
                kept = content(each, where=f"hh = {hour}")
                found = as_read_by(client, catalog, each, where=[("hh", "=", hour)])
                assert found == kept


PARTITIONS = (
    "2001-01-01",
    "2001-1-2",
    "2001-02-30",
    "2001-01-01 10:20:30",
    "20010101",
    "20010230",
    "20011301",
    "9000-01-01",
    "90000101",
    "soon",
    None,
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"partition.timestamp-formatter": "yyyyMMdd"},
        {"partition.timestamp-formatter": "yyyy-MM-dd HH:mm:ss"},
        {"partition.timestamp-pattern": "$day 00:00:00"},
        {"partition.expiration-strategy": "update-time"},
    ],
    ids=lambda each: ", ".join(each.values()) or "no options",
)
def test_java_expires_the_same_partitions(
    catalog: Catalog, env: FixedEnv, java_latest: JavaOracle, options: dict[str, str]
) -> None:
    settings = {
        "partition.expiration-time": "1 d",
        "partition.expiration-check-interval": "0 s",
        **options,
    }
    left = []
    for name in ("db.ours", "db.theirs"):
        table = new_table(catalog, name=name, partitions=("day",), options=settings)
        for day in PARTITIONS:
            table.write(rows(table, events(0, 1, day=day)))
        if name == "db.ours":
            # Java's clock is not that of the tests, which says 2024.
            env.clock.advance(1000 * DAY_MS)
            table.upkeep.expire_partitions()
        else:
            java_latest.expire_partitions(catalog.root, name)
        left.append([each.spec["day"] for each in table.at().partitions()])
    assert left[0] == left[1]
    assert len(left[0]) < len(PARTITIONS)
