"""Tables of kinds that only later versions of Java Paimon write, as Java Paimon 2.0.0 left them."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakewright.storage import Catalog
from lakewright.storage.errors import UnsupportedError
from tests.support.tables.builders import compact, expire, remove_orphans
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.tables.java_kinds import java_kind, rows_of_java


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
