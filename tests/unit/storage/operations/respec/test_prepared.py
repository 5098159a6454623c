"""Changing partition keys beside writers that commit all the time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import SchemaMoved
from lakewright.storage.operations.commit.commit import commit_compaction
from lakewright.storage.operations.respec.cut_over import keys_stand
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.snapshot import KEYS_CHANGE_PROPERTY
from tests.support.stores.watched_files import Call, WatchedFiles
from tests.support.tables.builders import content, new_table, rows
from tests.support.tables.invariants import assert_only_reachable_files, assert_readable_history

pytestmark = pytest.mark.mission("PT1")

DAYS = 80
# A manifest of so many bytes has six entries, so the table has 14 of them.
MANIFESTS = {"manifest.target-file-size": "1 kb", "manifest.merge-min-count": "1000"}


def many_files(catalog: Catalog, **options: str) -> Table:
    """A file for each day, in many manifests."""
    table = new_table(
        catalog,
        {"dt": "INT", "hh": "INT", "v": "INT"},
        partitions=["dt"],
        options={**MANIFESTS, "manifest.full-compaction-threshold-size": "1 gb", **options},
    )
    table.write(rows(table, [{"dt": day, "hh": day % 3, "v": day} for day in range(DAYS)]))
    return table


class Writer:
    """Another process, which appends whenever the change has read or written so many manifests.

    As every writer of Lakewright, it commits nothing while the keys do not stand.
    """

    def __init__(self, table: Table, catalog: Catalog, every: int, hours: int) -> None:
        self.table, self.catalog, self.every, self.hours = table, catalog, every, hours
        self.calls = self.commits = self.most_calls = 0

    def look(self, call: Call) -> None:
        is_manifest = "/manifest/" in call.path and call.name in ("read_bytes", "write_bytes")
        self.calls += is_manifest
        if self.calls >= self.every:
            self.calls = 0
            self.append()

    def waits(self) -> bool:
        files = self.table.table_files
        latest = files.snapshots.latest()
        assert latest is not None
        return not keys_stand(files) or KEYS_CHANGE_PROPERTY in (latest.properties or {})

    def append(self) -> None:
        self.table = self.catalog.table(self.table.name)
        if self.waits():
            return
        self.commits += 1
        given = [{"dt": -1, "hh": hour, "v": -self.commits} for hour in range(self.hours)]
        self.table.write(rows(self.table, given))


def changed_beside(
    catalog: Catalog, table: Table, keys: list[str], look: Callable[[Call], None]
) -> Table:
    watched = replace(catalog, fs=WatchedFiles(catalog.fs, after=look))
    watched.table(table.name).upkeep.respec(keys)
    return catalog.table(table.name)


@pytest.mark.sampled(each="keys")
@pytest.mark.parametrize("hours", [1, 2], ids=["one value a file", "several values a file"])
@pytest.mark.parametrize("keys", [[], ["dt", "hh"], ["hh"]], ids=str)
def test_keys_change_beside_a_writer_that_commits_before_the_whole_can_be_restated_once(
    catalog: Catalog, keys: list[str], hours: int
) -> None:
    table = many_files(catalog)
    due = content(table)
    # To read all manifests and to write them takes 28 calls or more.
    writer = Writer(table, catalog, 22, hours)
    now = changed_beside(catalog, table, keys, writer.look)
    assert now.schema.partition_keys == tuple(keys)
    assert writer.commits > 2
    found = [row for row in content(now) if '"v": -' not in row]
    assert found == due
    assert len(content(now)) == DAYS + hours * writer.commits
    assert now.upkeep.plan_respec(keys).changes_nothing
    assert_readable_history(now, mixed=False)
    assert_only_reachable_files(now)


def commit_at_each_snapshot(
    commit: Callable[[int], object], times: int
) -> tuple[Callable[[Call], None], list[list[int]]]:
    """A hook that lets others commit right before a snapshot of the change is created.

    It tells of each attempt how many bytes of manifests were written for it.
    """
    attempts: list[list[int]] = [[]]

    def look(call: Call) -> None:
        if call.name == "write_bytes" and "/manifest/" in call.path:
            attempts[-1].append(1)
        if call.name == "put_if_absent" and "/snapshot/snapshot-" in call.path:
            attempts.append([])
            if len(attempts) <= times + 1:
                commit(len(attempts))

    return look, attempts


@pytest.mark.parametrize("keys", [[], ["dt", "hh"]], ids=str)
def test_a_lost_race_restates_what_the_winner_changed_and_no_more(
    catalog: Catalog, keys: list[str]
) -> None:
    table = many_files(catalog)

    def commit(number: int) -> None:
        beside = catalog.table(table.name)
        if number == 2:
            beside.write(rows(beside, [{"dt": 1, "hh": 5, "v": -1}]), mode="overwrite")
        else:
            beside.write(rows(beside, [{"dt": 2, "hh": 6, "v": -number}]))

    look, attempts = commit_at_each_snapshot(commit, times=4)
    watched = replace(catalog, fs=WatchedFiles(catalog.fs, before=look))
    watched.table(table.name).upkeep.respec(keys)
    now = catalog.table(table.name)
    # A manifest for each list of keys, its list, and those of an empty delta.
    assert len(attempts[0]) > DAYS // 6
    assert max(map(len, attempts[1:])) <= 6
    assert [row["v"] for row in now.read("dt = 1").to_pylist()] == [-1]
    assert sorted(row["v"] for row in now.read("dt = 2").to_pylist()) == [-5, -4, -3, 2]
    assert sorted(row["v"] for row in now.read("dt > 2").to_pylist()) == list(range(3, DAYS))
    assert_only_reachable_files(now)


@pytest.mark.parametrize("keys", [[], ["dt", "hh"]], ids=str)
def test_a_rollback_meanwhile_lets_the_whole_be_restated_again(
    catalog: Catalog, keys: list[str]
) -> None:
    table = many_files(catalog)
    table.write(rows(table, [{"dt": 1, "hh": 5, "v": -1}]))

    def commit(_: int) -> None:
        beside = catalog.table(table.name)
        beside.history.rollback(snapshot=1, grace_ms=0)
        beside.write(rows(beside, [{"dt": 2, "hh": 6, "v": -2}]))

    look, _ = commit_at_each_snapshot(commit, times=1)
    watched = replace(catalog, fs=WatchedFiles(catalog.fs, before=look))
    watched.table(table.name).upkeep.respec(keys)
    now = catalog.table(table.name)
    assert sorted(row["v"] for row in now.read().to_pylist()) == [-2, *range(DAYS)]
    assert_only_reachable_files(now)


@pytest.mark.parametrize("keys", [[], ["dt", "hh"]], ids=str)
def test_rows_that_others_delete_meanwhile_stay_deleted(catalog: Catalog, keys: list[str]) -> None:
    table = many_files(catalog, **{"deletion-vectors.enabled": "true"})

    def commit(_: int) -> None:
        beside = catalog.table(table.name)
        files = beside.table_files
        entry = min(beside.at().files(), key=lambda each: each.file.min_sequence_number)
        index = files.indexes.write_deletion_vectors(
            {entry.file.file_name: np.array([0])}, write_id=files.env.new_id()
        )
        message = CommitMessage(
            partition=entry.partition, bucket=entry.bucket, total_buckets=-1, new_indexes=(index,)
        )
        base = beside.history.snapshots()[-1].id
        commit_compaction(files, [message], user="delete", base_snapshot_id=base)

    look, _ = commit_at_each_snapshot(commit, times=1)
    watched = replace(catalog, fs=WatchedFiles(catalog.fs, before=look))
    watched.table(table.name).upkeep.respec(keys)
    now = catalog.table(table.name)
    assert len(content(now)) == DAYS - 1
    assert_only_reachable_files(now)


def test_a_writer_that_waits_stages_its_rows_again(catalog: Catalog) -> None:
    table = many_files(catalog)
    opened = catalog.table(table.name)
    changed_beside(catalog, table, [], lambda _: None)
    with pytest.raises(SchemaMoved, match="open the table"):
        opened.write(rows(opened, [{"dt": 1, "hh": 1, "v": 1}]))
    assert_only_reachable_files(catalog.table(table.name))
