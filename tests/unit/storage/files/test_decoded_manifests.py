"""Decoded manifests that a table keeps for its next plan."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.codec import manifest_columns
from lakewright.storage.files import manifest_store
from tests.support.stores.watched_files import watched
from tests.support.tables.builders import events, new_table, rows


@pytest.fixture
def table(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Table:
    """A table whose manifests count as large."""
    monkeypatch.setattr(manifest_columns, "LEAST_BLOCKS", 0)
    monkeypatch.setattr(manifest_store, "_FEW_ENTRIES", 0)
    made = new_table(catalog, partitions=["day"])
    for day in "abcd":
        made.write(rows(made, events(0, 3, day=day)))
    return made


def manifests_read(watching: Table) -> int:
    """How many manifests the next plan of a watched table opens."""
    calls = watching.table_files.fs.calls  # type: ignore[attr-defined] # of a watched table
    before = len(calls)
    watching.scan()
    names = [Path(call.path).name for call in calls[before:] if call.name == "read_bytes"]
    return sum(name.startswith("manifest-0") for name in names)


def test_a_large_manifest_is_read_once_for_all_plans_of_a_table(table: Table) -> None:
    watching, _ = watched(table)
    assert [manifests_read(watching) for _ in range(2)] == [4, 0]
    watching.write(rows(table, events(3, 6, day="e")))
    assert manifests_read(watching) == 1


def test_a_small_manifest_is_read_for_each_plan(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest_columns, "LEAST_BLOCKS", 2)
    watching, _ = watched(table)
    assert [manifests_read(watching) for _ in range(2)] == [4, 4]


def test_manifests_that_were_used_last_are_kept_within_the_limit(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching, _ = watched(table)
    manifests_read(watching)
    files = watching.table_files
    kept = files.manifests.decoded
    assert kept is not None
    first, *others = kept.by_name
    sizes = [columns.size_bytes for columns in kept.by_name.values()]
    assert kept.size_bytes == sum(sizes)
    kept.find(first)
    monkeypatch.setattr(manifest_store, "_MOST_DECODED_BYTES", sum(sizes))
    kept.keep("another", kept.by_name[first])
    assert list(kept.by_name) == [*others[1:], first, "another"]
    assert kept.size_bytes <= sum(sizes)


def test_a_table_pickles_without_what_it_decoded(table: Table) -> None:
    table.scan()
    files = pickle.loads(pickle.dumps(table.table_files))
    assert files.schema == table.schema
    assert not files.manifests.decoded.by_name


def test_the_files_of_a_split_pickle_as_they_are(table: Table) -> None:
    for split in table.scan().splits:
        again = pickle.loads(pickle.dumps(split))
        assert again == split
        assert type(again.files) is tuple
        assert again.files[0] == split.files[0] == split.files[:1][0]
