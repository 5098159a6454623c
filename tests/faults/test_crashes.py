"""A crash or failure at every single IO call of a verb: a second try succeeds, no row is lost.

The calls of an undisturbed run are counted first; then the verb runs once for each of them, and
fails there. Orphans may stay behind; nothing that is referred to may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import StorageError
from tests.support.builders import compact, content, events, expire, new_table, rows
from tests.support.environment import FixedEnv
from tests.support.fixtures import memory_uri
from tests.support.faults import Crashed, Fault, watched
from tests.support.invariants import (
    assert_nothing_missing,
    assert_only_reachable_files,
    assert_readable_history,
)


@pytest.fixture(autouse=True)
def _empty_memory() -> Iterator[None]:
    yield
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


KINDS = {
    "append": {"partitions": ("day",), "options": {"manifest.merge-min-count": "2"}},
    "keyed": {
        "keys": ("id",),
        "options": {"bucket": "2", "manifest.merge-min-count": "2"},
    },
}


def make_table(kind: str) -> Table:
    """Three commits, so that there is something to merge, compact and expire."""
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    table = new_table(catalog, **KINDS[kind])  # type: ignore[arg-type]
    for day in ("a", "b", "a"):
        table.write(rows(table, events(0, 4, day=day, v=day)))
    return table


def count_calls(kind: str, verb: Callable[[Table], object]) -> int:
    table, fs = watched(make_table(kind))
    fs.calls.clear()
    verb(table)
    return len(fs.calls)


def attempts(
    kind: str, fault: Fault, verb: Callable[[Table], object]
) -> Iterator[tuple[int, Table, BaseException | None]]:
    """The table after each failure, and what was raised (None: the verb took it in its stride)."""
    total = count_calls(kind, verb)
    assert total > 5
    for number in range(1, total + 1):
        table = make_table(kind)
        broken, _ = watched(table, fail_at=number, fault=fault)
        raised: BaseException | None = None
        try:
            verb(broken)
        except (Crashed, StorageError) as error:
            raised = error
        MemoryFileSystem.store  # noqa: B018 - the store is what survives
        yield number, table, raised


faults = pytest.mark.parametrize("fault", list(Fault), ids=[fault.value for fault in Fault])
kinds = pytest.mark.parametrize("kind", list(KINDS))


@faults
@kinds
@pytest.mark.mission("FS9", "FS10")
def test_a_write_that_failed_anywhere_is_repeated_without_loss_or_doubling(
    kind: str, fault: Fault
) -> None:
    expected: list[str] = []

    def write(table: Table) -> object:
        new = rows(table, events(2, 6, day="c", v="new"))
        return table.write(new, commit_user="job", commit_identifier=7)

    for number, table, _ in attempts(kind, fault, write):
        write(table)
        found = content(table)
        expected = expected or found
        assert found == expected, f"call {number}"
        assert len(found) == (6 if kind == "keyed" else 16)
        assert_nothing_missing(table)
        assert_readable_history(table)


@faults
@kinds
def test_a_commit_that_failed_anywhere_is_repeated_without_loss_or_doubling(
    kind: str, fault: Fault
) -> None:
    """The same staged write again, without an identifier of its own."""
    for number in range(1, 200):
        table = make_table(kind)
        staged = table.stage(rows(table, events(2, 6, day="c", v="new")))
        broken, fs = watched(table, fail_at=number, fault=fault)
        try:
            broken.commit(staged)
        except (Crashed, StorageError):
            pass
        if fs.counted < number:
            break
        table.commit(staged)
        assert len(content(table)) == (6 if kind == "keyed" else 16), f"call {number}"
        assert len(table.snapshots()) == 4
        assert_nothing_missing(table)
        assert_readable_history(table)
    else:
        pytest.fail("the commit never got through undisturbed")


@faults
@kinds
def test_a_compaction_that_failed_anywhere_loses_no_row(kind: str, fault: Fault) -> None:
    def run(table: Table) -> object:
        return compact(table, full=True)

    before = content(make_table(kind))
    for number, table, _ in attempts(kind, fault, run):
        assert content(table) == before, f"call {number}"
        assert_nothing_missing(table)
        assert_readable_history(table)
        run(table)
        assert content(table) == before, f"call {number}, second try"
        assert not table.plan_compact(full=True).tasks
        assert_nothing_missing(table)
        assert_readable_history(table)


@pytest.mark.parametrize(
    "fault", [Fault.FAILS_BEFORE, Fault.FAILS_AFTER], ids=["fails before", "fails after"]
)
@kinds
def test_a_failing_store_leaves_no_file_of_a_compaction_unless_its_outcome_is_unknown(
    kind: str, fault: Fault
) -> None:
    def run(table: Table) -> object:
        return compact(table, full=True)

    for number, table, _ in attempts(kind, fault, run):
        leftovers = [
            path for path in _unreachable(table) if "/bucket-" in path or path.startswith("bucket")
        ]
        assert not leftovers, f"call {number}"


def _unreachable(table: Table) -> list[str]:
    from tests.support.invariants import unreachable_files

    return unreachable_files(table)


@faults
@kinds
def test_an_expiry_that_failed_anywhere_is_finished_by_the_next(kind: str, fault: Fault) -> None:
    def prepare_and_expire(table: Table) -> object:
        return expire(table, keep=1)

    before = content(make_table(kind))
    for number, table, _ in attempts(kind, fault, prepare_and_expire):
        assert content(table) == before, f"call {number}"
        expire(table, keep=1)
        assert [snapshot.id for snapshot in table.snapshots()] == [3]
        assert content(table) == before, f"call {number}, second try"
        assert_only_reachable_files(table)
        assert_readable_history(table)


@faults
def test_an_expiry_after_a_compaction_deletes_data_files_safely(fault: Fault) -> None:
    def run(table: Table) -> object:
        return expire(table, keep=1)

    def compacted() -> Table:
        table = make_table("keyed")
        compact(table, full=True)
        return table

    before = content(compacted())
    for number in range(1, 300):
        table = compacted()
        broken, fs = watched(table, fail_at=number, fault=fault)
        try:
            run(broken)
        except (Crashed, StorageError):
            pass
        if fs.counted < number:
            break
        assert content(table) == before, f"call {number}"
        run(table)
        assert content(table) == before, f"call {number}, second try"
        assert_only_reachable_files(table)
    else:
        pytest.fail("the expiry never got through undisturbed")
