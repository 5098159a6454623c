"""A crash or failure at every IO call of what moves rows between buckets, or indexes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from lakewright.storage import Catalog, Table
from tests.faults.test_crashes import SMALL, attempts, cleans_up, faults
from tests.support.builders import content, events, new_table, rows
from tests.support.environment import FixedEnv
from tests.support.fixtures import memory_uri
from tests.support.invariants import (
    assert_nothing_missing,
    assert_readable_history,
    unreachable_files,
)

KINDS: dict[str, dict[str, str]] = {
    "fixed": {"bucket": "2"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "3"},
    "postponed": {"bucket": "-2", "postpone.default-bucket-num": "2"},
    "telling": {"bucket": "1", "changelog-producer": "input"},
}


@pytest.fixture(autouse=True)
def _empty_memory() -> Iterator[None]:
    yield
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def make_table(kind: str) -> Table:
    """Two commits in two partitions."""
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    settings: dict[str, Any] = {"partitions": ("day",), "keys": ("day", "id")}
    table = new_table(catalog, **settings, options={**SMALL, **KINDS[kind]})
    for number in range(2):
        new = [*events(number, 5, v=str(number)), *events(0, 2, day="b")]
        table.write(rows(table, new))
    return table


def reopened(table: Table) -> Table:
    """The table with the schema it has now."""
    return Table(replace(table.files, schema=table.files.schemas.latest(table=table.name)))


@faults
@pytest.mark.parametrize("kind", ["dynamic", "postponed", "telling"])
def test_a_write_that_failed_anywhere_is_repeated_without_loss_or_doubling(
    kind: str, fault: str
) -> None:
    def write(table: Table) -> object:
        new = rows(table, [*events(3, 9, v="new"), *events(0, 1, day="c")])
        return table.write(new, commit_user="job", commit_identifier=7)

    def seen(table: Table) -> list[str]:
        if kind == "postponed":
            table.run_postpone_compact(table.plan_postpone_compact())
        return content(table)

    undisturbed = make_table(kind)
    write(undisturbed)
    expected = seen(undisturbed)
    for table, place in attempts(lambda: make_table(kind), fault, write):
        if cleans_up(place) and ("/bucket-" in place or "/index/" in place):
            assert not unreachable_files(table), place
        write(table)
        assert seen(table) == expected, place
        assert_nothing_missing(table)
        assert_readable_history(table)


@faults
@pytest.mark.mission("BK37")
def test_a_rescale_that_failed_anywhere_loses_no_row_and_goes_on(fault: str) -> None:
    def run(table: Table) -> object:
        return table.run_rescale(table.plan_rescale(3))

    before = content(make_table("fixed"))
    for table, place in attempts(lambda: make_table("fixed"), fault, run):
        assert content(table) == before, place
        assert_nothing_missing(table)
        if cleans_up(place):
            assert not [path for path in unreachable_files(table) if "bucket-" in path], place
        now = reopened(table)
        run(now)
        assert content(now) == before, f"{place}, second try"
        assert {entry.total_buckets for entry in now.data_files()} == {3}
        assert reopened(now).options.bucket == 3
        assert_nothing_missing(now)
        assert_readable_history(now)


@faults
def test_postponed_rows_are_seen_once_whatever_failed(fault: str) -> None:
    def run(table: Table) -> object:
        return table.run_postpone_compact(table.plan_postpone_compact())

    undisturbed = make_table("postponed")
    run(undisturbed)
    expected = content(undisturbed)
    for table, place in attempts(lambda: make_table("postponed"), fault, run):
        assert set(content(table)) <= set(expected), place
        assert_nothing_missing(table)
        if cleans_up(place):
            assert not [path for path in unreachable_files(table) if "bucket-" in path], place
        run(table)
        assert content(table) == expected, f"{place}, second try"
        assert_nothing_missing(table)
        assert_readable_history(table)
