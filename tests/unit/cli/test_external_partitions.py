"""`add-partitions`, `repair-partitions`, `format-table`: what they do and say."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakewright.storage import Catalog
from lakewright.storage.errors import UnsupportedError
from tests.support.tables.builders import new_table
from tests.support.tables.landed import LANDED, land, land_days, rows_of
from tests.unit.cli.conftest import Lakewright, on_disk


@pytest.mark.mission("PT37", "PT65", "PT66")
def test_folders_are_taken_over_and_repaired(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    new_table(catalog, LANDED, partitions=["day"])
    root = land_days(tmp_path / "landed")
    before = on_disk(catalog)
    asked = ("add-partitions", "db.t", str(root), "--age", "0s")
    dry = lakewright(catalog, *asked, "--dry-run")
    assert dry.lines[0].startswith("db.t: 2 partitions with 12 rows in 4 files, ")
    assert dry.lines[-1] == "dry run: nothing was written"
    assert on_disk(catalog) == before
    done = lakewright(catalog, *asked)
    assert done.lines[0].startswith("snapshot 1 of db.t: 2 partitions with 12 rows in 4 files")
    assert "no verb of this table deletes them" in done.out
    again = lakewright(catalog, *asked, "--format", "json").json
    assert (again["files"], again["known_files"]) == (0, 4)

    one = ("add-partitions", "db.t", str(root / "day=a"), "--partition", "day=a", "--age", "0s")
    assert "2 files there are part of the table already" in lakewright(catalog, *one).out

    land(root / "day=c" / "f.parquet", rows_of(90, 92))
    drift = lakewright(catalog, "repair-partitions", "db.t", "--age", "0s", "--dry-run")
    assert drift.lines[0] == "db.t: 1 file found, 0 files gone, 0 folders skipped"
    assert drift.lines[-2].split()[:2] == ["c", "found"]
    repaired = lakewright(catalog, "repair-partitions", "db.t", "--age", "0s")
    assert repaired.lines[0] == (
        "snapshot 2 of db.t: 1 file with 2 rows added, 0 files with 0 rows dropped"
    )
    young = lakewright(catalog, "add-partitions", "db.t", str(root), code=2)
    assert "may be being written" in young.err


def test_several_folders_of_one_partition_count_as_one(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    new_table(catalog, {**LANDED, "day": "INT"}, partitions=["day"])
    for number, day in enumerate(["1", "01", "%31", "2"]):
        land(tmp_path / "landed" / f"day={day}" / "f.parquet", rows_of(number, number + 1))
    asked = ("add-partitions", "db.t", str(tmp_path / "landed"), "--age", "0s")
    done = lakewright(catalog, *asked)
    assert "db.t: 2 partitions with 4 rows in 4 files" in done.lines[0]
    assert catalog.table("db.t").read("day = 1").num_rows == 3


def test_what_is_there_already_and_what_is_nowhere_is_told(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    new_table(catalog, LANDED, partitions=["day"])
    land(tmp_path / "landed" / "day=a" / "f.parquet", rows_of(0, 1))
    asked = ("add-partitions", "db.t", str(tmp_path / "landed"), "--age", "0s")
    lakewright(catalog, *asked)
    assert "1 file there is part of the table already" in lakewright(catalog, *asked).out
    nowhere = lakewright(catalog, *asked[:2], str(tmp_path / "nowhere"), code=2)
    assert "nowhere does not exist" in nowhere.err


@pytest.mark.mission("RS14")
def test_a_repair_tells_a_stray_folder_and_drops_what_is_gone_beside_young_files(
    unchecked_catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    catalog = unchecked_catalog
    new_table(catalog, LANDED, partitions=["day"])
    root = land_days(tmp_path / "landed")
    lakewright(catalog, "add-partitions", "db.t", str(root), "--age", "0s")
    shutil.rmtree(root / "day=b")
    land(root / "late" / "f1.parquet", rows_of(90, 92))
    lost = lakewright(catalog, "read", "db.t", code=3)
    assert lost.code != 0
    assert "`lakewright repair-partitions db.t --mode drop` drops its rows" in lost.err
    dry = lakewright(catalog, "repair-partitions", "db.t", "--mode", "drop", "--dry-run")
    assert dry.lines[0] == "db.t: 0 files found, 2 files gone, 1 folder skipped"
    gone, stray = (line.split() for line in dry.lines[-3:-1])
    assert gone[:2] == ["b", "gone"]
    assert stray[:3] == ["-", "skipped", "-"]
    assert f"folder late below {root} is no partition of db.t" in dry.out
    done = lakewright(catalog, "repair-partitions", "db.t", "--mode", "drop")
    assert done.lines[0].endswith("2 files with 6 rows dropped")
    lakewright(catalog, "read", "db.t")


def test_a_read_of_a_file_that_its_owner_wrote_over_names_the_repair_that_tells_it(
    unchecked_catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    catalog = unchecked_catalog
    new_table(catalog, LANDED, partitions=["day"])
    root = tmp_path / "landed"
    for day in ("a", "b"):
        land(root / f"day={day}" / "f.parquet", rows_of(0, 2))
    asked = ("add-partitions", "db.t", str(root), "--age", "0s")
    lakewright(catalog, *asked)
    land(root / "day=a" / "f.parquet", rows_of(0, 3))
    read = lakewright(catalog, "read", "db.t", code=6)
    assert "holds 3 rows, its manifest says 2; the file lies outside of the table" in read.err
    assert "`lakewright repair-partitions db.t`" in read.err
    told = lakewright(catalog, "repair-partitions", "db.t", "--age", "0s")
    assert "f.parquet was written over" in told.out
    lakewright(catalog, "drop-partitions", "db.t", "--partition", "day=a")
    lakewright(catalog, *asked)
    assert catalog.table("db.t").read().num_rows == 5


def test_folders_of_values_need_their_keys(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    new_table(catalog, LANDED, partitions=["day"])
    land(tmp_path / "landed" / "a" / "f.parquet", rows_of(0, 1))
    asked = ("add-partitions", "db.t", str(tmp_path / "landed"), "--age", "0s")
    lakewright(catalog, *asked, code=2)
    lakewright(catalog, *asked, "--keys", "day")
    one = ("add-partitions", "db.t", str(tmp_path / "more"), "--age", "0s")
    land(tmp_path / "more" / "f.parquet", rows_of(1, 2))
    lakewright(catalog, *one, "--partition", "day=__DEFAULT_PARTITION__")
    assert catalog.table("db.t").read().column("day").to_pylist() == ["a", None]


@pytest.mark.mission("PT14", "PT44", "PT65", "PT66", "CT6")
def test_a_format_table_is_made_read_and_kept(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    catalog.create_database("db")
    root = land_days(tmp_path / "landed", ["a"])
    columns = [text for name, kind in LANDED.items() for text in ("--column", f"{name} {kind}")]
    made = lakewright(
        catalog, "format-table", "create", "db.f", *columns, "--partition-keys", "day",
        "--location", str(root), "--registry",
    )  # fmt: skip
    assert made.lines == [f"db.f reads {root.as_uri()}"]

    def said(*words: str) -> list[str]:
        return lakewright(catalog, "format-table", words[0], "db.f", *words[1:]).lines

    assert said("partitions") == ["no partitions"]
    assert said("repair", "--dry-run") == ["found: a", "dry run: nothing was written"]
    assert said("repair") == ["found: a", "db.f is repaired: add"]
    assert said("partitions")[2:] == ["a"]
    assert said("read", "--where", "id = 4", "--format", "csv") == ["id,v,day", "4,v4,a"]
    said("add", "--partition", "day=b")
    assert (root / "day=b").is_dir()
    (root / "day=%62").mkdir()
    left = f"left: {root}/day=%62: the folder of day=b is {root}/day=b; move the files there"
    assert said("repair") == [left, "db.f is repaired: add"]
    assert said("drop", "--partition", "day=a") == ["1 partition of db.f dropped"]
    assert said("partitions")[2:] == ["b"]
    missing = lakewright(catalog, "format-table", "drop", "db.f", "--partition", "day=a", code=3)
    assert "no partition day=a" in missing.err


@pytest.fixture
def plain_files(catalog: Catalog, tmp_path: Path) -> Path:
    """The folder of a format table `db.f` with one partition."""
    root = land_days(tmp_path / "landed", ["a"])
    catalog.create_format_table("db.f", LANDED, partition_keys=["day"], location=str(root))
    return root


def test_show_tells_what_a_format_table_is_and_where_its_files_lie(
    catalog: Catalog, lakewright: Lakewright, plain_files: Path
) -> None:
    shown = lakewright(catalog, "show", "db.f").out
    assert f"location        {plain_files.as_uri()}\n" in shown
    assert "kind            format table: folders of parquet files, without snapshots\n" in shown
    assert "partitions      1, known by their folders\n" in shown
    found = lakewright(catalog, "show", "db.f", "--format", "json").json
    assert (found["type"], found["file_format"]) == ("format-table", "parquet")
    assert (found["location"], found["partition_keys"]) == (plain_files.as_uri(), ["day"])


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        ("partitions db.f", "call `lakewright format-table partitions db.f`"),
        ("read db.f", "call `lakewright format-table read db.f`"),
        ("drop-partitions db.f", "call `lakewright format-table drop db.f`"),
        ("files db.f", "`lakewright format-table --help` lists the commands for it"),
        ("snapshots db.f", "`lakewright format-table --help` lists the commands for it"),
        # A system table is not empty.
        ("inspect db.f partitions", ""),
    ],
)
@pytest.mark.usefixtures("plain_files")
def test_commands_for_snapshots_refuse_a_format_table_and_name_the_command_for_it(
    catalog: Catalog, lakewright: Lakewright, command: str, instead: str
) -> None:
    refused = lakewright(catalog, *command.split(), code=4)
    assert not refused.out
    assert "db.f is a format table" in refused.err
    assert instead in refused.err


@pytest.mark.usefixtures("plain_files")
def test_ls_counts_no_rows_of_a_format_table(catalog: Catalog, lakewright: Lakewright) -> None:
    assert "(format table)" in lakewright(catalog, "ls").lines[2]
    assert lakewright(catalog, "ls", "--format", "json").json[0]["rows_in_files"] is None


@pytest.mark.usefixtures("plain_files")
def test_opening_a_format_table_with_snapshots_names_the_ways_to_open_it(catalog: Catalog) -> None:
    with pytest.raises(UnsupportedError, match="is opened by `lakewright format-table`"):
        catalog.table("db.f").scan()
