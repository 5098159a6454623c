"""How many calls of the store an ordinary write and an ordinary plan take."""

from __future__ import annotations

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.files import manifest_store
from tests.support.stores.watched_files import WatchedFiles, watched
from tests.support.tables.builders import events, new_table, rows, with_options

pytestmark = pytest.mark.parametrize("any_catalog", ["memory"], indirect=True)


def table_of(catalog: Catalog, *, keyed: bool) -> Table:
    """Four commits to one partition of one bucket."""
    kind = {"keys": ("id", "day"), "options": {"bucket": "1"}} if keyed else {}
    table = new_table(catalog, partitions=("day",), **kind)
    for number in range(4):
        table.write(rows(table, events(number, number + 2)))
    return table


def manifests_read(fs: WatchedFiles) -> list[str]:
    return [call.path for call in fs.calls if call.name == "read_bytes" and "manifest" in call.path]


@pytest.mark.parametrize(("keyed", "calls"), [(False, 24), (True, 28)], ids=["append", "upsert"])
def test_a_write_reads_no_manifest_twice(any_catalog: Catalog, keyed: bool, calls: int) -> None:
    table, fs = watched(table_of(any_catalog, keyed=keyed))
    table.write(rows(table, events(7, 9)))
    read = manifests_read(fs)
    assert len(read) == (6 if keyed else 2)
    assert len(set(read)) == len(read)
    assert len(fs.calls) == calls, [str(call) for call in fs.calls]


def test_a_plan_takes_nine_calls(any_catalog: Catalog) -> None:
    table, fs = watched(table_of(any_catalog, keyed=True))
    assert table.scan().plan.files_live == 4
    assert len(fs.calls) == 9, [str(call) for call in fs.calls]


def test_a_plan_with_a_fallback_branch_reads_no_manifest_twice(any_catalog: Catalog) -> None:
    table = table_of(any_catalog, keyed=False)
    branch = table.history.create_branch("b", snapshot=1)
    branch.write(rows(branch, events(5, 6, day="b")))
    table, fs = watched(with_options(table, scan__fallback_branch="b"))
    assert table.scan().plan.files_live == 6
    ours = [path for path in manifests_read(fs) if path not in manifests_of(branch)]
    assert len(ours) == 5
    assert len(set(ours)) == len(ours)


def manifests_of(table: Table) -> set[str]:
    seen, fs = watched(table)
    seen.scan().plan  # noqa: B018  # planning reads
    return set(manifests_read(fs))


def test_manifests_beyond_the_limit_are_read_again(
    any_catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, fs = watched(table_of(any_catalog, keyed=True))
    monkeypatch.setattr(manifest_store, "_MOST_KEPT_BYTES", 0)
    table.write(rows(table, events(7, 9)))
    read = manifests_read(fs)
    assert len(read) > len(set(read)) > 1
