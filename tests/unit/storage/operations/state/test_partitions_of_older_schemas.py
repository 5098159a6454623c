"""Entries of a schema with other partition keys: each is decoded by the keys of its own.

No verb changes partition keys yet, so the later schema is written by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.codec.binary_row import encode_row
from lakewright.storage.errors import SchemaMoved, UnsupportedError
from lakewright.storage.operations.commit import keys_gate
from lakewright.storage.operations.state.live_files import live_entries, snapshot_manifests
from lakewright.storage.spec.data_types import STRING
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.predicate import Leaf, Operator, Predicate
from tests.support.tables.builders import expire, new_table, remove_orphans, rows, values_of

COLUMNS = {"dt": "STRING", "region": "STRING", "v": "STRING"}
OLD = [{"dt": dt, "region": region, "v": f"{dt}{region}"} for dt in "ab" for region in "xy"]
NEW = [{"dt": "b", "region": "x", "v": "new"}, {"dt": "c", "region": "y", "v": "newer"}]


@pytest.fixture(autouse=True)
def _as_another_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits that do not ask which keys the base has, as those of other clients."""
    monkeypatch.setattr(keys_gate, "_has_keys", lambda *_: True)


def with_keys(catalog: Catalog, table: Table, keys: Sequence[str]) -> Table:
    """The table under one more schema, which has other partition keys."""
    schema = table.schema
    assert table.table_files.schemas.put_schema(
        replace(schema, id=schema.id + 1, partition_keys=tuple(keys))
    )
    return catalog.table(table.name)


@pytest.fixture(params=[{}, {"manifest.merge-min-count": "2"}], ids=["apart", "merged"])
def table(catalog: Catalog, request: pytest.FixtureRequest) -> Table:
    """Rows of two days under the key dt, then rows under dt and region."""
    first = new_table(catalog, COLUMNS, partitions=["dt"], options=request.param)
    first.write(rows(first, OLD))
    later = with_keys(catalog, first, ["dt", "region"])
    later.write(rows(later, NEW))
    return later


def live(table: Table) -> list[ManifestEntry]:
    return live_entries(table.table_files, table.table_files.snapshots.latest())


def equal(column: str, value: str) -> Predicate:
    return Leaf(column, Operator.EQ, (value,))


def test_an_entry_is_decoded_by_the_keys_of_its_own_schema(table: Table) -> None:
    found = [table.table_files.partitions.of_entry(entry) for entry in live(table)]
    assert [(each.schema_id, each.spec) for each in found] == [
        (0, {"dt": "a"}),
        (0, {"dt": "b"}),
        (1, {"dt": "b", "region": "x"}),
        (1, {"dt": "c", "region": "y"}),
    ]
    assert [each.path for each in found] == ["dt=a", "dt=b", "dt=b/region=x", "dt=c/region=y"]
    for entry in live(table):
        assert Path(table.table_files.data_file_path(entry.place, entry.file)).is_file()


def test_each_partition_is_decoded_once(table: Table) -> None:
    first, second = (
        [table.table_files.partitions.of_entry(each) for each in live(table)] for _ in "12"
    )
    assert all(left is right for left, right in zip(first, second, strict=True))


def test_rows_of_both_schemas_are_read(table: Table) -> None:
    assert sorted(values_of(table, "v")) == ["ax", "ay", "bx", "by", "new", "newer"]


@pytest.mark.parametrize(
    ("where", "expected", "files"),
    [
        (equal("dt", "b"), ["bx", "by", "new"], 2),
        (equal("dt", "c"), ["newer"], 1),
        # The key dt alone does not say which old file holds a region.
        (equal("region", "x"), ["ax", "bx", "new"], 3),
        (equal("region", "none"), [], 2),
    ],
)
def test_a_filter_prunes_by_the_keys_that_each_file_has(
    table: Table, where: Predicate, expected: list[str], files: int
) -> None:
    assert sorted(values_of(table, "v", where=where)) == expected
    kept = live_entries(table.table_files, table.table_files.snapshots.latest(), predicate=where)
    assert len(kept) == files


