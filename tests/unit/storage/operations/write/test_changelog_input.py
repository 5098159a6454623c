"""Changelog producer input: writers keep all rows they were given, beside what became of them."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import UnavailableError
from lakewright.storage.files.data_files import read_rows
from lakewright.storage.spec.manifest import ManifestEntry
from tests.support.stores.watched_files import watched
from tests.support.tables.builders import (
    compact,
    content,
    events,
    expire,
    new_table,
    rows,
    values_of,
)
from tests.support.tables.invariants import assert_only_reachable_files


def telling(catalog: Catalog, **options: str) -> Table:
    settings = {"bucket": "1", "changelog-producer": "input", **options}
    return new_table(catalog, partitions=["day"], keys=["day", "id"], options=settings)


def changelog_entries(table: Table) -> list[ManifestEntry]:
    """Changelog files of the latest snapshot."""
    snapshot = table.history.latest_snapshot()
    assert snapshot is not None
    if snapshot.changelog_manifest_list is None:
        return []
    manifests = table.table_files.manifests
    return list(manifests.entries(manifests.read_list(snapshot.changelog_manifest_list)))


def told(table: Table) -> list[tuple[Any, ...]]:
    """Rows of the latest snapshot's changelog files: kind, sequence number, id, value."""
    found = []
    names = ["_VALUE_KIND", "_SEQUENCE_NUMBER", "id", "v"]
    for entry in changelog_entries(table):
        path = table.table_files.data_file_path(entry.place, entry.file)
        for part in read_rows(table.table_files.fs, path, names):
            found += [tuple(row.values()) for row in part.to_pylist()]
    return found


def test_every_row_is_kept_in_merge_order_before_it_is_merged(catalog: Catalog) -> None:
    table = telling(catalog)
    given = [*events(2, 3), *events(1, 2), *events(1, 2, v="w"), *events(2, 3, v="x")]
    table.write(rows(table, given, ["+I", "+I", "+U", "-D"]))
    assert told(table) == [(0, 1, 1, "v1"), (2, 2, 1, "w1"), (0, 0, 2, "v2"), (3, 3, 2, "x2")]
    assert values_of(table, "v") == ["w1"]
    (entry,) = changelog_entries(table)
    assert entry.file.file_name.startswith("changelog-")
    assert (entry.file.level, entry.file.row_count, entry.file.delete_row_count) == (0, 4, 1)
    snapshot = table.history.latest_snapshot()
    assert snapshot is not None
    assert snapshot.changelog_record_count == 4
    assert snapshot.total_record_count == 2


def test_rows_that_the_table_ignores_are_not_told(catalog: Catalog) -> None:
    table = telling(catalog, **{"ignore-delete": "true"})
    table.write(rows(table, [*events(0, 2), *events(0, 1)], ["+I", "+I", "-D"]))
    assert [(kind, key) for kind, _, key, _ in told(table)] == [(0, 0), (0, 1)]
    assert values_of(table, "v") == ["v0", "v1"]


def test_an_overwrite_tells_nothing(catalog: Catalog) -> None:
    table = telling(catalog)
    table.write(rows(table, events(0, 3)))
    table.write(rows(table, events(5, 6)), mode="overwrite")
    assert changelog_entries(table) == []
    assert_only_reachable_files(table)


def test_neither_a_compaction_nor_a_rescale_tells_anything(catalog: Catalog) -> None:
    table = telling(catalog)
    for number in range(3):
        table.write(rows(table, events(0, 3, v=str(number))))
    before = content(table)
    compact(table, full=True)
    assert changelog_entries(table) == []
    table.upkeep.run(table.upkeep.plan_rescale(2))
    assert changelog_entries(table) == []
    assert content(table) == before


def test_rows_are_told_under_the_prefix_that_the_table_names(catalog: Catalog) -> None:
    table = telling(catalog, **{"changelog-file.prefix": "told-"})
    table.write(rows(table, events(0, 2)))
    (entry,) = changelog_entries(table)
    assert entry.file.file_name.startswith("told-")


def test_changelog_files_go_with_their_snapshot(catalog: Catalog) -> None:
    table = telling(catalog)
    for number in range(4):
        table.write(rows(table, events(0, 3, v=str(number))))
    expire(table)
    paths = [status.path for status in table.table_files.fs.list_tree(table.table_files.paths.root)]
    assert sum("/changelog-" in path for path in paths) == 1


def test_a_write_that_is_given_up_or_fails_leaves_no_changelog(catalog: Catalog) -> None:
    table = telling(catalog)
    new = rows(table, [*events(0, 3), *events(0, 3, day="b")])
    staged = table.stage(new)
    assert table.abort(staged) == 4
    assert_only_reachable_files(table)
    for fail_at in (1, 2, 3, 4):
        broken, _ = watched(table, fail_at=fail_at, counts=lambda call: call.name == "open_output")
        with pytest.raises(UnavailableError):
            broken.write(new)
        assert_only_reachable_files(table)


def test_an_append_table_has_no_changelog_of_its_own(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    assert changelog_entries(table) == []
