"""Tables of kinds that only later versions of Java Paimon write, as Java Paimon 2.0.0 left them."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakewright.storage import Catalog
from lakewright.storage.errors import UnsupportedError
from tests.interop.test_they_read_ours import as_read_by
from tests.oracles.client import LatestJavaOracle
from tests.support.tables.builders import (
    compact,
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