def test_a_manifest_holds_entries_of_the_same_keys(table: Table) -> None:
    latest = table.table_files.snapshots.latest()
    assert latest is not None
    for meta in snapshot_manifests(table.table_files, latest):
        keys = table.table_files.partitions.keys_of_manifest(meta)
        found = {
            table.table_files.partitions.of_entry(entry).keys.names
            for entry in table.table_files.manifests.read_listed(meta)
        }
        assert found == {keys.names}


def test_partitions_of_both_schemas_are_counted_apart(table: Table) -> None:
    assert [(each.spec, each.row_count) for each in table.at().partitions()] == [
        ({"dt": "a"}, 2),
        ({"dt": "b"}, 2),
        ({"dt": "b", "region": "x"}, 1),
        ({"dt": "c", "region": "y"}, 1),
    ]


def test_an_overwrite_of_a_key_that_all_have_replaces_both(table: Table) -> None:
    given = rows(table, [{"dt": "b", "region": "z", "v": "only"}])
    table.write(given, mode="overwrite", partition={"dt": "b"}, dynamic=False)
    assert sorted(values_of(table, "v")) == ["ax", "ay", "newer", "only"]


def test_an_overwrite_of_a_key_that_some_lack_is_refused(table: Table) -> None:
    before = table.table_files.snapshots.latest_id()
    given = rows(table, [{"dt": "b", "region": "x", "v": "only"}])
    with pytest.raises(UnsupportedError, match="was written under the keys dt; overwrite by keys"):
        table.write(given, mode="overwrite", partition={"region": "x"}, dynamic=False)
    assert table.table_files.snapshots.latest_id() == before


def test_what_expires_and_what_is_lost_is_found_in_folders_of_both_keys(table: Table) -> None:
    lost = [
        Path(table.table_files.bucket_dir(entry.place, entry.file.schema_id), "data-lost-0.parquet")
        for entry in live(table)
    ]
    for path in lost:
        path.write_bytes(b"lost")
    remove_orphans(table)
    assert not any(path.exists() for path in lost)
    old = [Path(table.table_files.data_file_path(each.place, each.file)) for each in live(table)]
    table.write(rows(table, NEW), mode="overwrite", dynamic=False)
    expire(table)
    assert not any(path.exists() for path in old)
    assert sorted(values_of(table, "v")) == ["new", "newer"]


def test_an_entry_restated_under_later_keys_has_those(table: Table) -> None:
    old = live(table)[0]
    row = table.table_files.partitions.of_values(("a", None)).row
    restated = table.table_files.partitions.of_entry(replace(old, partition=row))
    assert old.file.schema_id == 0
    assert restated.spec == {"dt": "a", "region": None}


def test_a_row_with_more_values_than_keys_is_of_its_first_ones(table: Table) -> None:
    """So the rows are while keys come or go."""
    row = encode_row(("a", "b", "c"), (STRING, STRING, STRING))
    partition = table.table_files.partitions.of_entry(replace(live(table)[0], partition=row))
    assert partition.spec == {"dt": "a"}


def test_a_row_with_fewer_values_than_any_keys_is_refused(table: Table) -> None:
    row = encode_row((), ())
    with pytest.raises(SchemaMoved, match=r"has 0 values, and the keys were dt"):
        table.table_files.partitions.of_entry(replace(live(table)[0], partition=row))


def test_keys_that_the_table_no_longer_has_are_read_too(catalog: Catalog) -> None:
    first = new_table(catalog, COLUMNS, partitions=["dt"])
    first.write(rows(first, OLD))
    table = with_keys(catalog, first, [])
    table.write(rows(table, NEW))
    assert sorted(values_of(table, "v")) == ["ax", "ay", "bx", "by", "new", "newer"]
    assert sorted(values_of(table, "v", where=equal("dt", "b"))) == ["bx", "by", "new"]
    # A listing names partitions by the keys of today.
    assert [(each.spec, each.row_count) for each in table.at().partitions()] == [({}, 6)]
