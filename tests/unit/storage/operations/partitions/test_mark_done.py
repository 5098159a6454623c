"""Marks of partitions that are done: a file as Java writes it, and a call for each."""

from __future__ import annotations

import json

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidPredicate, InvalidRequestError, PartitionNotFound
from tests.support.tables.builders import content, events, expire, new_table, remove_orphans, rows
from tests.support.tables.environment import FixedEnv


def filled(catalog: Catalog) -> Table:
    table = new_table(catalog, partitions=("day",))
    for day in ("a/b", "b"):
        table.write(rows(table, events(0, 3, day=day)))
    return table


def mark_of(table: Table, folder: str) -> str | None:
    path = f"{table.table_files.paths.root}/day={folder}/_SUCCESS"
    fs = table.table_files.fs
    return fs.read_bytes(path).decode() if fs.exists(path) else None


def test_the_mark_is_the_file_that_java_writes(catalog: Catalog, env: FixedEnv) -> None:
    table = filled(catalog)
    env.clock.step_ms, env.clock.now_ms = 0, 1_704_100_000_000
    table.upkeep.mark_done(partitions=[{"day": "a/b"}])
    assert mark_of(table, "a%2Fb") == (
        '{\n  "creationTime" : 1704100000000,\n  "modificationTime" : 1704100000000\n}'
    )
    assert mark_of(table, "b") is None


def test_a_mark_keeps_its_first_time_and_gets_a_new_last_one(
    catalog: Catalog, env: FixedEnv
) -> None:
    table = filled(catalog)
    table.upkeep.mark_done("day = 'b'")
    first = json.loads(mark_of(table, "b") or "")
    env.clock.advance(1000)
    plan = table.upkeep.plan_mark_done("day = 'b'")
    assert plan.partitions[0].done_since_ms == first["creationTime"]
    table.upkeep.run(plan)
    again = json.loads(mark_of(table, "b") or "")
    assert again["creationTime"] == first["creationTime"]
    assert again["modificationTime"] >= first["modificationTime"] + 1000


def test_each_partition_is_told_to_a_callable_once_it_is_marked(catalog: Catalog) -> None:
    table, told = filled(catalog), []

    def then(spec: object) -> None:
        told.append((spec, mark_of(table, "b") is not None))

    table.upkeep.run(table.upkeep.plan_mark_done("day >= 'b'"), then=then)
    assert told == [({"day": "b"}, True)]


def test_upkeep_leaves_the_mark(catalog: Catalog) -> None:
    table = filled(catalog)
    table.upkeep.mark_done("day = 'b'")
    before = content(table)
    table.upkeep.drop_partitions("day = 'a/b'")
    expire(table, keep=1)
    remove_orphans(table)
    assert mark_of(table, "b") is not None
    assert len(content(table)) == len(before) - 3


def test_an_empty_mark_of_another_system_is_replaced(catalog: Catalog) -> None:
    table = filled(catalog)
    path = f"{table.table_files.paths.root}/day=b/_SUCCESS"
    table.table_files.fs.replace(path, b"")
    table.upkeep.mark_done("day = 'b'")
    assert json.loads(mark_of(table, "b") or "")["creationTime"] > 0


def test_a_wrong_request_marks_nothing(catalog: Catalog) -> None:
    table = filled(catalog)
    with pytest.raises(InvalidRequestError, match="say which partitions"):
        table.upkeep.mark_done()
    with pytest.raises(PartitionNotFound):
        table.upkeep.mark_done(partitions=[{"day": "b"}, {"day": "z"}])
    with pytest.raises(InvalidPredicate):
        table.upkeep.mark_done("id = 1")
    assert mark_of(table, "b") is None
