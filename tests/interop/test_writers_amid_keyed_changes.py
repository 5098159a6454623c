"""Another client updates rows of a primary-key table whose change of keys was stopped part-way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import UnsupportedError
from tests.interop.test_they_read_ours import as_read_by
from tests.oracles.client import LatestJavaOracle, WritingOracle
from tests.support.stores.watched_files import Call, Crashed, Fault, WatchedFiles
from tests.support.tables.builders import compact, content, new_table, remove_orphans, rows
from tests.support.tables.invariants import assert_only_reachable_files

COLUMNS = {"dt": "STRING NOT NULL", "hh": "INT NOT NULL", "id": "BIGINT NOT NULL", "v": "STRING"}


_REFUSED = "another client committed rows meanwhile"


def _is_step(call: Call) -> bool:
    return call.changes and ("/snapshot/snapshot-" in call.path or "/schema/schema-" in call.path)


def stopped(catalog: Catalog, table: Table, keys: tuple[str, ...], step: int) -> bool:
    fs = WatchedFiles(catalog.fs, fail_at=step, fault=Fault.DIES_AFTER, counts=_is_step)
    try:
        replace(catalog, fs=fs).table(table.name).upkeep.respec(keys)
    except Crashed:
        return True
    return False


def _given(ids: Iterable[int], value: str, model: dict[int, str]) -> list[dict[str, object]]:
    """Rows with a value, which the model of values by id gets too."""
    given = list(ids)
    model.update(dict.fromkeys(given, value))
    return [{"dt": "a", "hh": 1, "id": each, "v": value} for each in given]


def _reads_right_or_refuses(table: Table, model: dict[int, str]) -> bool:
    """Whether a read is not refused; then each key is there once, with its last value."""
    try:
        found = table.read().to_pylist()
    except UnsupportedError as refused:
        if _REFUSED not in str(refused):
            raise
        return False
    assert sorted((each["id"], each["v"]) for each in found) == sorted(model.items())
    return True


@pytest.mark.mission("PT1")
@pytest.mark.parametrize(("before", "after"), [(("dt",), ("dt", "hh")), (("dt", "hh"), ("dt",))])
@pytest.mark.parametrize("buckets", ["1", "3"])
@pytest.mark.sampled(2)
def test_rows_that_a_client_updates_amid_a_stopped_change_win(
    catalog: Catalog,
    released_pypaimon: WritingOracle,
    before: tuple[str, ...],
    after: tuple[str, ...],
    buckets: str,
) -> None:
    """It opens the table anew, and does not find the rows of the change in its buckets."""
    refused = 0
    for step in range(1, 20):
        table = new_table(
            catalog,
            COLUMNS,
            name=f"db.t{step}",
            partitions=before,
            keys=("dt", "hh", "id"),
            options={"bucket": buckets},
        )
        model: dict[int, str] = {}
        for value in ("old", "older"):
            table.write(rows(table, _given(range(12), value, model)))
        died = stopped(catalog, table, after, step)
        released_pypaimon.write(catalog.root, table.name, _given(range(6), "new", model))
        table = catalog.table(table.name)
        refused += not _reads_right_or_refuses(table, model)
        table.write(rows(table, _given([11], "last", model)))
        catalog.table(table.name).upkeep.respec(after)
        table = catalog.table(table.name)
        found = {each["id"]: each["v"] for each in table.read().to_pylist()}
        assert (found, len(content(table))) == (model, len(model)), step
        assert as_read_by(released_pypaimon, catalog, table) == content(table), step
        remove_orphans(table)
        if not died:
            # Between the first snapshot of the change and its last one.
            assert 1 <= refused <= 3
            return
    raise AssertionError("the change has more steps than were tried")


# Java compacts as soon as a bucket has two files. Numbers of a change are seen in bucket 0 alone.
_COMPACTS = {
    "bucket": "3",
    "num-sorted-run.compaction-trigger": "2",
    "snapshot.num-retained.min": "100",
    "snapshot.num-retained.max": "100",
}
# The bridged snapshots, and the schema: 2 leaves the former keys, 3 has the new ones.
_AMID = [(("dt",), ("dt", "hh"), 2), (("dt",), ("dt", "hh"), 3), (("dt", "hh"), ("dt",), 5)]


def _amid(catalog: Catalog, before: tuple[str, ...], after: tuple[str, ...], step: int) -> Table:
    """A table of twelve old rows whose change of keys died at a step."""
    table = new_table(
        catalog, COLUMNS, partitions=before, keys=("dt", "hh", "id"), options=_COMPACTS
    )
    for value in ("old", "older"):
        table.write(rows(table, _given(range(12), value, {})))
    assert stopped(catalog, table, after, step)
    return catalog.table(table.name)


def _ended(catalog: Catalog, table: Table, after: tuple[str, ...]) -> list[tuple[int, str]]:
    """The rows after our next commit and the change; a compaction leaves them as they are."""
    table.write(rows(table, _given([11], "last", {})))
    catalog.table(table.name).upkeep.respec(after)
    table = catalog.table(table.name)
    due = content(table)
    compact(table, full=True)
    table = catalog.table(table.name)
    assert content(table) == due
    remove_orphans(table)
    assert_only_reachable_files(table)
    return sorted((each["id"], each["v"]) for each in table.read().to_pylist())


@pytest.mark.mission("PT1")
@pytest.mark.parametrize(("before", "after", "step"), _AMID)
def test_what_a_client_deletes_and_compacts_amid_a_stopped_change_stays_deleted(
    catalog: Catalog,
    java_latest: LatestJavaOracle,
    before: tuple[str, ...],
    after: tuple[str, ...],
    step: int,
) -> None:
    """Its compaction drops deletions, and writes to the level of the rows that it did not find."""
    table = _amid(catalog, before, after, step)
    model = dict.fromkeys(range(12), "older")
    java_latest.write(catalog.root, table.name, _given(range(6), "new", model))
    gone = _given((2, 9), "gone", {})
    java_latest.write(catalog.root, table.name, gone, kinds=["-D", "-D"])
    for number in range(2):
        again = _given((4, 5), f"again {number}", model)
        java_latest.write(catalog.root, table.name, again)
    table = catalog.table(table.name)
    assert java_latest.snapshots(catalog.root, table.name)[-1]["commitKind"] == "COMPACT"
    with pytest.raises(UnsupportedError, match=_REFUSED) as refused:
        table.read()
    assert f"--keys '{','.join(table.schema.partition_keys)}'" in str(refused.value)
    del model[2], model[9]
    model[11] = "last"
    assert _ended(catalog, table, after) == sorted(model.items())
    table = catalog.table(table.name)
    assert as_read_by(java_latest, catalog, table) == content(table)


@pytest.mark.mission("PT1")
@pytest.mark.parametrize(("before", "after", "step"), _AMID)
def test_later_rows_of_a_client_win_though_it_altered_the_table_amid_a_stopped_change(
    catalog: Catalog,
    released_pypaimon: WritingOracle,
    before: tuple[str, ...],
    after: tuple[str, ...],
    step: int,
) -> None:
    """Its files of two schemas keep their order as they get higher numbers."""
    table = _amid(catalog, before, after, step)
    model = dict.fromkeys(range(12), "older")
    client = released_pypaimon
    client.write(catalog.root, table.name, _given(range(6), "new", model))
    client.alter(catalog.root, table.name, {"add_column": "more", "type": "INT"})
    client.write(catalog.root, table.name, _given([3, 4, 5], "newer", model))
    model[11] = "last"
    assert _ended(catalog, catalog.table(table.name), after) == sorted(model.items())
    table = catalog.table(table.name)
    assert as_read_by(client, catalog, table) == content(table)
