"""`adopt`: the worst table first, a policy file never overwritten, an untouched warehouse."""

from __future__ import annotations

import csv
import shlex
import shutil
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
import yaml

from lakewright.cli.output.text import printable
from lakewright.platform.decide.survey import TableSurvey
from lakewright.platform.decide.take_survey import survey_warehouse
from lakewright.platform.tables.upkeep_policies import WarehousePolicy
from lakewright.storage import Catalog
from tests.support.tables.builders import events, new_table, rows
from tests.unit.cli.conftest import Lakewright


def written(catalog: Catalog, name: str, times: int) -> None:
    table = new_table(catalog, name=name)
    for number in range(times):
        table.write(rows(table, events(number, number + 1)))


@pytest.fixture
def neglected(unchecked_catalog: Catalog) -> Catalog:
    """A table without debt, one with some, one with more, and one that is damaged."""
    for name, times in (("a.well", 1), ("a.ill", 3), ("b.worst", 5), ("b.bad", 1)):
        written(unchecked_catalog, name, times)
    (Path(unchecked_catalog.root) / "b.db/bad/snapshot/snapshot-1").write_text("{")
    return unchecked_catalog


def content(folder: str) -> dict[str, tuple[bytes, int]]:
    return {
        str(each): (each.read_bytes(), each.stat().st_mtime_ns)
        for each in Path(folder).rglob("*")
        if each.is_file()
    }


def test_adopt_shows_the_worst_table_first_and_touches_nothing(
    neglected: Catalog, lakewright: Lakewright
) -> None:
    before = content(neglected.root)
    ended = lakewright(None, "adopt", neglected.uri)
    assert not ended.err
    assert [line.split()[0] for line in ended.lines[2:5]] == ["b.bad", "b.worst", "a.ill"]
    assert "cannot be read" in ended.lines[2]
    assert "5 small files to join" in ended.lines[3]
    assert "1 table has nothing wrong." in ended.lines
    assert any(line.startswith("4 tables: 9 files, ") for line in ended.lines)
    assert "1 table cannot be read, and would be frozen" in ended.lines
    assert any("adopt" in line and "--policy" in line for line in ended.lines)
    assert any("compact b.worst --dry-run" in line for line in ended.lines)
    assert content(neglected.root) == before


def test_the_commands_that_adopt_names_can_be_given(
    neglected: Catalog, lakewright: Lakewright, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = lakewright(neglected, "adopt").lines
    commands = [line.split() for line in lines if line.startswith("  lakewright")]
    assert len(commands) >= 2
    for _, *words in commands:
        lakewright(None, *words)


def test_adopt_prints_one_object_a_table_one_a_line(
    neglected: Catalog, lakewright: Lakewright
) -> None:
    found = lakewright(neglected, "adopt", "--format", "json").json_lines
    assert [each["table"] for each in found] == ["a.ill", "a.well", "b.bad", "b.worst"]
    surveys: dict[str, TableSurvey] = {
        each.table: each for each in survey_warehouse(neglected, worst=0)
    }
    for each in found:
        own = surveys[each["table"]]
        assert each["files"]["files"] == own.files.files
        assert each["history"]["snapshots"] == own.history.snapshots
        assert each["problem"] == own.problem
    assert found[3]["debt"]["files"] == 5
    assert found[3]["findings"][0].startswith("5 small files to join")


def test_adopt_as_csv_has_a_column_for_each_figure(
    neglected: Catalog, lakewright: Lakewright
) -> None:
    text = lakewright(neglected, "adopt", "--tables", "b.*", "--format", "csv").out
    found = list(csv.DictReader(StringIO(text)))
    assert [each["table"] for each in found] == ["b.bad", "b.worst"]
    assert found[1]["files.files"] == "5"
    assert found[1]["debt.files"] == "5"


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_policy_file_is_written_once_and_never_overwritten(
    neglected: Catalog, lakewright: Lakewright, tmp_path: Path, form: str
) -> None:
    policy = tmp_path / "warehouse.yaml"
    before = content(neglected.root)
    lakewright(neglected, "adopt", "--policy", str(policy), "--format", form)
    found = yaml.safe_load(policy.read_text("utf-8"))
    WarehousePolicy.model_validate(found["warehouse"])
    assert found["tables"]["b.bad"] == {"freeze": True}
    assert content(neglected.root) == before
    policy.write_text("mine")
    again = lakewright(neglected, "adopt", "--policy", str(policy), code=2)
    assert "exists and was left as it is" in again.err
    assert policy.read_text("utf-8") == "mine"


def test_a_policy_in_no_folder_is_refused_before_the_look(
    neglected: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    ended = lakewright(neglected, "adopt", "--policy", str(tmp_path / "no" / "p.yaml"), code=2)
    assert "there is no folder" in ended.err
    assert not (tmp_path / "no").exists()


def test_a_warehouse_without_tables_says_so(catalog: Catalog, lakewright: Lakewright) -> None:
    catalog.create_database("db")
    assert lakewright(catalog, "adopt").lines == [f"no tables in {catalog.uri}"]
    assert lakewright(catalog, "adopt", "--format", "json").out == ""
    lakewright(None, "adopt", f"{catalog.root}/nowhere", code=3)


def test_all_tables_of_a_copied_warehouse_name_their_files_where_they_lie_now(
    unchecked_catalog: Catalog, lakewright: Lakewright
) -> None:
    """Also those of a branch; a table with a lost file is told, and the others are named."""
    catalog = unchecked_catalog
    for name in ("db.a", "db.b", "other.c"):
        table = new_table(catalog, name=name, partitions=["day"])
        table.write(rows(table, events(0, 4)))
        table.upkeep.respec([])
    table.history.create_tag("kept")
    table.history.create_branch("b", tag="kept")
    plain = new_table(catalog, name="db.plain")
    plain.write(rows(plain, events(0, 2)))
    copied = replace(catalog, root=f"{catalog.root}-copied")
    shutil.copytree(catalog.root, copied.root)
    lost = next(Path(copied.root, "db.db/b").rglob("*.parquet"))
    lost.rename(lost.with_suffix(".lost"))
    done = lakewright(copied, "adopt", "--moved-from", catalog.root)
    assert "db.a: 1 file named where they lie now" in done.err
    assert "other.c: 2 files named where they lie now; 1 tag (kept) can be read in the" in done.err
    assert "db.b: 1 of 1 files of db.b" in done.err
    assert "plain" not in done.err
    shutil.rmtree(catalog.root)
    for name in ("db.a", "other.c", "db.plain"):
        assert copied.table(name).read().num_rows == (2 if name == "db.plain" else 4)
    assert copied.table("other.c").history.at_branch("b").read().num_rows == 4
    again = lakewright(copied, "adopt", "--moved-from", catalog.root, "--tables", "*.a")
    assert "no table names files below" in again.err


@pytest.mark.parametrize("name", ["a;echo b", "a`id`", "a\x1b[2J", "a\nb"])
def test_commands_to_paste_quote_what_a_shell_would_carry_out(
    unchecked_catalog: Catalog, lakewright: Lakewright, name: str
) -> None:
    written(unchecked_catalog, f"a.{name}", 3)
    ended = lakewright(None, "adopt", unchecked_catalog.uri)
    given = [line for line in ended.lines if "--policy" not in line and "--dry-run" in line]
    quoted = printable(shlex.quote(f"a.{name}"))
    assert given
    assert all(line.endswith(f" {quoted} --dry-run") for line in given)
