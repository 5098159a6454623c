"""`lakewright validate-schema`: what it prints of rows that fit, and of rows that do not."""

from __future__ import annotations

from lakewright.storage import Catalog, ChangeType, Table
from tests.support.tables.builders import ANY_LOSS, new_table, rows
from tests.unit.cli.conftest import Lakewright


def retyped(catalog: Catalog) -> Table:
    """A table with a value that its present type cannot hold, and one that it can."""
    table = new_table(
        catalog, {"k": "INT", "v": "INT"}, options={"lakewright.cast-mode": "explicit"}
    )
    table.write(rows(table, [{"k": 1, "v": 300}]))
    table = table.alter(ChangeType("v", "TINYINT"), rules=ANY_LOSS)
    table.write(rows(table, [{"k": 2, "v": 7}]))
    return table


def test_a_person_sees_each_version_and_what_does_not_fit(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = retyped(catalog)
    ended = lakewright(catalog, "validate-schema", "db.t", code=1)
    assert "2 rows of 2 files and 2 schema versions read under schema 1, some do not fit" in (
        ended.out
    )
    assert "schema 0, file data-" in ended.out
    assert "column v: 1 of the sampled values change as they are read, such as 300" in ended.out
    assert len(table.history.snapshots()) == 2


def test_a_script_gets_the_verdict_and_the_files(catalog: Catalog, lakewright: Lakewright) -> None:
    table = retyped(catalog)
    ended = lakewright(catalog, "validate-schema", "db.t", "--format", "json", code=1)
    found = ended.json
    assert not found["passed"]
    (misfit,) = found["misfits"]
    first = next(each for each in table.upkeep.plan_validate_rows().files if not each.schema_id)
    assert (misfit["schema_id"], misfit["file"]) == (0, first.file)


def test_rows_that_fit_end_with_0(catalog: Catalog, lakewright: Lakewright) -> None:
    table = new_table(catalog, {"k": "INT"})
    table.write(rows(table, [{"k": 1}]))
    ended = lakewright(catalog, "validate-schema", "db.t")
    assert "all fit" in ended.out


def test_a_plan_tells_the_files_and_reads_none(catalog: Catalog, lakewright: Lakewright) -> None:
    retyped(catalog)
    found = lakewright(
        catalog, "validate-schema", "db.t", "--dry-run", "--rows-per-file", "5", "--format", "json"
    ).json
    assert found["rows_per_file"] == 5
    assert [each["schema_id"] for each in found["files"]] == [0, 1]


def test_a_table_without_rows_has_nothing_to_validate(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    new_table(catalog)
    ended = lakewright(catalog, "validate-schema", "db.t")
    assert ended.lines == ["db.t: 0 files of 0 schema versions to read under schema 0, about 0 B"]
