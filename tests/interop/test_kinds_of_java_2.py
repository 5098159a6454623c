"""Tables of kinds that only later versions of Java Paimon write, as Java Paimon 2.0.0 left them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakewright.storage import Catalog
from lakewright.storage.errors import UnsupportedError
from tests.interop.test_they_read_ours import as_read_by
from tests.oracles.client import LatestJavaOracle
from tests.support.tables.builders import (
    compact,
    comparable,
    content,
    events,
    expire,
    new_table,
    remove_orphans,
    rows,
)
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.tables.java_kinds import java_kind, rows_as_java, rows_of_java


def test_a_table_with_a_variant_is_kept_without_decoding_it(unchecked_catalog: Catalog) -> None:
    table = java_kind(unchecked_catalog, "variant")
    folder = Path(unchecked_catalog.root) / "db.db/variant/bucket-0"
    stored = [row for file in folder.iterdir() for row in pq.read_table(file).to_pylist()]
    ids = sorted(row[0] for row in rows_of_java("variant"))

    assert [str(field.type) for field in table.schema.fields] == ["BIGINT", "VARIANT"]
    table.history.create_tag("kept")
    table.upkeep.rewrite_manifests()
    compact(table, full=True)
    table.upkeep.run(table.upkeep.plan_analyze())
    expire(table)

    assert sorted(table.read(columns=["id"]).column("id").to_pylist()) == ids
    assert table.read(columns=["id"], where="id < 7").num_rows == sum(each < 7 for each in ids)
    (file,) = table.inspect.files().column("file_path").to_pylist()
    joined = pq.read_table(file).to_pylist()
    assert sorted(map(repr, joined)) == sorted(map(repr, stored))
    assert_only_reachable_files(table)
    with pytest.raises(UnsupportedError, match="column v is of type VARIANT"):
        table.read()
    with pytest.raises(UnsupportedError, match="column v is of type VARIANT"):
        table.delete("id = 1")


def test_blobs_beside_data_files_are_accounted_for(unchecked_catalog: Catalog) -> None:
    table = java_kind(unchecked_catalog, "blob")
    blobs = set((Path(unchecked_catalog.root) / "db.db/blob/bucket-0").glob("*.blob"))
    assert blobs

    table.history.create_tag("kept")
    table.upkeep.rewrite_manifests()
    expire(table)
    remove_orphans(table)

    assert_only_reachable_files(table)
    assert all(each.exists() for each in blobs)


def test_a_table_with_manifests_in_orc_is_read_written_and_kept(catalog: Catalog) -> None:
    table = java_kind(catalog, "manifest_orc")
    due = rows_of_java("manifest_orc")
    assert rows_as_java(table) == due

    table.upkeep.rewrite_manifests()
    compact(table, full=True)
    expire(table)

    assert rows_as_java(table) == due
    assert_only_reachable_files(table)


@pytest.mark.parametrize(
    ("form", "keyed"),
    [
        ("orc", True),
        ("parquet", False),
        pytest.param("orc", False, marks=pytest.mark.deep),
        pytest.param("parquet", True, marks=pytest.mark.deep),
    ],
)
def test_java_reads_and_merges_our_manifests_in_another_format(
    catalog: Catalog, java_latest: LatestJavaOracle, form: str, keyed: bool
) -> None:
    options = {"manifest.format": form, "manifest.merge-min-count": "3"}
    if keyed:
        options |= {"bucket": "2", "deletion-vectors.enabled": "true"}
    keys = ("day", "id") if keyed else ()
    table = new_table(catalog, partitions=("day",), keys=keys, options=options)
    for number in range(4):
        table.write(rows(table, events(number, number + 4, day="ab"[number % 2])))
        java_latest.write(catalog.root, table.name, events(number, number + 3, v="theirs", day="a"))
    compact(table, full=True)
    assert as_read_by(java_latest, catalog, table) == content(table)
    java_latest.write(catalog.root, table.name, events(2, 5, v="later", day="b"))
    java_latest.compact(catalog.root, table.name)
    assert as_read_by(java_latest, catalog, table) == content(table)
    table.upkeep.rewrite_manifests()
    table.upkeep.drop_partitions("day = 'b'")
    expire(table)
    assert as_read_by(java_latest, catalog, table) == content(table)
    assert content(table)
    assert_only_reachable_files(table)
    manifests = Path(catalog.root, "db.db", "t", "manifest").iterdir()
    mark = {"orc": b"ORC", "parquet": b"PAR1"}[form]
    assert all(each.read_bytes().startswith(mark) for each in manifests)


def test_a_table_with_indexes_on_its_key_is_read_and_expired_and_not_written(
    catalog: Catalog,
) -> None:
    table = java_kind(catalog, "j_pk_btree_index")
    due = rows_of_java("j_pk_btree_index")
    assert rows_as_java(table) == due
    assert rows_as_java(table, where="n = 7") == [row for row in due if row[3] == 7]

    table.history.create_tag("kept")
    expire(table)
    remove_orphans(table)

    assert rows_as_java(table) == due
    assert_only_reachable_files(table)
    with pytest.raises(UnsupportedError, match=r"pk-btree\.index\.columns"):
        compact(table, full=True)
    with pytest.raises(UnsupportedError, match=r"pk-btree\.index\.columns"):
        table.write(rows(table, [{"dt": "d0", "id": 1}]))


@pytest.mark.parametrize("kind", ["dv_merge_on_read", "snapord", "pk_clustering"])
def test_a_table_whose_rows_win_in_another_way_reads_as_java_reads_it(
    catalog: Catalog, kind: str
) -> None:
    table = java_kind(catalog, kind)
    due = rows_of_java(kind)
    assert rows_as_java(table) == due
    assert rows_as_java(table, where="id = 7") == [row for row in due if row[0] == 7]
    assert rows_as_java(table, where="n = 3") == [row for row in due if row[3] == 3]
    assert table.count() == len(due)
    expire(table)
    assert rows_as_java(table) == due


ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {},
    "aggregation": {"fields.v.aggregate-function": "max"},
}


@pytest.mark.parametrize(
    "engine",
    ["deduplicate", "aggregation", pytest.param("partial-update", marks=pytest.mark.deep)],
)
def test_rows_that_no_compaction_has_merged_are_read_as_java_reads_them_after_one(
    catalog: Catalog, java_latest: LatestJavaOracle, engine: str
) -> None:
    options = {
        "bucket": "2",
        "merge-engine": engine,
        "deletion-vectors.enabled": "true",
        "deletion-vectors.merge-on-read": "true",
        "write-only": "true",
        **ENGINES[engine],
    }
    table = new_table(catalog, keys=("id",), options=options)
    for number in range(5):
        some = events(number, number + 7, day=None if number % 2 else "c", v=f"{9 - number}-")
        java_latest.write(catalog.root, table.name, some)
        table.write(rows(table, events(number + 3, number + 5, v="ours")))
        found = content(table)
        assert len(found) == table.count() == number + 7
        assert comparable(table.lookup([{"id": number + 3}])) == content(
            table, where=f"id = {number + 3}"
        )
        assert content(table, where="id > 4") == [row for row in found if json.loads(row)["id"] > 4]
        java_latest.compact(
            catalog.root, table.name, options={"write-only": "false"}, full=number == 2
        )
        assert content(table) == as_read_by(java_latest, catalog, table) == found


def test_files_that_java_sorted_by_other_columns_than_the_key_are_read(
    catalog: Catalog, java_latest: LatestJavaOracle
) -> None:
    options = {
        "bucket": "2",
        "pk-clustering-override": "true",
        "clustering.columns": "v",
        "deletion-vectors.enabled": "true",
        "file.format": "parquet",
    }
    java_latest.create(
        catalog.root,
        "db.t",
        {"id": "BIGINT NOT NULL", "day": "STRING", "v": "STRING"},
        primary_keys=["id"],
        options=options,
    )
    table = catalog.table("db.t")
    for number in range(4):
        some = [
            {"id": each, "day": f"d{number}", "v": f"{(each * 7) % 10}-{number}"}
            for each in range(number * 3, number * 3 + 12)
        ]
        java_latest.write(catalog.root, table.name, some)
        java_latest.compact(catalog.root, table.name, full=number == 2)
        due = as_read_by(java_latest, catalog, table)
        assert content(table) == due
        assert len(due) == table.count() == 12 + 3 * number
        for where in ("id = 8", "id < 4", "v > '5'"):
            column, sign, value = where.split()
            said = (column, sign, int(value) if value.isdigit() else value.strip("'"))
            assert content(table, where=where) == as_read_by(
                java_latest, catalog, table, where=[said]
            )
    with pytest.raises(UnsupportedError, match="pk-clustering-override"):
        compact(table, full=True)
    with pytest.raises(UnsupportedError, match="pk-clustering-override"):
        table.lookup([{"id": 3}])
    table.upkeep.rewrite_manifests()
    expire(table)
    assert content(table) == as_read_by(java_latest, catalog, table) == due


def test_a_table_that_java_clusters_is_sorted_by_the_same_columns_in_its_place(
    catalog: Catalog,
) -> None:
    table = java_kind(catalog, "clust_incremental")
    due = rows_of_java("clust_incremental")
    with pytest.raises(UnsupportedError, match="`lakewright sort-compact` sorts"):
        compact(table, full=True)

    table.upkeep.run(table.upkeep.plan_sort_compact())

    assert rows_as_java(table) == due
    numbers = table.read().column("n").to_pylist()
    assert numbers == sorted(numbers)
    assert_only_reachable_files(table)


def test_buckets_of_keys_that_move_between_partitions_are_compacted(
    catalog: Catalog, java_latest: LatestJavaOracle
) -> None:
    java_latest.create(
        catalog.root,
        "db.crossing",
        {"id": "BIGINT NOT NULL", "day": "STRING NOT NULL", "v": "STRING"},
        partition_keys=["day"],
        primary_keys=["id"],
        options={"bucket": "-1", "write-only": "true"},
    )
    table = catalog.table("db.crossing")
    for number in range(3):
        for day in "ab":
            some = [each for each in range(number, number + 4) if "ab"[each % 2] == day]
            java_latest.write(
                catalog.root, table.name, [{"id": i, "day": day, "v": f"{number}"} for i in some]
            )
    moved = [{"id": 1, "day": "b", "v": "2"}, {"id": 1, "day": "a", "v": "moved"}]
    java_latest.write(catalog.root, table.name, moved, kinds=["-D", "+I"])
    due = as_read_by(java_latest, catalog, table)
    assert content(table) == due
    compact(table, full=True)
    assert content(table) == as_read_by(java_latest, catalog, table) == due
    java_latest.write(catalog.root, table.name, [{"id": 2, "day": "a", "v": "last"}])
    java_latest.compact(catalog.root, table.name, options={"write-only": "false"})
    assert content(table) == as_read_by(java_latest, catalog, table)
    with pytest.raises(UnsupportedError, match="a key may move between partitions"):
        table.write(rows(table, [{"id": 1, "day": "b"}]))
    assert_only_reachable_files(table)
