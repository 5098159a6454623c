"""Partitions are listed once, with their true sums, at each state of a change of partition keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.table_at import TableAt
from tests.support.stores.watched_files import Call, Crashed, Fault, WatchedFiles
from tests.support.tables.builders import new_table, rows
from tests.support.tables.late_commits import commit_late

COLUMNS = {"dt": "STRING NOT NULL", "hh": "INT NOT NULL", "id": "BIGINT NOT NULL", "v": "STRING"}
KEYED = ("dt", "hh", "id")
LAYOUTS: dict[str, dict[str, Any]] = {
    "append": {},
    "append in buckets": {"options": {"bucket": "2", "bucket-key": "v"}},
    "keyed": {"keys": KEYED, "options": {"bucket": "2"}},
    "dynamic": {"keys": KEYED, "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "4"}},
}
CHANGES = {
    "keys come": (("dt",), ("dt", "hh")),
    "all keys come": ((), ("dt", "hh")),
    "keys go": (("dt", "hh"), ("dt",)),
    "all keys go": (("dt", "hh"), ()),
    "a key is replaced": (("dt", "hh"), ("dt", "id")),
    "keys are swapped": (("dt", "hh"), ("hh", "dt")),
}
Row = dict[str, Any]


def given(write: int) -> list[Row]:
    return [
        {"dt": dt, "hh": hh, "id": 10 * write + number, "v": f"{number}"}
        for dt in "abc"
        for hh in (1, 2)
        for number in (1, 2)
    ]


def filled(catalog: Catalog, keys: Sequence[str], layout: str) -> tuple[Table, list[Row]]:
    table = new_table(catalog, COLUMNS, partitions=keys, **LAYOUTS[layout])
    for write in (0, 1):
        table.write(rows(table, given(write)))
    return table, [*given(0), *given(1)]


def is_step(call: Call) -> bool:
    return call.changes and ("/snapshot/snapshot-" in call.path or "/schema/schema-" in call.path)


def stopped(catalog: Catalog, table: Table, keys: Sequence[str], step: int) -> bool:
    """Whether the process that changes the keys died after so many snapshots and schemas."""
    fs = WatchedFiles(catalog.fs, fail_at=step, fault=Fault.DIES_AFTER, counts=is_step)
    with suppress(Crashed):
        replace(catalog, fs=fs).table(table.name).upkeep.respec(keys)
        return False
    return True


def sums(state: TableAt) -> dict[tuple[object, ...], int]:
    """Rows of each listed partition, which is listed once."""
    found = state.partitions()
    keys = state.schema.partition_keys
    listed = [tuple(each.spec[key] for key in keys) for each in found]
    assert sorted(map(repr, set(listed))) == sorted(map(repr, listed))
    return dict(zip(listed, (each.row_count for each in found), strict=True))


def check_state(state: TableAt, held: Sequence[Row]) -> None:
    keys = state.schema.partition_keys
    due = Counter(tuple(row[key] for key in keys) for row in held)
    assert sums(state) == due
    found, entries = state.partitions(), state.files()
    assert sum(each.file_count for each in found) == len(entries)
    assert sum(each.size_bytes for each in found) == sum(each.file.file_size for each in entries)
    for each in found:
        numbers = [bucket.bucket for bucket in each.buckets]
        assert len(numbers) == len({*numbers})
        assert sum(bucket.row_count for bucket in each.buckets) == each.row_count
    told = state.inspect.table("partitions").to_pylist()
    assert sorted(row["record_count"] for row in told) == sorted(due.values())
    properties = state.partition_properties()
    assert [spec for spec, _ in properties] == [each.spec for each in found]
    assert all(each.formats for _, each in properties)
    if "dt" in keys:
        chosen = [each for each in found if each.spec["dt"] == "b"]
        assert list(state.partitions("dt = 'b'")) == chosen
        assert list(state.partitions(named=[{"dt": "b"}])) == chosen
    if "hh" in keys:
        assert list(state.partitions("hh = 2")) == [e for e in found if e.spec["hh"] == 2]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_partitions_are_listed_once_with_their_sums_at_each_state_of_a_change(
    catalog: Catalog, layout: str, change: str
) -> None:
    before, after = CHANGES[change]
    for step in range(1, 20):
        table, held = filled(catalog, before, layout)
        died = stopped(catalog, table, after, step)
        table = catalog.table(table.name)
        check_state(table.at(), held)
        latest = table.at().snapshot
        assert latest is not None
        # The first snapshots are the writes.
        for snapshot in range(2, latest.id + 1):
            check_state(table.at(snapshot=snapshot), held)
        assert table.inspect.layout().partitions == len(sums(table.at()))
        catalog.drop_table(table.name)
        if not died:
            return
    raise AssertionError("the change has more steps than were tried")


@pytest.mark.parametrize("layout", ["append", "keyed"])
@pytest.mark.parametrize("change", ["keys go", "all keys go"])
def test_late_files_of_finer_keys_count_for_the_partitions_that_these_became(
    catalog: Catalog, layout: str, change: str
) -> None:
    before, after = CHANGES[change]
    opened, held = filled(catalog, before, layout)
    staged = opened.stage(rows(opened, given(2)))
    opened.upkeep.respec(after)
    commit_late(opened, staged)
    check_state(catalog.table(opened.name).at(), [*held, *given(2)])
    # Readers refuse late rows of a primary-key table until this moves them.
    catalog.table(opened.name).upkeep.respec(after)
    check_state(catalog.table(opened.name).at(), [*held, *given(2)])
