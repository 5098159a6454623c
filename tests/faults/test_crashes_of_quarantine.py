"""A crash or failure at every IO call of removing orphans, restoring and purging.

After each: all that is referred to is there, every orphan is in the table, in quarantine or in
both, byte for byte, until it is purged; and a second try ends as an undisturbed one does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import StorageError
from tests.support.stores.watched_files import Call, Crashed, Fault, watched
from tests.support.tables.builders import content, events, new_table, rows
from tests.support.tables.fixtures import empty_memory, memory_catalog
from tests.support.tables.invariants import (
    assert_nothing_missing,
    assert_only_reachable_files,
    assert_sound,
    unreachable_files,
)
from tests.support.tables.remade import Remade
from tests.support.tally import tally

Bytes = dict[str, bytes]
# What each table had of orphans when it was made, by its root.
MADE: dict[str, Bytes] = {}


@pytest.fixture(autouse=True)
def _empty_memory() -> Iterator[None]:
    yield
    MADE.clear()
    empty_memory()


FAULTS: dict[str, tuple[Fault, Callable[[Call], bool]]] = {
    "dies before": (Fault.DIES_BEFORE, lambda call: call.changes),
    "dies after": (Fault.DIES_AFTER, lambda call: call.changes),
    "fails": (Fault.FAILS_BEFORE, lambda call: True),
    "loses the answer": (Fault.FAILS_AFTER, lambda call: call.changes),
}
# A death before a call is a death after the one that came before it.
_SLOW = pytest.param("dies before", marks=pytest.mark.deep)
faults = pytest.mark.parametrize("fault", [_SLOW, *list(FAULTS)[1:]])


def with_orphans(catalog: Catalog) -> Table:
    """A table, and orphans of each kind: data files, manifests and their lists."""
    table = new_table(catalog, partitions=["day"])
    table.write(rows(table, events(0, 3)))
    broken, _ = watched(
        table, fail_at=1, fault=Fault.DIES_BEFORE, counts=lambda call: call.name == "put_if_absent"
    )
    with suppress(Crashed):
        broken.write(rows(table, [*events(3, 5, day="a"), *events(5, 7, day="b")]))
    MADE[table.table_files.paths.root] = orphans_of(table)
    return table


def remove(table: Table) -> object:
    return table.upkeep.run(table.upkeep.plan_remove_orphans(age_ms=0, even_recent=True))


def restore(table: Table) -> None:
    for quarantine in table.upkeep.quarantines():
        table.upkeep.run(table.upkeep.plan_restore(quarantine.id))


def purge(table: Table) -> object:
    return table.upkeep.run(table.upkeep.plan_purge(ttl_ms=0))


def with_quarantine(catalog: Catalog) -> Table:
    table = with_orphans(catalog)
    remove(table)
    return table


def failing(
    make: Callable[[Catalog], Table],
    fault: str,
    verb: Callable[[Table], object],
    *,
    only_changes: bool = False,
) -> Iterator[tuple[Table, str]]:
    """A table for each call at which the verb failed on it, and which call that was."""
    kind, counts = FAULTS[fault]
    if only_changes:
        counts = FAULTS["dies after"][1]
    made = Remade(make)
    for number in range(1, 1_000):
        table = made.again()
        broken, fs = watched(table, fail_at=number, fault=kind, counts=counts)
        with suppress(Crashed, StorageError):
            verb(broken)
        if fs.counted < number:
            assert number > 5, "the verb made hardly any call"
            tally("points of failure tried", number - 1)
            tally(f"points of failure tried: {verb.__name__} and quarantine", number - 1)
            return
        failed = [call for call in fs.calls if counts(call)][number - 1]
        yield table, f"{fault} at {failed.name} of {failed.path}"


def orphans_of(table: Table) -> Bytes:
    root = table.table_files.paths.root
    return {
        path: table.table_files.fs.read_bytes(f"{root}/{path}") for path in unreachable_files(table)
    }


def saved(table: Table) -> dict[str, set[bytes]]:
    """What is in the table without being referred to, and in quarantine, by old paths."""
    fs, root = table.table_files.fs, table.table_files.paths.root
    found: dict[str, set[bytes]] = {}
    for each in fs.list_tree(root):
        path = each.path.removeprefix(f"{root}/")
        if path.startswith(".lakewright/quarantine/") and "/files/" in path:
            path = path.split("/files/", 1)[1]
        found.setdefault(path, set()).add(fs.read_bytes(each.path))
    return found


def assert_saved(table: Table, place: str) -> None:
    """Every orphan is somewhere, once or twice, and wherever it is, it is what it was."""
    held, orphans = saved(table), MADE[table.table_files.paths.root]
    assert {path: held.get(path) for path in orphans} == {
        path: {data} for path, data in orphans.items()
    }, place
    assert_nothing_missing(table)


def assert_restored(table: Table, place: str) -> None:
    """Every orphan is where it was, and nothing in quarantine."""
    assert orphans_of(table) == MADE[table.table_files.paths.root], place
    assert table.upkeep.quarantines() == (), place
    assert_nothing_missing(table)


@faults
@pytest.mark.mission("FS19")
def test_a_removal_of_orphans_that_failed_anywhere_loses_none_and_is_finished_by_the_next(
    fault: str,
) -> None:
    rows_before = content(with_orphans(memory_catalog()))
    for table, place in failing(with_orphans, fault, remove):
        assert_saved(table, place)
        remove(table)
        assert_only_reachable_files(table)
        assert_saved(table, place)
        assert content(table) == rows_before, place
        restore(table)
        assert_restored(table, place)


@faults
def test_a_restore_that_failed_anywhere_is_finished_by_the_next(fault: str) -> None:
    rows_before = content(with_orphans(memory_catalog()))
    for table, place in failing(with_quarantine, fault, restore):
        assert_saved(table, place)
        restore(table)
        assert_restored(table, place)
        assert content(table) == rows_before, place


@faults
def test_a_purge_that_failed_anywhere_is_finished_by_the_next(fault: str) -> None:
    rows_before = content(with_orphans(memory_catalog()))
    for table, place in failing(with_quarantine, fault, purge):
        assert_nothing_missing(table)
        assert content(table) == rows_before, place
        purge(table)
        assert table.upkeep.quarantines() == (), place
        # The clock that a dead planner looked at goes when somebody looks again.
        remove(table)
        assert [path for path in saved(table) if path.startswith(".lakewright")] == [], place
        assert_sound(table)


@faults
def test_what_a_late_commit_refers_to_is_back_after_a_failure_anywhere_and_a_second_try(
    fault: str,
) -> None:
    """Its snapshot is created when its files have been set aside: the next removal heals that."""
    rows_after: list[list[str]] = []

    def make(catalog: Catalog) -> Table:
        table = new_table(catalog)
        table.write(rows(table, events(0, 3)))
        table.write(rows(table, events(3, 6)))
        rows_after[:] = [content(table)]
        path = table.table_files.paths.snapshot(2)
        snapshot = table.table_files.fs.read_bytes(path)
        table.table_files.fs.delete(path)
        plan = table.upkeep.plan_remove_orphans(age_ms=0, even_recent=True)
        data = tuple(file for file in plan.files if "bucket-" in file.path)
        table.upkeep.run(replace(plan, files=data))
        table.table_files.fs.write_bytes(path, snapshot)
        return table

    for verb in (remove, purge):
        for table, place in failing(make, fault, verb, only_changes=True):
            verb(table)
            assert content(table) == rows_after[0], place
            if verb is remove:
                purge(table)
            remove(table)
            assert_sound(table)
