"""Folders of other systems become partitions: what is taken over, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.storage import AddColumn, Catalog, SetOption, Table
from lakewright.storage.errors import (
    CorruptionError,
    InvalidRequestError,
    InvalidSchema,
    PartitionExists,
    StalePlan,
    StorageError,
    UnsupportedError,
)
from lakewright.storage.operations.partitions.add_partitions import AddPartitionsPlan
from tests.support.stores.watched_files import interrupted, puts_snapshot
from tests.support.tables.builders import compact, content, expire, new_table, rows
from tests.support.tables.landed import LANDED, land, land_days, rows_of

TWO_KEYS = {"id": "BIGINT", "v": "STRING", "day": "DATE", "country": "STRING"}
NOW: dict[str, Any] = {"age_ms": 0}


def landed_table(catalog: Catalog, **options: str) -> Table:
    return new_table(catalog, LANDED, partitions=["day"], options=options)


def days(table: Table) -> list[tuple[str | None, int]]:
    return [(each.spec["day"], each.row_count) for each in table.at().partitions()]


def bytes_of(root: Path) -> dict[Path, tuple[int, bytes]]:
    return {
        path: (path.stat().st_mtime_ns, path.read_bytes())
        for path in root.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("suffix", ["parquet", "orc", "avro"])
@pytest.mark.mission("PT20", "PT37", "PT38")
def test_a_folder_is_taken_over_in_one_commit_and_no_byte_of_it_changes(
    catalog: Catalog, tmp_path: Path, suffix: str
) -> None:
    root = land_days(tmp_path / "landed", ["a", "b", "x%2Fy", "__HIVE_DEFAULT_PARTITION__"], suffix)
    before = bytes_of(root)
    table = landed_table(catalog)
    result = table.upkeep.add_partitions(str(root), **NOW)
    table = catalog.table("db.t")
    assert (result.partitions, result.files, result.rows) == (4, 8, 24)
    assert table.at().snapshot.id == 1  # type: ignore[union-attr]
    assert sorted(days(table), key=str) == [("a", 6), ("b", 6), ("x/y", 6), (None, 6)]
    assert table.read(where="day = 'x/y' AND id > 22").to_pylist() == [
        {"id": number, "v": f"v{number}", "day": "x/y"} for number in (23, 24, 25)
    ]
    assert table.read(columns=["day"], where="day = 'b'").to_pylist() == [{"day": "b"}] * 6
    assert bytes_of(root) == before
    assert not list(Path(catalog.root, "db.db", "t").rglob("bucket-*"))


@pytest.mark.mission("PT38")
def test_a_takeover_reads_footers_and_no_rows(unchecked_catalog: Catalog, tmp_path: Path) -> None:
    path = land(tmp_path / "landed" / "day=a" / "f.parquet", rows_of(0, 1000))
    data = bytearray(path.read_bytes())
    data[4:200] = bytes(196)
    path.write_bytes(data)
    result = landed_table(unchecked_catalog).upkeep.add_partitions(str(path.parents[1]), **NOW)
    assert result.rows == 1000
    with pytest.raises(CorruptionError):
        unchecked_catalog.table("db.t").read()


@pytest.mark.mission("CT4", "CT5")
def test_the_properties_of_a_partition_name_folders_of_others(
    catalog: Catalog, tmp_path: Path
) -> None:
    root = land_days(tmp_path / "landed")
    landed_table(catalog).upkeep.add_partitions(str(root), **NOW)
    table = catalog.table("db.t")
    ((spec, properties),) = table.at().partition_properties("day = 'a'")
    assert spec == {"day": "a"}
    assert properties.location == table.table_files.fs.uri(f"{table.table_files.paths.root}/day=a")
    assert properties.other_folders == (table.table_files.fs.uri(str(root / "day=a")),)
    assert properties.formats == ("parquet",)
    assert {each.spec["day"] for each in table.at().partitions()} == {
        spec["day"] for spec, _ in table.at().partition_properties()
    }


def test_a_handle_that_was_open_before_reads_no_file_and_says_to_open_the_table_again(
    catalog: Catalog, tmp_path: Path
) -> None:
    table, other = landed_table(catalog), catalog.table("db.t")
    table.upkeep.add_partitions(str(land_days(tmp_path / "landed")), **NOW)
    for each in (table, other):
        with pytest.raises(UnsupportedError, match="open the table again if add-partitions"):
            each.read()
    assert catalog.table("db.t").read().num_rows == 12


@pytest.mark.mission("PT37")
def test_taking_the_same_folder_again_plans_nothing(catalog: Catalog, tmp_path: Path) -> None:
    root = str(land_days(tmp_path / "landed"))
    landed_table(catalog).upkeep.add_partitions(root, **NOW)
    table = catalog.table("db.t")
    plan = table.upkeep.plan_add_partitions(root, **NOW)
    assert (plan.partitions, plan.known_files, plan.allows) == ((), 4, None)
    assert table.upkeep.run(plan).snapshot is None
    assert table.read().num_rows == 12


def test_files_that_the_table_refers_to_are_not_copied_into_it_too(
    catalog: Catalog, tmp_path: Path
) -> None:
    table, root = landed_table(catalog), land_days(tmp_path / "landed")
    table.upkeep.add_partitions(str(root), **NOW)
    before = days(catalog.table(table.name))
    again = catalog.table(table.name).upkeep
    assert not again.plan_add_partitions(
        str(root), copy_files=True, into_existing=True, **NOW
    ).partitions
    again.add_partitions(str(root), copy_files=True, into_existing=True, **NOW)
    assert days(catalog.table(table.name)) == before


@pytest.mark.mission("PT37")
def test_files_that_are_taken_over_again_never_get_the_name_of_a_deleted_one(
    catalog: Catalog, tmp_path: Path
) -> None:
    root = str(land_days(tmp_path / "landed"))
    table = landed_table(catalog)
    names = set[str]()
    for _ in range(3):
        table.upkeep.add_partitions(root, **NOW)
        table = catalog.table("db.t")
        assert table.upkeep.plan_add_partitions(root, **NOW).known_files == 4
        names |= {entry.file.file_name for entry in table.at().files()}
        table.upkeep.drop_partitions("day IN ('a', 'b')")
    assert len(names) == 12


@pytest.mark.mission("PT37")
def test_two_takeovers_of_one_folder_at_once_add_it_once(catalog: Catalog, tmp_path: Path) -> None:
    root = str(land_days(tmp_path / "landed"))
    table = landed_table(catalog)
    plans = [table.upkeep.plan_add_partitions(root, **NOW) for _ in range(2)]
    first, second = (catalog.table("db.t").upkeep.run(plan) for plan in plans)
    assert (first.files, second.files, second.snapshot) == (4, 0, None)
    assert catalog.table("db.t").read().num_rows == 12


def test_a_plan_survives_json(catalog: Catalog, tmp_path: Path) -> None:
    table = new_table(catalog, TWO_KEYS, partitions=["day", "country"])
    land(tmp_path / "landed" / "day=2024-01-31" / "country=de" / "f.parquet", rows_of(0, 2))
    plan = table.upkeep.plan_add_partitions(str(tmp_path / "landed"), **NOW)
    assert not catalog.table("db.t").at().partitions()
    table.upkeep.run(AddPartitionsPlan.from_json(plan.to_json()))
    found = catalog.table("db.t").read(where="day = '2024-01-31'").to_pylist()
    assert [row["country"] for row in found] == ["de", "de"]


@pytest.mark.mission("RS6", "PT37")
def test_folders_of_values_alone_need_their_keys_named(catalog: Catalog, tmp_path: Path) -> None:
    table = new_table(catalog, TWO_KEYS, partitions=["day", "country"])
    root = tmp_path / "landed"
    land(root / "china" / "2019-08-30" / "f.parquet", rows_of(0, 2))
    with pytest.raises(InvalidRequestError, match="not of the form key=value"):
        table.upkeep.add_partitions(str(root), **NOW)
    with pytest.raises(InvalidRequestError, match="keys are country, and the folders"):
        table.upkeep.add_partitions(str(root), keys=["country"], **NOW)
    with pytest.raises(InvalidRequestError, match="'china' is not a valid DATE"):
        table.upkeep.add_partitions(str(root), keys=["day", "country"], **NOW)
    table.upkeep.add_partitions(str(root), keys=["country", "day"], **NOW)
    (row, _) = catalog.table("db.t").read().to_pylist()
    assert (str(row["day"]), row["country"]) == ("2019-08-30", "china")


@pytest.mark.mission("PT37")
def test_one_folder_becomes_the_partition_that_is_named(catalog: Catalog, tmp_path: Path) -> None:
    table = new_table(catalog, TWO_KEYS, partitions=["day", "country"])
    land(tmp_path / "anything" / "f.parquet", rows_of(0, 2))
    land(tmp_path / "more" / "country=fr" / "f.parquet", rows_of(2, 4))
    day = {"day": "2024-01-31"}
    table.upkeep.add_partitions(
        str(tmp_path / "anything"), partition=day | {"country": "de"}, **NOW
    )
    catalog.table("db.t").upkeep.add_partitions(str(tmp_path / "more"), partition=day, **NOW)
    table = catalog.table("db.t")
    assert [each.spec["country"] for each in table.at().partitions()] == ["de", "fr"]
    with pytest.raises(InvalidRequestError, match=r"is part of partition .*country=de.* already"):
        table.upkeep.add_partitions(
            str(tmp_path / "anything"), partition=day | {"country": "it"}, **NOW
        )


@pytest.mark.mission("PT37")
def test_files_stay_their_owners_through_compaction_expiry_and_drop(
    catalog: Catalog, tmp_path: Path
) -> None:
    root = land_days(tmp_path / "landed")
    before = bytes_of(root)
    landed_table(catalog).upkeep.add_partitions(str(root), **NOW)
    table = catalog.table("db.t")
    due = content(table)
    compact(table, full=True)
    assert content(table) == due
    expire(table, keep=1)
    table.upkeep.remove_orphans(older_than_ms=0, even_recent=True)
    table.upkeep.drop_partitions("day = 'a'")
    expire(table, keep=1)
    assert content(table) == content(table, where="day = 'b'")
    catalog.drop_table("db.t")
    assert bytes_of(root) == before


@pytest.mark.mission("PT37")
def test_copies_are_the_tables_own(catalog: Catalog, tmp_path: Path) -> None:
    root = land_days(tmp_path / "landed", suffix="orc")
    table = landed_table(catalog)
    table.upkeep.add_partitions(str(root), copy_files=True, **NOW)
    assert table.schema == catalog.table("db.t").schema
    assert table.read().num_rows == 12
    compact(table, full=True)
    expire(table, keep=1)
    assert not list(Path(catalog.root).rglob("copied-*"))
    assert len(list(root.rglob("*.orc"))) == 4


@pytest.mark.mission("PT37")
def test_a_partition_that_exists_is_refused_unless_it_may_be_joined(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = landed_table(catalog)
    table.write(rows(table, [{"id": 1, "v": "own", "day": "b"}]))
    root = str(land_days(tmp_path / "landed"))
    with pytest.raises(PartitionExists, match=r"partition day=b of db\.t exists, with 1 files"):
        table.upkeep.add_partitions(root, **NOW)
    assert catalog.table("db.t").read().num_rows == 1
    table.upkeep.add_partitions(root, into_existing=True, **NOW)
    assert days(catalog.table("db.t")) == [("a", 6), ("b", 7)]


def test_rows_that_a_compaction_merged_are_not_added_twice(
    catalog: Catalog, tmp_path: Path
) -> None:
    root = str(land_days(tmp_path / "landed"))
    landed_table(catalog).upkeep.add_partitions(root, **NOW)
    compact(catalog.table("db.t"), full=True)
    with pytest.raises(PartitionExists, match="a compaction may have merged them"):
        catalog.table("db.t").upkeep.add_partitions(root, **NOW)


def test_a_partition_that_is_written_after_the_plan_makes_it_stale(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = landed_table(catalog)
    plan = table.upkeep.plan_add_partitions(str(land_days(tmp_path / "landed")), **NOW)
    table.write(rows(table, [{"id": 1, "v": "own", "day": "b"}]))
    with pytest.raises(StalePlan, match=r"partition day=b of db\.t got other files"):
        table.upkeep.run(plan)
    assert days(catalog.table("db.t")) == [("b", 1)]


def test_a_file_that_changes_after_the_plan_makes_it_stale(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = landed_table(catalog)
    root = land_days(tmp_path / "landed")
    plan = table.upkeep.plan_add_partitions(str(root), **NOW)
    land(root / "day=a" / "part-00000.c000.zstd.parquet", rows_of(0, 100))
    with pytest.raises(StalePlan, match=r"and has .* and 100; plan again"):
        table.upkeep.run(plan)


def _wide(table: pa.Table, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


IDS = pa.array([1, 2])
MISFITS: list[tuple[str, pa.Table, type[StorageError], str]] = [
    ("another type", pa.table({"id": pa.array([1, 2], pa.int32()), "v": ["a", "b"]}),
     InvalidSchema, "column id holds int32 there, and BIGINT NOT NULL is stored as int64"),
    ("a column more", pa.table({"id": IDS, "v": ["a", "b"], "w": [1, 2]}),
     InvalidSchema, "it has column w, and the table has no such column"),
    ("a column less", pa.table({"id": IDS}), InvalidSchema, "it lacks column v"),
    ("another value of the key", pa.table({"id": IDS, "v": ["a", "b"], "day": ["a", "z"]}),
     InvalidRequestError, "another value in column day than its folder names, 'a'"),
    ("null in NOT NULL", pa.table({"id": pa.array([1, None]), "v": ["a", "b"]}),
     InvalidRequestError, "holds null in column id, which is NOT NULL"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("held", "error", "told"), [each[1:] for each in MISFITS], ids=[each[0] for each in MISFITS]
)
@pytest.mark.mission("PT20", "RS1")
def test_files_of_another_schema_are_refused(
    catalog: Catalog, tmp_path: Path, held: pa.Table, error: type[StorageError], told: str
) -> None:
    columns = LANDED | {"id": "BIGINT NOT NULL"}
    table = new_table(catalog, columns, partitions=["day"])
    _wide(held, tmp_path / "landed" / "day=a" / "f.parquet")
    with pytest.raises(error, match=told):
        table.upkeep.add_partitions(str(tmp_path / "landed"), **NOW)
    assert catalog.table("db.t").schema == table.schema
    assert catalog.table("db.t").at().snapshot is None


@pytest.mark.mission("RS1")
def test_a_key_that_the_file_repeats_is_taken_if_it_is_equal(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = landed_table(catalog)
    _wide(pa.table({"id": IDS, "v": ["a", "b"], "day": ["a", "a"]}), tmp_path / "l/day=a/f.parquet")
    table.upkeep.add_partitions(str(tmp_path / "l"), **NOW)
    assert catalog.table("db.t").read().column("day").to_pylist() == ["a", "a"]


def test_a_file_of_an_older_schema_is_taken_over_as_such(catalog: Catalog, tmp_path: Path) -> None:
    table = landed_table(catalog).alter(AddColumn("w", "INT"))
    table.upkeep.add_partitions(str(land_days(tmp_path / "landed")), **NOW)
    table = catalog.table("db.t")
    assert {entry.file.schema_id for entry in table.at().files()} == {0}
    assert set(table.read().column("w").to_pylist()) == {None}


@pytest.mark.mission("RS14")
def test_a_folder_that_is_being_written_is_refused(catalog: Catalog, tmp_path: Path) -> None:
    table = landed_table(catalog)
    root = land_days(tmp_path / "landed")
    with pytest.raises(InvalidRequestError, match="was written 0 s ago"):
        table.upkeep.add_partitions(str(root), age_ms=3_600_000)
    land(root / "_temporary" / "0" / "day=c" / "part-0.parquet", rows_of(0, 1))
    with pytest.raises(InvalidRequestError, match="_temporary is the staging folder"):
        table.upkeep.add_partitions(str(root), **NOW)
    (root / "_temporary/0/day=c/part-0.parquet").unlink()
    (root / "day=a" / ".part-1.parquet.inprogress.7").touch()
    with pytest.raises(InvalidRequestError, match="has the name of an unfinished file"):
        table.upkeep.add_partitions(str(root), **NOW)


FOLDERS = [
    ("day=a/deeper=1/f.parquet", "it has 2 levels of folders, and the keys day need 1"),
    ("f.parquet", "it has 0 levels of folders, and the keys day need 1"),
    ("hour=1/f.parquet", "'hour' is not a partition key; the partition keys of db.t are day"),
    ("day=a/f.parquet.bak", "the end of its name shows no format"),
    ("day=a/000000_0", "the end of its name shows no format"),
]


@pytest.mark.parametrize(("path", "told"), FOLDERS)
@pytest.mark.mission("PT20")
def test_folders_that_do_not_fit_are_refused(
    catalog: Catalog, tmp_path: Path, path: str, told: str
) -> None:
    table = landed_table(catalog)
    where = land(tmp_path / "f.parquet", rows_of(0, 1))
    target = tmp_path / "landed" / path
    target.parent.mkdir(parents=True)
    where.replace(target)
    with pytest.raises(InvalidRequestError, match=told):
        table.upkeep.add_partitions(str(tmp_path / "landed"), **NOW)


def test_a_folder_of_the_table_itself_or_of_another_is_refused(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = landed_table(catalog)
    table.write(rows(table, [{"id": 1, "day": "a"}]))
    for folder in (f"{catalog.root}/db.db/t", f"{catalog.root}/db.db/t/day=a", catalog.root):
        with pytest.raises(InvalidRequestError, match="lie in each other"):
            table.upkeep.add_partitions(folder, **NOW)
    other = new_table(catalog, LANDED, name="db.other", partitions=["day"])
    with pytest.raises(InvalidRequestError, match="is a Paimon table"):
        other.upkeep.add_partitions(f"{catalog.root}/db.db/t", **NOW)
    with pytest.raises(UnsupportedError, match="lies in another store"):
        table.upkeep.add_partitions("s3://bucket/landed", **NOW)


def test_a_folder_that_does_not_exist_is_told_from_one_without_files(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = landed_table(catalog)
    with pytest.raises(InvalidRequestError, match="nowhere does not exist"):
        table.upkeep.add_partitions(str(tmp_path / "nowhere"), **NOW)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidRequestError, match="empty holds no data files"):
        table.upkeep.add_partitions(str(tmp_path / "empty"), **NOW)


def test_one_folder_that_is_no_partition_keeps_the_others_from_a_takeover(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = landed_table(catalog)
    root = land_days(tmp_path / "landed")
    land(root / "f.parquet", rows_of(90, 92))
    with pytest.raises(InvalidRequestError, match=r"folder \. below .* is no partition of db\.t"):
        table.upkeep.add_partitions(str(root), **NOW)
    assert catalog.table("db.t").read().num_rows == 0


def test_rows_do_not_count_again_through_a_symbolic_link(catalog: Catalog, tmp_path: Path) -> None:
    table = landed_table(catalog)
    root = land_days(tmp_path / "landed", ["a"])
    link, above = tmp_path / "link", tmp_path / "above"
    link.symlink_to(root)
    above.symlink_to(tmp_path)
    table.upkeep.add_partitions(str(root / "day=a"), partition={"day": "a"}, **NOW)
    table = catalog.table("db.t")
    for folder in (link / "day=a", above / "landed" / "day=a"):
        with pytest.raises(InvalidRequestError, match="is part of partition day=a of"):
            table.upkeep.add_partitions(str(folder), partition={"day": "b"}, **NOW)
        plan = table.upkeep.plan_add_partitions(str(folder), partition={"day": "a"}, **NOW)
        assert (plan.files, plan.known_files) == (0, 2)
    assert days(catalog.table("db.t")) == [("a", 6)]


def test_a_file_that_a_link_placed_is_known_by_its_own_path(
    catalog: Catalog, tmp_path: Path
) -> None:
    root = land_days(tmp_path / "landed", ["a"])
    (tmp_path / "link").symlink_to(root)
    landed_table(catalog).upkeep.add_partitions(str(tmp_path / "link"), **NOW)
    table = catalog.table("db.t")
    assert table.upkeep.plan_add_partitions(str(root), **NOW).files == 0
    assert table.read().num_rows == 6


def test_a_link_to_the_table_itself_is_refused(catalog: Catalog, tmp_path: Path) -> None:
    table = landed_table(catalog)
    table.write(rows(table, [{"id": 1, "day": "a"}]))
    (tmp_path / "link").symlink_to(f"{catalog.root}/db.db/t/day=a")
    with pytest.raises(InvalidRequestError, match="lie in each other"):
        table.upkeep.add_partitions(str(tmp_path / "link"), partition={"day": "b"}, **NOW)


def test_tables_with_keys_or_buckets_are_refused(catalog: Catalog, tmp_path: Path) -> None:
    root = str(land_days(tmp_path / "landed"))
    keyed = new_table(catalog, LANDED, keys=["id", "day"], partitions=["day"])
    buckets = {"bucket": "2", "bucket-key": "id"}
    bucketed = new_table(catalog, LANDED, name="db.b", partitions=["day"], options=buckets)
    for table in (keyed, bucketed):
        with pytest.raises(UnsupportedError, match="has a primary key or buckets"):
            table.upkeep.add_partitions(root, **NOW)


def test_an_unpartitioned_table_takes_files_over(catalog: Catalog, tmp_path: Path) -> None:
    columns = {"id": "BIGINT", "v": "STRING"}
    table = new_table(catalog, columns)
    land(tmp_path / "landed" / "f.parquet", rows_of(0, 3))
    table.upkeep.add_partitions(str(tmp_path / "landed"), **NOW)
    assert catalog.table("db.t").read(where="id = 2").to_pylist() == [{"id": 2, "v": "v2"}]


def test_filters_use_the_statistics_of_footers(catalog: Catalog, tmp_path: Path) -> None:
    landed_table(catalog).upkeep.add_partitions(str(land_days(tmp_path / "landed")), **NOW)
    table = catalog.table("db.t")
    assert table.scan("id = 14").plan.files_read == 1
    assert table.scan("v >= 'v13'").plan.files_read == 3
    assert table.scan("day = 'a'").plan.files_read == 2
    assert table.scan("v IS NULL").plan.files_read == 0


def test_a_takeover_that_another_commit_overtakes_is_tried_again(
    catalog: Catalog, tmp_path: Path
) -> None:
    root = str(land_days(tmp_path / "landed"))
    table = landed_table(catalog).alter(SetOption("data-file.external-paths", f"file:{root}"))
    plan = table.upkeep.plan_add_partitions(root, **NOW)
    other = catalog.table("db.t")
    late, _ = interrupted(
        table, when=puts_snapshot, meanwhile=lambda: other.write(_own_row(other, "z"))
    )
    assert late.upkeep.run(plan).snapshot.id == 2  # type: ignore[union-attr]
    assert days(catalog.table("db.t")) == [("a", 6), ("b", 6), ("z", 1)]


def test_a_partition_that_is_written_during_the_commit_is_not_doubled(
    catalog: Catalog, tmp_path: Path
) -> None:
    root = str(land_days(tmp_path / "landed"))
    table = landed_table(catalog).alter(SetOption("data-file.external-paths", f"file:{root}"))
    plan = table.upkeep.plan_add_partitions(root, **NOW)
    other = catalog.table("db.t")
    late, _ = interrupted(
        table, when=puts_snapshot, meanwhile=lambda: other.write(_own_row(other, "a"))
    )
    with pytest.raises(StalePlan, match="partition day=a of"):
        late.upkeep.run(plan)
    assert days(catalog.table("db.t")) == [("a", 1)]


def _own_row(table: Table, day: str) -> pa.Table:
    return rows(table, [{"id": 1, "v": "own", "day": day}])
