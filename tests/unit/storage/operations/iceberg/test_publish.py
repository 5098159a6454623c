"""Iceberg metadata: who publishes it, what it names, and what it never names."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from lakewright.storage import AddColumn, Catalog, ChangeType, RenameColumn, Table
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.operations.iceberg.metadata_files import MetadataFiles, versions_of
from tests.support.stores.watched_files import (
    Call,
    Crashed,
    Fault,
    WatchedFiles,
    interrupted,
    looked_at,
    over,
    overtaken,
    watched,
)
from tests.support.tables.builders import ANY_LOSS, compact, events, expire, new_table, rows
from tests.support.tables.iceberg import (
    assert_seen_alike,
    comparable_rows,
    grow_older,
    iceberg_rows,
    opened,
    shown_rows,
)

PUBLISHED = {"metadata.iceberg.storage": "table-location"}


def published(catalog: Catalog, **given: Any) -> Table:
    options = {**PUBLISHED, **given.pop("options", {})}
    return new_table(catalog, options=options, **given)


def write(table: Table, first: int, last: int, **given: Any) -> None:
    table.write(rows(table, events(first, last, **given)))


def seen(table: Table) -> list[int]:
    return [each.snapshot_id for each in opened(table).snapshots()]


def metadata(table: Table) -> list[str]:
    return sorted(each.name for each in MetadataFiles.of(table.table_files).listed())


def is_metadata(call: Call) -> bool:
    return "/metadata/" in call.path and call.changes


# --- who publishes --------------------------------------------------------------------------------


def test_each_commit_of_a_table_with_the_option_is_published(catalog: Catalog) -> None:
    table = published(catalog, partitions=["day"])
    for number in range(3):
        write(table, number, number + 2, day="ab"[number % 2])
    compact(table, full=True)
    table.delete("id = 1")
    assert seen(table) == [1, 2, 3, 4, 5]
    assert_seen_alike(table)


def test_the_verb_publishes_a_table_without_the_option_and_then_has_nothing_to_do(
    catalog: Catalog,
) -> None:
    table = new_table(catalog)
    write(table, 0, 3)
    write(table, 3, 5)
    assert not metadata(table)
    plan = table.upkeep.plan_publish_iceberg()
    assert (plan.seen_id, plan.latest_id, plan.waiting) == (None, 2, 2)
    assert table.upkeep.run(plan).snapshots_published == 2
    assert_seen_alike(table)
    write(table, 5, 6)
    assert seen(table) == [1, 2]
    assert table.upkeep.publish_iceberg().snapshot_id == 3
    assert table.upkeep.publish_iceberg().snapshot_id is None
    assert_seen_alike(table)


def test_a_commit_writes_what_it_changed_and_names_the_manifests_before(catalog: Catalog) -> None:
    table = published(catalog, partitions=["day"])
    table.write(rows(table, [row for d in range(40) for row in events(d, d + 1, day=f"d{d}")]))
    before = set(metadata(table))
    write(table, 90, 91, day="d0")
    new = set(metadata(table)) - before
    assert sorted(name.rpartition(".")[2] for name in new) == ["avro", "avro", "json"]
    manifests = opened(table).current_snapshot().manifests(opened(table).io)  # type: ignore[union-attr]
    assert [each.added_files_count for each in manifests] == [40, 1]


@pytest.mark.sampled(each="at")
@pytest.mark.parametrize("fault", [Fault.DIES_BEFORE, Fault.DIES_AFTER, Fault.FAILS_BEFORE])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
@pytest.mark.parametrize("caught_up_by", ["commit", "verb"])
def test_a_publication_that_fails_leaves_a_commit_that_is_published_later(
    catalog: Catalog, fault: Fault, at: int, caught_up_by: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = published(catalog)
    write(table, 0, 2)
    failing, fs = watched(table, fail_at=at, fault=fault, counts=is_metadata)
    if fault.is_death:
        with pytest.raises(Crashed):
            write(failing, 2, 4)
    else:
        write(failing, 2, 4)
        assert "Iceberg metadata is behind" in caplog.text
        assert "lakewright publish-iceberg db.t" in caplog.text
    assert fs.failed is not None
    assert table.read().num_rows == 4
    # Whatever version readers find, they can read it.
    found = MetadataFiles.of(table.table_files)
    path = found.version_path(max(versions_of(found.listed())))
    assert StaticTable.from_metadata(path).scan().to_arrow().num_rows in (2, 4)
    if caught_up_by == "commit":
        write(table, 4, 5)
    else:
        table.upkeep.publish_iceberg()
    assert_seen_alike(table)
    grow_older(table, 48)
    table.upkeep.publish_iceberg()


def test_without_pyiceberg_a_commit_stands_and_the_verb_names_the_extra(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in [each for each in sys.modules if each.startswith("pyiceberg")]:
        monkeypatch.setitem(sys.modules, name, None)
    here = "lakewright.storage.operations.iceberg."
    for name in ("publish", "iceberg_types", "manifests", "published_snapshot", "metadata_io"):
        monkeypatch.delitem(sys.modules, here + name, raising=False)
    table = published(catalog)
    write(table, 0, 2)
    assert table.read().num_rows == 2
    assert "pip install 'lakewright[iceberg]'" in caplog.text
    with pytest.raises(UnsupportedError, match=r"pip install 'lakewright\[iceberg\]'"):
        table.upkeep.publish_iceberg()


# --- what goes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("grace_ms", [0, 3_600_000])
def test_a_snapshot_leaves_the_metadata_before_any_of_its_files_goes(
    catalog: Catalog, grace_ms: int
) -> None:
    table = published(catalog)
    for number in range(4):
        write(table, number, number + 1)
    compact(table, full=True)
    looked: list[str] = []

    def look(call: Call) -> None:
        if call.name == "delete" and "/metadata/" not in call.path:
            looked.append(call.path)
            if "/snapshot/" in call.path or "/bucket-" in call.path:
                assert seen(table) == [5]

    looking = over(table, WatchedFiles(table.table_files.fs, after=looked_at(look)))
    expire(looking, grace_ms=grace_ms)
    assert looked
    assert_seen_alike(table)


def test_a_publication_that_began_before_an_expiry_does_not_bring_back_what_expired(
    catalog: Catalog,
) -> None:
    table = published(catalog)
    for number in range(3):
        write(table, number, number + 1)

    def puts_version(call: Call) -> bool:
        return "/metadata/v4.metadata.json" in call.path and call.changes

    slow, other = interrupted(table, when=puts_version, meanwhile=lambda: expire(table, grace_ms=0))
    write(slow, 9, 10)
    assert other.has_happened
    assert seen(table) == [4]
    assert_seen_alike(table)


def test_an_expiry_stands_back_while_readers_see_what_would_go_and_nothing_else_can_be_published(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    table = published(catalog)
    for number in range(3):
        write(table, number, number + 1)
    table = table.alter(AddColumn("t", "TIMESTAMP(9)"))
    # The version that readers see can lose snapshots.
    expire(table, keep=2)
    assert seen(table) == [2, 3]
    table.write(rows(table, events(5, 6)))
    assert "column t is TIMESTAMP(9)" in caplog.text
    with pytest.raises(UnsupportedError, match=r"readers see snapshot 3 of db\.t, whose files"):
        expire(table)
    assert [each.id for each in table.history.snapshots()] == [2, 3, 4]
    assert not table.upkeep.condemned()
    assert iceberg_rows(table, 3).num_rows == 3


def test_a_rollback_is_seen_by_readers_that_look_for_later_versions(catalog: Catalog) -> None:
    table = published(catalog)
    for number in range(4):
        write(table, number, number + 1)
    table.history.rollback(snapshot=2, grace_ms=0)
    assert seen(table) == [1, 2]
    assert [name for name in metadata(table) if name.endswith(".json")][-1] == "v2.metadata.json"
    write(table, 7, 9)
    assert seen(table) == [1, 2, 3]
    assert_seen_alike(table)


def test_tags_are_refs_also_once_their_snapshots_expired(catalog: Catalog) -> None:
    table = published(catalog)
    write(table, 0, 2)
    table.history.create_tag("kept", snapshot=1)
    write(table, 2, 4)
    expire(table)
    assert seen(table) == [1, 2]
    assert opened(table).scan(snapshot_id=1).to_arrow().num_rows == 2
    table.history.delete_tags("kept", grace_ms=0)
    assert seen(table) == [2]
    assert_seen_alike(table)


def test_former_metadata_is_kept_for_an_hour_and_then_deleted(catalog: Catalog) -> None:
    table = published(catalog)
    for number in range(12):
        write(table, number, number + 1)
    compact(table, full=True)
    expire(table)
    table.upkeep.publish_iceberg()
    before = metadata(table)
    assert len([name for name in before if name.endswith(".json")]) == 13
    assert len([name for name in before if name.startswith("snap-")]) == 13
    grow_older(table, 2)
    write(table, 90, 91)
    after = metadata(table)
    # Those of the version before the last commit, which was the current one until now.
    assert [name for name in after if name.endswith(".json")] == [
        "v13.metadata.json",
        "v14.metadata.json",
    ]
    assert len([name for name in after if name.startswith("snap-")]) == 2
    assert_seen_alike(table)


def test_what_a_dead_publication_left_goes_after_a_day(catalog: Catalog) -> None:
    table = published(catalog)
    write(table, 0, 1)
    failing, _ = watched(table, fail_at=3, fault=Fault.DIES_BEFORE, counts=is_metadata)
    with pytest.raises(Crashed):
        write(failing, 1, 2)
    lost = {name for name in metadata(table) if name.endswith(".avro")}
    table.upkeep.publish_iceberg()
    assert lost <= {*metadata(table)}
    grow_older(table, 25)
    table.upkeep.publish_iceberg()
    named = {each.rpartition("/")[2] for each in _named(table)}
    assert {name for name in metadata(table) if name.endswith(".avro")} == named
    assert_seen_alike(table)


def _named(table: Table) -> set[str]:
    found = opened(table)
    lists = {each.manifest_list for each in found.snapshots()}
    manifests = {m.manifest_path for each in found.snapshots() for m in each.manifests(found.io)}
    return lists | manifests


@pytest.mark.parametrize("damage", ["gone", "cut short", "no Avro"])
@pytest.mark.parametrize("kind", ["m-", "snap-", "v"])
def test_damaged_metadata_is_made_anew(catalog: Catalog, kind: str, damage: str) -> None:
    table = published(catalog)
    write(table, 0, 1)
    write(table, 1, 2)
    folder = Path(MetadataFiles.of(table.table_files).folder)
    for path in sorted(folder.glob(f"{kind}*")):
        data = path.read_bytes()
        path.write_bytes(
            {"cut short": data[: len(data) // 2], "no Avro": b"?", "gone": b""}[damage]
        )
        if damage == "gone":
            path.unlink()
    compact(table, full=True)
    assert_seen_alike(table)
    grow_older(table, 48)
    table.upkeep.publish_iceberg()


def test_orphan_removal_keeps_what_versions_name_and_takes_the_rest(catalog: Catalog) -> None:
    table = published(catalog, options={"deletion-vectors.enabled": "true"})
    write(table, 0, 3)
    table.delete("id = 1")
    before = metadata(table)
    folder = Path(MetadataFiles.of(table.table_files).folder)
    for name in ("m-lost.avro", "deletes-lost-1.x.parquet", "notes.txt"):
        (folder / name).write_bytes(b"?")
    removed = table.upkeep.remove_orphans(older_than_ms=0, even_recent=True, grace_ms=0)
    assert removed.files_deleted == 2
    assert metadata(table) == sorted([*before, "notes.txt"])
    (folder / "notes.txt").unlink()
    assert_seen_alike(table)


# --- where, and for whom --------------------------------------------------------------------------


def test_metadata_for_a_catalog_lies_beside_the_databases(catalog: Catalog) -> None:
    table = new_table(catalog, options={"metadata.iceberg.storage": "hadoop-catalog"})
    write(table, 0, 3)
    folder = Path(catalog.root) / "iceberg" / "db" / "t" / "metadata"
    found = StaticTable.from_metadata(f"{folder}/v1.metadata.json")
    assert found.scan().to_arrow().num_rows == 3
    assert not (Path(table.table_files.paths.root) / "metadata").exists()
    write(table, 3, 4)
    expire(table)
    assert seen(table) == [2]
    assert_seen_alike(table)


@pytest.mark.parametrize("storage", ["hive-catalog", "rest-catalog"])
def test_a_catalog_that_must_be_told_is_refused(catalog: Catalog, storage: str) -> None:
    with pytest.raises(UnsupportedError, match="an Iceberg catalog must know each snapshot"):
        new_table(catalog, options={"metadata.iceberg.storage": storage})


def test_paths_are_those_by_which_another_client_began(catalog: Catalog) -> None:
    table = published(catalog)
    write(table, 0, 2)
    own = MetadataFiles.of(table.table_files)
    root = table.table_files.paths.root
    assert opened(table).location() == root
    # A client that opened the warehouse by a URI writes it so.
    found = json.loads(Path(own.version_path(1)).read_text())
    found["location"] = f"file:{root}"
    Path(own.version_path(1)).write_text(json.dumps(found))
    write(table, 2, 4)
    (new,) = [each.file.file_path for each in opened(table).scan().plan_files()][-1:]
    paths = {each.file.file_path for each in opened(table).scan().plan_files()}
    assert f"file:{root}/bucket-0" in {path.rpartition("/")[0] for path in paths}, new


def test_a_primary_key_table_without_vectors_shows_the_last_full_compaction(
    catalog: Catalog,
) -> None:
    table = published(catalog, keys=["id"], options={"bucket": "1"})
    write(table, 0, 3, v="a")
    assert iceberg_rows(table).num_rows == 0
    compact(table, full=True)
    write(table, 1, 5, v="b")
    assert comparable_rows(iceberg_rows(table)) == comparable_rows(shown_rows(table))
    assert iceberg_rows(table).num_rows == 3
    assert table.read().num_rows == 5
    compact(table, full=True)
    assert iceberg_rows(table).num_rows == 5


def test_a_primary_key_table_with_vectors_shows_what_its_own_readers_see(catalog: Catalog) -> None:
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    table = published(catalog, keys=["id"], options=options)
    for number in range(4):
        write(table, number, number + 3, v=f"{number}")
        compact(table)
    table.delete("id = 2")
    compact(table)
    assert_seen_alike(table)
    assert sorted(iceberg_rows(table)["id"].to_pylist()) == [0, 1, 3, 4, 5]


# --- columns --------------------------------------------------------------------------------------


def test_files_without_ids_are_read_by_every_name_that_a_column_had(catalog: Catalog) -> None:
    table = published(catalog)
    write(table, 0, 2)
    for path in Path(table.table_files.paths.root).glob("bucket-0/*.parquet"):
        found = pq.read_table(path)
        bare = pa.schema([pa.field(each.name, each.type) for each in found.schema])
        pq.write_table(pa.table(found.columns, schema=bare), path)
    table = table.alter(RenameColumn("v", "w"), rules=ANY_LOSS)
    table = table.alter(AddColumn("x", "INT"), rules=ANY_LOSS)
    table.write(rows(table, [{"id": 7, "day": "a", "w": "new", "x": 1}]))
    found = opened(table).scan().to_arrow().sort_by("id").to_pylist()
    assert [each["w"] for each in found] == ["v0", "v1", "new"]
    assert [each["x"] for each in found] == [None, None, 1]


def test_a_column_that_iceberg_cannot_read_as_its_new_type_waits_for_a_rewrite(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    columns, options = {"id": "INT", "n": "INT"}, {"lakewright.cast-mode": "explicit"}
    table = published(catalog, columns=columns, options=options)
    table.write(rows(table, [{"id": 1, "n": 2}]))
    wider = table.alter(ChangeType("id", "BIGINT"), rules=ANY_LOSS)
    wider.write(rows(wider, [{"id": 2**40, "n": 3}]))
    assert_seen_alike(wider)
    text = wider.alter(ChangeType("n", "STRING"), rules=ANY_LOSS)
    text.write(rows(text, [{"id": 5, "n": "x"}]))
    assert "data files of schema 0 hold int" in caplog.text
    with pytest.raises(UnsupportedError, match=r"column n is string.*lakewright compact db\.t"):
        text.upkeep.publish_iceberg()
    compact(text, full=True)
    assert_current(text)


def assert_current(table: Table) -> None:
    assert comparable_rows(iceberg_rows(table)) == comparable_rows(table.read())


def test_a_table_that_others_dropped_and_made_again_is_published_anew(catalog: Catalog) -> None:
    options = {"metadata.iceberg.storage": "hadoop-catalog"}
    table = new_table(catalog, options=options)
    write(table, 0, 5)
    first = opened(table).metadata.table_uuid
    catalog.drop_table("db.t")
    again = new_table(catalog, options=options)
    write(again, 7, 8)
    assert opened(again).metadata.table_uuid != first
    assert_seen_alike(again)


def test_a_tag_that_comes_while_a_commit_is_published_is_seen(catalog: Catalog) -> None:
    table = published(catalog)
    write(table, 0, 1)

    def puts_version(call: Call) -> bool:
        return "/metadata/v2.metadata.json" in call.path and call.changes

    slow = overtaken(table, puts_version, lambda: table.history.create_tag("t", snapshot=1))
    write(slow, 1, 2)
    assert_seen_alike(table)
