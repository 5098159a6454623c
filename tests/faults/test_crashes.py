"""A crash or failure at every single IO call of a verb: a second try succeeds, no row is lost.

The verb runs once for each call it makes and fails there, until it gets through. Orphans may stay
behind; nothing that is referred to may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from lakewright.storage import Catalog, StagedWrite, Table
from lakewright.storage.errors import StorageError
from tests.support.builders import compact, content, events, expire, new_table, rows
from tests.support.environment import FixedEnv
from tests.support.faults import Call, Crashed, Fault, watched
from tests.support.fixtures import memory_uri
from tests.support.invariants import (
    assert_nothing_missing,
    assert_only_reachable_files,
    assert_readable_history,
    unreachable_files,
)

Verb = Callable[[Table], Any]


@pytest.fixture(autouse=True)
def _empty_memory() -> Iterator[None]:
    yield
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


SMALL = {"manifest.merge-min-count": "2"}
KINDS: dict[str, dict[str, Any]] = {
    "append": {"partitions": ("day",), "options": SMALL},
    "keyed": {"keys": ("id",), "options": {"bucket": "1", **SMALL}},
}
# What fails where. A death before a call is a death after the one that came before it.
FAULTS: dict[str, tuple[Fault, Callable[[Call], bool]]] = {
    "dies": (Fault.DIES_AFTER, lambda call: call.changes),
    "fails": (Fault.FAILS_BEFORE, lambda call: True),
    "loses the answer": (Fault.FAILS_AFTER, lambda call: call.changes),
}
faults = pytest.mark.parametrize("fault", list(FAULTS))
kinds = pytest.mark.parametrize("kind", list(KINDS))


def make_table(kind: str) -> Table:
    """Three commits, so that there is something to merge, compact and expire."""
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    table = new_table(catalog, **KINDS[kind])
    for day in ("a", "b", "a"):
        table.write(rows(table, events(0, 4, day=day, v=day)))
    return table


def compacted_table(kind: str) -> Table:
    table = make_table(kind)
    compact(table, full=True)
    return table


def attempts(
    make: Callable[[], Table],
    fault: str,
    verb: Verb,
    *,
    counts: Callable[[Call], bool] | None = None,
) -> Iterator[tuple[Table, str]]:
    """A table for each place where the verb failed on it, and which place that was."""
    kind, usual = FAULTS[fault]
    counts = counts or usual
    for number in range(1, 1000):
        table = make()
        broken, fs = watched(table, fail_at=number, fault=kind, counts=counts)
        with suppress(Crashed, StorageError):
            verb(broken)
        if fs.counted < number:
            assert number > 5, "the verb made hardly any call"
            return
        failed = [call for call in fs.calls if counts(call)][number - 1]
        yield table, f"{fault} at {failed.name} of {failed.path}"


def cleans_up(place: str) -> bool:
    """Whether what failed leaves a process that can, and may, delete what it wrote.

    Once a snapshot may have been created nothing it names is touched, and a deletion that fails
    is one that nobody makes up for.
    """
    return place.startswith("fails") and "put_if_absent" not in place and "delete" not in place


@faults
@kinds
@pytest.mark.mission("FS9", "FS10")
def test_a_write_that_failed_anywhere_is_repeated_without_loss_or_doubling(
    kind: str, fault: str
) -> None:
    def write(table: Table) -> object:
        new = rows(table, events(2, 6, day="c", v="new"))
        return table.write(new, commit_user="job", commit_identifier=7)

    undisturbed = make_table(kind)
    write(undisturbed)
    for table, place in attempts(lambda: make_table(kind), fault, write):
        write(table)
        assert content(table) == content(undisturbed), place
        assert_nothing_missing(table)
        assert_readable_history(table)


@faults
@kinds
def test_a_commit_that_failed_anywhere_is_repeated_without_loss_or_doubling(
    kind: str, fault: str
) -> None:
    """The same staged write once more, which has no identifier of its own."""
    staged_of: dict[str, Any] = {}

    def make() -> Table:
        table = make_table(kind)
        root = table.files.paths.root
        staged_of[root] = table.stage(rows(table, events(2, 6, day="c", v="new")))
        return table

    def commit(table: Table) -> object:
        return table.commit(staged_of[table.files.paths.root])

    undisturbed = make()
    commit(undisturbed)
    for table, place in attempts(make, fault, commit):
        commit(table)
        assert content(table) == content(undisturbed), place
        assert len(table.snapshots()) == 4, place
        assert_nothing_missing(table)
        assert_readable_history(table)


@faults
@kinds
def test_a_compaction_that_failed_anywhere_loses_no_row(kind: str, fault: str) -> None:
    def run(table: Table) -> object:
        return compact(table, full=True)

    before = content(make_table(kind))
    for table, place in attempts(lambda: make_table(kind), fault, run):
        assert content(table) == before, place
        assert_nothing_missing(table)
        if cleans_up(place):
            assert not [path for path in unreachable_files(table) if "bucket-" in path], place
        run(table)
        assert content(table) == before, f"{place}, second try"
        assert not table.plan_compact(full=True).tasks
        assert_nothing_missing(table)
        assert_readable_history(table)


@faults
@kinds
@pytest.mark.mission("FS11")
def test_a_writer_that_compacts_as_it_goes_loses_nothing_wherever_it_failed(
    kind: str, fault: str
) -> None:
    def write(table: Table) -> object:
        new = rows(table, [*events(2, 6, day="a", v="new"), *events(0, 1, day="c")])
        return table.write(new, commit_user="job", commit_identifier=7, compact=True)

    def make() -> Table:
        table = make_table(kind)
        for _ in range(3):
            table.write(rows(table, events(0, 4, day="a", v="a")))
        return table

    undisturbed = make()
    write(undisturbed)
    expected = content(undisturbed)
    for table, place in attempts(make, fault, write):
        write(table)
        assert content(table) == expected, place
        assert_nothing_missing(table)
        assert_readable_history(table)


@faults
@pytest.mark.mission("FS9", "FS10")
def test_a_write_that_is_numbered_again_is_committed_once_wherever_it_failed(fault: str) -> None:
    staged: list[StagedWrite] = []

    def make() -> Table:
        table = make_table("keyed")
        first, second = (
            table.stage(rows(table, events(1, 6, v=value))) for value in ("first", "second")
        )
        table.commit(first)
        staged[:] = [second]
        return table

    def commit(table: Table) -> object:
        return table.commit(staged[0])

    undisturbed = make()
    commit(undisturbed)
    expected = content(undisturbed)
    for table, place in attempts(make, fault, commit):
        commit(table)
        assert content(table) == expected, place
        assert len([each for each in table.snapshots() if each.id > 4]) == 1, place
        assert_nothing_missing(table)
        assert_readable_history(table)


@faults
@kinds
@pytest.mark.parametrize("make", [make_table, compacted_table], ids=["appended", "compacted"])
def test_an_expiry_that_failed_anywhere_is_finished_by_the_next(
    make: Callable[[str], Table], kind: str, fault: str
) -> None:
    def run(table: Table) -> object:
        return expire(table, keep=1)

    # Planning changes nothing, so its reads may fail as they like.
    before = content(make(kind))
    for table, place in attempts(lambda: make(kind), fault, run, counts=lambda each: each.changes):
        assert content(table) == before, place
        run(table)
        assert len(table.snapshots()) == 1, place
        assert content(table) == before, f"{place}, second try"
        assert_only_reachable_files(table)
        assert_readable_history(table)
