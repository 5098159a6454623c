"""Manifests that are cut short, garbage or something else: told by name, and nothing is lost."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import fastavro
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import StorageError, UnreadableManifest
from tests.support.tables.builders import (
    compact,
    content,
    events,
    expire,
    new_table,
    remove_orphans,
    replacing,
    rows,
)
from tests.support.tally import tally


def files_on_disk(table: Table) -> dict[str, bytes]:
    root = Path(table.table_files.paths.root)
    return {str(each): each.read_bytes() for each in root.rglob("*") if each.is_file()}


def manifests_of(table: Table, snapshot_id: int) -> list[Path]:
    """Everything of a snapshot that is read as a manifest, its lists first."""
    snapshot = table.table_files.snapshots.read(snapshot_id)
    names = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
    names += [meta.file_name for meta in table.table_files.manifests.read_state_lists(snapshot)]
    names += [snapshot.index_manifest] if snapshot.index_manifest else []
    return [Path(table.table_files.paths.manifest(name)) for name in names]


def other_avro() -> bytes:
    buffer = io.BytesIO()
    schema = {"type": "record", "name": "other", "fields": [{"name": "x", "type": "int"}]}
    fastavro.writer(buffer, fastavro.parse_schema(schema), [{"x": 1}])
    return buffer.getvalue()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "garbage": lambda data: b"\x00garbage" * 40,
    "another schema": lambda data: other_avro(),
    "cut short": lambda data: data[: len(data) // 2],
    "its end is missing": lambda data: data[:-17],
    "a bit of a block flipped": lambda data: data[:-30] + bytes([data[-30] ^ 255]) + data[-29:],
}


@pytest.mark.parametrize("damage", list(DAMAGES))
def test_a_manifest_that_cannot_be_decoded_is_named_with_the_table_and_a_way_out(
    unchecked_catalog: Catalog, damage: str
) -> None:
    table = replacing(unchecked_catalog, deletion_vectors__enabled="true")
    for path in manifests_of(table, 6):
        whole = path.read_bytes()
        path.write_bytes(DAMAGES[damage](whole))
        with pytest.raises(UnreadableManifest) as told:
            table.read()
        assert path.name in told.value.message
        assert "db.t" in told.value.message
        assert "restore it from a copy, or roll back" in told.value.message
        path.write_bytes(whole)
    assert table.read().num_rows == 3


@pytest.mark.parametrize("damage", ["garbage", "cut short", "gone"])
def test_nothing_is_deleted_while_a_manifest_that_stays_cannot_be_read(
    unchecked_catalog: Catalog, damage: str
) -> None:
    table = replacing(unchecked_catalog, deletion_vectors__enabled="true")
    table.history.create_tag("t", snapshot=3)
    paths = {*manifests_of(table, 6), *manifests_of(table, 3)}
    tried = 0
    for path in sorted(paths):
        whole = path.read_bytes()
        if damage == "gone":
            path.unlink()
        else:
            path.write_bytes(DAMAGES[damage](whole))
        before = files_on_disk(table)
        for verb in (expire, remove_orphans):
            with pytest.raises(UnreadableManifest, match=path.name):
                verb(table)
            assert files_on_disk(table) == before
            tried += 1
        path.write_bytes(whole)
    expire(table)
    remove_orphans(table)
    assert table.read().num_rows == table.at(tag="t").read().num_rows == 3
    tally("damaged manifests tried", tried)


def test_a_commit_on_a_damaged_list_leaves_nothing_behind(unchecked_catalog: Catalog) -> None:
    table = replacing(unchecked_catalog, deletion_vectors__enabled="true")
    latest = table.history.latest_snapshot()
    assert latest is not None
    path = Path(table.table_files.paths.manifest(latest.delta_manifest_list))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    before = set(files_on_disk(table))
    with pytest.raises(StorageError, match="bytes where its snapshot says"):
        table.write(rows(table, events(5, 6)))
    assert set(files_on_disk(table)) == before
    path.write_bytes(whole)
    table.write(rows(table, events(5, 6)))
    compact(table, full=True)
    assert table.read().num_rows == 4


def test_a_manifest_cut_short_between_two_blocks_is_told(unchecked_catalog: Catalog) -> None:
    table = new_table(unchecked_catalog)
    table.write(rows(table, events(0, 3)))
    latest = table.history.latest_snapshot()
    assert latest is not None
    (meta,) = table.table_files.manifests.read_delta_list(latest)
    path = Path(table.table_files.paths.manifest(meta.file_name))
    reader = fastavro.reader(io.BytesIO(path.read_bytes()))
    buffer = io.BytesIO()
    fastavro.writer(buffer, reader.writer_schema, [])
    path.write_bytes(buffer.getvalue())
    with pytest.raises(UnreadableManifest, match="holds 0 entries where its list says 1"):
        table.read()


@pytest.mark.parametrize("damage", ["garbage", "cut short", "empty"])
def test_what_only_an_unreadable_manifest_could_prove_stays_and_expiry_goes_on(
    unchecked_catalog: Catalog, damage: str
) -> None:
    table = replacing(unchecked_catalog, deletion_vectors__enabled="true")
    staying = set(manifests_of(table, 6))
    before = content(table)
    going = next(each for each in manifests_of(table, 2)[1:] if each not in staying)
    going.write_bytes(DAMAGES[damage](going.read_bytes()))
    plan = table.upkeep.plan_expire_snapshots(retain_min=1, retain_max=1, grace_ms=0)
    assert any(f"{going.name} cannot be read, so files" in each for each in plan.reasons)
    table.upkeep.run(plan)
    assert [each.id for each in table.history.snapshots()] == [6]
    assert content(table) == before
    # What stayed behind is an orphan like any other.
    remove_orphans(table)
    left = {path for path in files_on_disk(table) if "bucket-0/" in path}
    assert len(left) == len(table.at().files())
    assert content(table) == before


def test_a_branch_whose_manifests_others_deleted_is_named_and_once_deleted_expiry_goes_on(
    unchecked_catalog: Catalog,
) -> None:
    table = new_table(unchecked_catalog)
    table.write(rows(table, events(0, 1)))
    branch = table.history.create_branch("side", snapshot=1)
    branch.write(rows(branch, events(1, 2)))
    lost = manifests_of(branch, 2)[1]
    table.history.fast_forward("side")
    table = unchecked_catalog.table("db.t")
    for number in (2, 3):
        table.write(rows(table, events(number, number + 1)))
    # As Java expires main, which looks at no branch.
    for path in (lost, *(Path(table.table_files.paths.snapshot(each)) for each in (1, 2))):
        path.unlink()
    before = files_on_disk(table)
    with pytest.raises(UnreadableManifest, match=lost.name) as told:
        expire(table)
    assert "`lakewright branch delete db.t side`" in told.value.message
    assert files_on_disk(table) == before
    table.history.delete_branch("side")
    expire(table)
    assert [each.id for each in table.history.snapshots()] == [4]
    assert table.read().num_rows == 4
