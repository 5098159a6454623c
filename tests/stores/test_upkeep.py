"""Every verb of upkeep on S3: rows stay as they are, and the files there are those reached."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import FileMissing, SnapshotNotFound
from tests.faults.verbs import KINDS, Kind
from tests.stateful.test_table_machine import TableMachine
from tests.support.tables.builders import (
    compact,
    content,
    events,
    expire,
    new_table,
    remove_orphans,
    rows,
)
from tests.support.tables.invariants import (
    assert_only_reachable_files,
    assert_sound,
    unreachable_files,
)
from tests.support.tally import tally
from tests.unit.storage.operations.respec import test_keyed, test_respec

# A step reads all of a table, each file of it over HTTP.
HISTORIES = 3
STEPS = 20


@contextmanager
def read_all_the_time(table: Table) -> Iterator[set[tuple[str, ...]]]:
    """Read a table over and over in another thread; every content that was seen."""
    seen: set[tuple[str, ...]] = set()
    over = threading.Event()
    failures: list[Exception] = []
    reads = 0

    def read() -> None:
        nonlocal reads
        # Not so often that upkeep gets nowhere.
        while not over.wait(0.3):
            try:
                seen.add(tuple(content(table)))
                reads += 1
            except (FileMissing, SnapshotNotFound):
                # An expiry took the snapshot meanwhile, and the error says so.
                continue
            except Exception as error:
                failures.append(error)
                raise

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield seen
    finally:
        over.set()
        reader.join()
    assert not failures
    assert reads
    tally("reads beside upkeep on S3", reads)


@pytest.mark.parametrize("kind", ["append", "keyed"])
@pytest.mark.mission("PT1", "PT2", "PT3")
def test_partition_keys_change_on_s3_and_back(s3: str, kind: str) -> None:
    catalog = Catalog.open(s3)
    table = (test_respec if kind == "append" else test_keyed).by_day(catalog)
    before, day = content(table), table.schema.partition_keys
    for keys in (("dt", "hh"), (), day):
        catalog.table(table.name).upkeep.respec(keys)
        now = catalog.table(table.name)
        assert now.schema.partition_keys == keys
        assert content(now) == before
        assert_only_reachable_files(now)
    compact(now, full=True)
    expire(now)
    assert content(now) == before
    assert_only_reachable_files(now)
    assert not remove_orphans(now).files_condemned


@pytest.mark.parametrize("kind", ["fixed", "append in buckets"])
@pytest.mark.mission("RS8")
def test_upkeep_of_a_table_on_s3_changes_no_row_that_a_reader_sees(s3: str, kind: str) -> None:
    made: Kind = KINDS[kind]
    table = new_table(
        Catalog.open(s3), keys=made.keys, partitions=made.partitions, options=made.options
    )
    for number, day in enumerate("abab"):
        table.write(rows(table, events(number, number + 4, day=day, v=f"{number}-")))
    before = content(table)

    with read_all_the_time(table) as seen:
        compact(table, full=True)
        assert_only_reachable_files(table)

        table.history.create_tag("kept", snapshot=2)
        side = table.history.create_branch("side", tag="kept")
        side.write(rows(side, events(50, 52, day="a")))
        compact(side, full=True)
        assert_only_reachable_files(table)

        table.upkeep.run(table.upkeep.plan_rescale(3))
        table = Catalog.open(s3).table(table.name)
        assert_only_reachable_files(table)

        assert expire(table).expired
        assert len(table.history.snapshots()) == 1
        assert_only_reachable_files(table)

        # What a writer leaves that dies before it commits.
        table.stage(rows(table, events(60, 70, day="a")))
        orphans = contents(table, unreachable_files(table))
        assert remove_orphans(table).files_condemned == len(orphans) > 0
        assert_only_reachable_files(table)
        for each in table.upkeep.condemned():
            table.upkeep.put_back(each.id)
        assert contents(table, unreachable_files(table)) == orphans
        assert remove_orphans(table).files_condemned == len(orphans)
        assert table.upkeep.collect(early=True).files_deleted == len(orphans)
        assert not table.upkeep.condemned()
        assert_only_reachable_files(table)

        table.upkeep.run(table.upkeep.plan_analyze())
        assert content(table.at(tag="kept")) != before
        table.history.run(table.history.plan_delete_tags("kept", grace_ms=0))
        table.history.run(table.history.plan_delete_branch("side", grace_ms=0))
        expire(table)
        assert_only_reachable_files(table)
    assert seen == {tuple(before)}

    good = table.history.latest_snapshot()
    assert good is not None
    table.write(rows(table, events(90, 95, day="b", v="wrong")))
    compact(table, full=True)
    with read_all_the_time(table) as seen:
        table.history.run(table.history.plan_rollback(snapshot=good.id, grace_ms=0))
    assert content(table) == before
    assert_sound(table)


def contents(table: Table, paths: Sequence[str]) -> dict[str, bytes]:
    """The bytes of a table's files."""
    return {
        path: table.table_files.fs.read_bytes(f"{table.table_files.paths.root}/{path}")
        for path in paths
    }


@pytest.mark.mission("FS9", "FS10", "RS8")
def test_any_history_of_a_table_on_s3_reads_as_a_list_of_rows_that_was_kept(s3: str) -> None:
    numbers = itertools.count()

    class OnS3(TableMachine):
        def new_warehouse(self) -> str:
            return f"{s3}/{next(numbers)}"

    run_state_machine_as_test(
        OnS3, settings=settings(max_examples=HISTORIES, stateful_step_count=STEPS)
    )
