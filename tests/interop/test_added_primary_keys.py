"""A primary key that a table of rows gets: every client reads and writes a keyed table after it."""

from __future__ import annotations

import pytest

from lakewright.storage import Catalog
from lakewright.storage.operations.respec import add_primary_key
from tests.interop.test_buckets import assert_read_alike
from tests.interop.test_they_read_ours import as_read_by
from tests.oracles.client import JavaOracle, LatestJavaOracle, Oracle, WritingOracle
from tests.support.tables.builders import content, events, new_table, rows

KEYS = ["day", "id"]


@pytest.mark.mission("MT14", "SQ18")
@pytest.mark.sampled(1)
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_table_with_an_added_key_is_everybodys(
    catalog: Catalog,
    java: JavaOracle,
    java_latest: LatestJavaOracle,
    rust: Oracle,
    pypaimon: WritingOracle,
    file_format: str,
) -> None:
    table = new_table(catalog, partitions=["day"], options={"file.format": file_format})
    java.write(catalog.root, table.name, [*events(0, 5), *events(0, 3, day="b")])
    table.write(rows(table, events(5, 9)))
    table.upkeep.add_primary_key(KEYS, buckets=2)
    table = catalog.table(table.name)
    everybody: tuple[Oracle, ...] = (java, java_latest, pypaimon)
    if file_format != "avro":
        # It takes the columns of a key-value file in Avro for null.
        everybody = (*everybody, rust)
    assert_read_alike(catalog, table, *everybody)
    java.write(catalog.root, table.name, [*events(3, 12, v="java"), *events(0, 2, day="c")])
    assert_read_alike(catalog, table, *everybody)
    table.write(rows(table, events(0, 6, v="ours")))
    pypaimon.write(catalog.root, table.name, events(4, 7, v="python"))
    assert_read_alike(catalog, table, *everybody)
    java_latest.write(catalog.root, table.name, events(8, 14, v="newer"))
    java.compact(catalog.root, table.name)
    assert_read_alike(catalog, table, *everybody)
    assert table.read().num_rows == 14 + 3 + 2


def test_between_its_snapshot_and_its_schema_everybody_reads_a_table_of_rows(
    catalog: Catalog,
    java_latest: LatestJavaOracle,
    pypaimon: WritingOracle,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = new_table(catalog, partitions=["day"])
    table.write(rows(table, [*events(0, 5), *events(0, 3, day="b")]))
    before = content(table)

    def stop(*_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(add_primary_key, "is_latest", stop)
    with pytest.raises(KeyboardInterrupt):
        table.upkeep.add_primary_key(KEYS, buckets=2)
    monkeypatch.undo()
    table = catalog.table(table.name)
    assert not table.schema.has_primary_key
    for reader in (java_latest, pypaimon):
        assert as_read_by(reader, catalog, table) == before == content(table)
    java_latest.write(catalog.root, table.name, events(9, 10))
    table.write(rows(table, events(10, 11)))
    table.upkeep.add_primary_key(KEYS)
    table = catalog.table(table.name)
    assert_read_alike(catalog, table, java_latest, pypaimon)
    assert table.read().num_rows == 10
