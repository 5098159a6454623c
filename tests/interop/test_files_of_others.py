"""Files that other systems wrote and that a table took over: every client reads them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.storage import Catalog, Table
from tests.interop.test_they_read_ours import as_read_by, assert_read_alike
from tests.oracles.client import JavaOracle, LatestJavaOracle, Oracle, WritingOracle
from tests.support.tables.builders import compact, content, expire, new_table, rows
from tests.support.tables.footers import change_footer, sign_as, take_orders_away
from tests.support.tables.landed import LANDED, land_days

FORMATS = ["parquet", "orc", "avro"]


def taken_over(catalog: Catalog, root: Path, *, copy: bool = False) -> Table:
    """A table of the partitions below a folder, and one of another day that we wrote."""
    table = new_table(catalog, LANDED, partitions=["day"])
    table.upkeep.add_partitions(str(root), copy_files=copy, age_ms=0)
    return catalog.table("db.t")


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.mission("PT20", "PT37", "RS6")
def test_clients_read_files_where_they_lie_and_fill_in_the_partition(
    catalog: Catalog,
    java_latest: LatestJavaOracle,
    released_pypaimon: Oracle,
    tmp_path: Path,
    suffix: str,
) -> None:
    root = land_days(tmp_path / "landed", ["a", "b%2Fc", "ü"], suffix)
    table = taken_over(catalog, root)
    assert table.read().num_rows == 18
    readers: list[Oracle] = [java_latest, released_pypaimon]
    assert_read_alike(readers, catalog, table)
    for reader in readers:
        for where in ([("day", "=", "b/c")], [("id", "=", 4)], [("id", "=", 4), ("day", "=", "a")]):
            said = " AND ".join(f"{name} = {value!r}" for name, _, value in where)
            assert as_read_by(reader, catalog, table, where=where) == content(table, where=said)
    compact(table, full=True)
    assert_read_alike(readers, catalog, catalog.table("db.t"))


@pytest.mark.parametrize("copy", [False, True])
def test_java_finds_the_rows_of_files_whose_statistics_are_wrong(
    catalog: Catalog, java_latest: LatestJavaOracle, tmp_path: Path, copy: bool
) -> None:
    """As parquet-mr 1.8 wrote: without the newer bounds, and 2.00 for the least from 1.00."""
    path = tmp_path / "landed" / "day=a" / "f.parquet"
    path.parent.mkdir(parents=True)
    values = [Decimal(f"{number}.00") for number in range(1, 25)]
    rows = pa.table({"id": range(24), "v": pa.array(values, pa.decimal128(25, 2))})
    pq.write_table(rows, path, use_dictionary=False, compression="zstd")
    least, most = ((100 * n).to_bytes(11, "big") for n in (1, 24))
    change_footer(path, b"\x18\x0b" + least, b"\x18\x0b" + (200).to_bytes(11, "big"))
    # The newer bounds become fields that readers do not know.
    change_footer(path, b"\x28\x0b" + most, b"\xc8\x0b" + most)
    sign_as(path, "parquet-mr version 1.8.1 (build 4aba4d)")
    take_orders_away(path)
    table = new_table(
        catalog, {"id": "BIGINT", "v": "DECIMAL(25, 2)", "day": "STRING"}, partitions=["day"]
    )
    table.upkeep.add_partitions(str(tmp_path / "landed"), copy_files=copy, age_ms=0)
    table = catalog.table("db.t")
    for where, count in (
        ([("v", "=", "1.00")], 1),
        ([("v", "<", "2.00")], 1),
        ([("id", ">=", 20)], 4),
        ([("id", "=", 99)], 0),
    ):
        said = " AND ".join(f"{name} {sign} {value}" for name, sign, value in where)
        found = content(table, where=said)
        assert len(found) == count
        assert as_read_by(java_latest, catalog, table, where=where) == found


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.mission("PT20")
def test_clients_read_copies_and_fill_in_the_partition(
    catalog: Catalog,
    java: JavaOracle,
    java_latest: LatestJavaOracle,
    released_pypaimon: Oracle,
    tmp_path: Path,
    suffix: str,
) -> None:
    table = taken_over(catalog, land_days(tmp_path / "landed", suffix=suffix), copy=True)
    assert_read_alike([java, java_latest, released_pypaimon], catalog, table)
    for reader in (java, java_latest, released_pypaimon):
        where = [("id", ">", 12), ("day", "=", "b")]
        assert as_read_by(reader, catalog, table, where=where) == content(
            table, where="day = 'b' AND id > 12"
        )


@pytest.mark.mission("PT20")
def test_java_older_than_1_0_fails_on_files_outside_of_the_table(
    catalog: Catalog, java: JavaOracle, tmp_path: Path
) -> None:
    table = taken_over(catalog, land_days(tmp_path / "landed"))
    with pytest.raises(Exception, match="taken-"):
        as_read_by(java, catalog, table)


@pytest.mark.mission("PT20")
def test_clients_write_beside_files_outside_of_the_table(
    catalog: Catalog, java_latest: LatestJavaOracle, pypaimon: WritingOracle, tmp_path: Path
) -> None:
    root = land_days(tmp_path / "landed")
    table = taken_over(catalog, root)
    before = sorted(root.rglob("*.parquet"))
    for number, writer in enumerate((java_latest, pypaimon)):
        writer.write(catalog.root, "db.t", [{"id": 100 + number, "v": "new", "day": "a"}])
    assert table.read().num_rows == 14
    java_latest.compact(catalog.root, "db.t", full=True)
    assert catalog.table("db.t").read().num_rows == 14
    assert_read_alike([java_latest, pypaimon], catalog, catalog.table("db.t"))
    assert sorted(root.rglob("*.parquet")) == before


@pytest.mark.mission("PT37")
def test_an_expiry_by_java_deletes_files_outside_of_the_table_and_ours_does_not(
    catalog: Catalog, java_latest: LatestJavaOracle, tmp_path: Path
) -> None:
    """What the decision about files of others warns of."""
    root = land_days(tmp_path / "landed")
    table = taken_over(catalog, root)
    table.upkeep.drop_partitions("day = 'a'")
    expire(table, keep=1)
    assert len(list(root.rglob("*.parquet"))) == 4
    table.upkeep.drop_partitions("day = 'b'")
    table.write(rows(table, [{"id": 1, "v": "own", "day": "c"}]))
    java_latest.expire_snapshots(catalog.root, "db.t", retain_min=1, retain_max=1)
    assert [path.parent.name for path in root.rglob("*.parquet")] == ["day=a"] * 2
    assert catalog.table("db.t").read().num_rows == 1


@pytest.mark.parametrize("left_by", ["drop", "revert", "overwrite", "sync"])
@pytest.mark.mission("PT20", "PT37", "PT66")
def test_clients_read_files_that_a_table_let_go_and_took_over_again(
    catalog: Catalog,
    java_latest: LatestJavaOracle,
    released_pypaimon: Oracle,
    tmp_path: Path,
    left_by: str,
) -> None:
    root = land_days(tmp_path / "landed")
    table = taken_over(catalog, root)
    match left_by:
        case "drop":
            table.upkeep.drop_partitions("day = 'a'")
        case "revert":
            table.history.revert(1)
        case "overwrite":
            table.write(rows(table, [{"id": 1, "v": "own", "day": "a"}]), mode="overwrite")
            table.upkeep.drop_partitions("day = 'a'")
        case _:
            (root / "day=a").rename(tmp_path / "away")
            table.upkeep.repair_partitions(mode="sync", age_ms=0)
            (tmp_path / "away").rename(root / "day=a")
    assert catalog.table("db.t").read().num_rows < 12
    table = catalog.table("db.t")
    if left_by == "sync":
        table.upkeep.repair_partitions(mode="sync", age_ms=0)
    else:
        table.upkeep.add_partitions(str(root), age_ms=0)
    table = catalog.table("db.t")
    assert table.read().num_rows == 12
    assert_read_alike([java_latest, released_pypaimon], catalog, table)
