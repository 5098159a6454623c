"""Which manifests hold what others delete: found by names, and few are opened for it."""

from __future__ import annotations

from pathlib import Path

from lakewright.storage import Catalog, Table
from lakewright.storage.operations.state.deleted_names import may_hold_deleted
from lakewright.storage.operations.state.live_files import snapshot_manifests
from tests.support.stores.watched_files import watched
from tests.support.tables.builders import compact, events, new_table, rows


def of_days(catalog: Catalog) -> Table:
    table = new_table(
        catalog, partitions=["day"], options={"manifest.merge-min-count": "100", "bucket": "-1"}
    )
    for day in "abcb":
        table.write(rows(table, events(0, 2, day=day)))
    return table


def test_manifests_that_add_a_deleted_file_are_told_and_others_are_not_opened(
    catalog: Catalog,
) -> None:
    table = of_days(catalog)
    compact(table, [{"day": "b"}], full=True)
    watching, _ = watched(table)
    files, snapshot = watching.table_files, table.history.latest_snapshot()
    assert snapshot is not None
    metas = snapshot_manifests(files, snapshot)
    calls = files.fs.calls  # type: ignore[attr-defined] # of a watched table
    before = len(calls)

    may_hold = may_hold_deleted(files, metas)

    assert [may_hold(meta) for meta in metas] == [False, True, False, True, True]
    opened = {Path(call.path).name for call in calls[before:] if call.name == "read_bytes"}
    assert opened == {metas[each].file_name for each in (1, 3, 4)}


def test_without_deletions_no_manifest_is_opened(catalog: Catalog) -> None:
    table = of_days(catalog)
    watching, _ = watched(table)
    snapshot = table.history.latest_snapshot()
    assert snapshot is not None
    metas = snapshot_manifests(table.table_files, snapshot)
    may_hold = may_hold_deleted(watching.table_files, metas)
    assert not any(map(may_hold, metas))
    assert not watching.table_files.fs.calls  # type: ignore[attr-defined] # of a watched table
