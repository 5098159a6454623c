"""Sampling stored rows of every schema version under the current schema."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.storage import AddColumn, Catalog, ChangeType, DropColumn, RenameColumn, Table
from lakewright.storage.errors import InvalidRequestError, StalePlan
from lakewright.storage.operations.schema.validate_rows import (
    FileProfile,
    PartProfile,
    ValidateRowsPlan,
)
from lakewright.storage.spec.data_types import DataField, parse_data_type
from tests.support.tables.builders import ANY_LOSS, new_table, rows

FORMATS = ("parquet", "orc", "avro")
COLUMNS = {"k": "INT", "a": "STRING", "r": "ROW<x INT, y STRING>", "t": "TIMESTAMP(3)"}


def evolved_by_hand(table: Table, *fields: DataField) -> Table:
    """The table after another client wrote a schema that ours would refuse."""
    schema = replace(table.schema, id=table.schema.id + 1, fields=fields)
    assert table.table_files.schemas.put_schema(schema)
    return replace(table, table_files=replace(table.table_files, schema=schema))


def filled(catalog: Catalog, file_format: str = "parquet", **given: object) -> Table:
    options = {"file.format": file_format, "lakewright.cast-mode": "explicit"}
    table = new_table(catalog, COLUMNS, options=options, **given)  # type: ignore[arg-type]
    for text in ("7", "many"):
        table.write(rows(table, [{"k": 1, "a": text, "r": {"x": None, "y": "z"}, "t": None}]))
    return table


def problems(profile: FileProfile) -> list[PartProfile]:
    return [part for part in profile.parts if part.nulls or part.lost or part.held != part.declared]


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("keys", [(), ("k",)])
def test_rows_of_each_version_are_read_and_fit(
    catalog: Catalog, file_format: str, keys: tuple[str, ...]
) -> None:
    given = {"keys": keys} if keys else {}
    table = filled(catalog, file_format, **given)
    table = table.alter(RenameColumn("a", "b"), AddColumn("r.z", "DATE"), DropColumn("t"))
    table.write(rows(table, [{"k": 3, "b": "x", "r": {"x": 1, "y": "z", "z": None}}]))
    plan = table.upkeep.plan_validate_rows(files_per_version=1)
    assert [(each.schema_id, each.files, each.rows) for each in plan.versions] == [
        (0, 2, 2),
        (1, 1, 1),
    ]
    assert [each.schema_id for each in plan.files] == [0, 1]
    result = table.upkeep.run(ValidateRowsPlan.from_json(plan.to_json()))
    for profile in result.profiles:
        assert (profile.error, profile.rows_in_file, profile.rows_read) == (None, 1, 1)
        assert profile.parts
        assert problems(profile) == []


def test_values_that_a_cast_loses_and_texts_that_fail_are_told_by_file(catalog: Catalog) -> None:
    table = filled(catalog).alter(
        ChangeType("a", "INT"), ChangeType("r.y", "CHAR(1)"), rules=ANY_LOSS
    )
    good, bad = sorted(
        table.upkeep.validate_rows().profiles, key=lambda each: each.error is not None
    )
    assert good.error is None
    assert problems(good) == []
    assert bad.error is not None
    assert "'many' cannot be read as INT" in bad.error
    (lost,) = problems(bad)
    assert (lost.column, lost.lost, lost.example) == ("a", 1, "'many'")
    assert lost.loss == "STRING to INT: texts that are no INT fail the read"


def test_nulls_that_the_schema_refuses_are_counted_at_every_depth(catalog: Catalog) -> None:
    table = filled(catalog)
    strict = [
        replace(field, type=parse_data_type(f"{field.type} NOT NULL"))
        for field in table.schema.fields
        if field.name in ("k", "t")
    ]
    row = replace(
        table.schema.field("r"),
        type=replace(
            table.schema.field("r").type,
            fields=tuple(
                replace(member, type=replace(member.type, nullable=False))
                for member in table.schema.field("r").type.fields  # type: ignore[union-attr]
            ),
        ),
    )
    table = evolved_by_hand(table, strict[0], table.schema.field("a"), row, strict[1])
    for profile in table.upkeep.validate_rows().profiles:
        # Null in a member that refuses it fails the read; nothing is known of the read columns.
        assert profile.error is not None
        assert "null where int32 must not be null" in profile.error
        assert {each.column: each.nulls for each in problems(profile)} == {"r.x": 1}
    table = evolved_by_hand(table, strict[0], table.schema.field("a"), strict[1])
    for profile in table.upkeep.validate_rows().profiles:
        assert profile.error is None
        assert {each.column: each.nulls for each in problems(profile)} == {"t": 1}


def test_a_file_that_is_not_what_its_schema_says_is_told(catalog: Catalog) -> None:
    table = filled(catalog)
    first = table.upkeep.plan_validate_rows().files[0]
    path = f"{table.table_files.paths.root}/bucket-0/{first.file}"
    held = pq.read_table(path)
    wrong = held.set_column(0, "k", pa.array(["one"]))
    pq.write_table(pa.concat_tables([wrong, wrong]), path)
    profile = table.upkeep.validate_rows().profiles[0]
    assert (profile.rows_in_file, profile.file.rows) == (2, 1)
    assert profile.error is not None
    assert "holds 2 rows, its manifest says 1" in profile.error
    (kind,) = problems(profile)
    assert (kind.column, kind.held, kind.declared) == ("k", "text", "whole number")
    pq.write_table(held, path)


def test_rows_that_are_deleted_do_not_count(catalog: Catalog) -> None:
    table = new_table(
        catalog,
        {"k": "INT", "a": "INT"},
        keys=["k"],
        options={
            "bucket": "1",
            "deletion-vectors.enabled": "true",
            "lakewright.cast-mode": "explicit",
        },
    )
    # A large file stays when a row of it is replaced.
    table.write(rows(table, [{"k": 1, "a": 300}, *({"k": k, "a": 7} for k in range(2, 9999))]))
    table.upkeep.compact(full=True)
    table.write(rows(table, [{"k": 1, "a": 8}]))
    table.upkeep.compact()
    table = table.alter(ChangeType("a", "TINYINT"), rules=ANY_LOSS)
    profiles = table.upkeep.validate_rows(files_per_version=9).profiles
    assert sorted(each.rows_read for each in profiles) == [1, 999]
    assert [problems(each) for each in profiles] == [[], []]


@pytest.mark.deep
def test_many_versions_cost_their_files_and_no_more(catalog: Catalog) -> None:
    table = new_table(catalog, {"k": "INT"})
    for number in range(40):
        table.write(rows(table, [dict.fromkeys(table.schema.field_names, number)]))
        table = table.alter(AddColumn(f"c{number}", "INT"))
    plan = table.upkeep.plan_validate_rows(files_per_version=1)
    assert len(plan.files) == len(plan.versions) == 40
    profiles = table.upkeep.run(plan).profiles
    assert [each.error for each in profiles] == [None] * 40


def test_repeated_runs_see_other_files(catalog: Catalog) -> None:
    table = new_table(catalog, {"k": "INT"})
    chosen = set()
    for number in range(8):
        table.write(rows(table, [{"k": number}]))
        chosen |= {each.file for each in table.upkeep.plan_validate_rows(files_per_version=1).files}
    assert len(chosen) > 2


def test_a_table_without_rows_and_bad_numbers(catalog: Catalog) -> None:
    table = new_table(catalog, {"k": "INT"})
    assert table.upkeep.validate_rows().profiles == ()
    with pytest.raises(InvalidRequestError, match="rows_per_file is 0; give a number from 1"):
        table.upkeep.validate_rows(rows_per_file=0)


def test_a_plan_that_was_edited_or_is_old_is_refused(catalog: Catalog) -> None:
    table = filled(catalog)
    plan = table.upkeep.plan_validate_rows()
    for edited in (
        replace(plan, files=(replace(plan.files[0], file="data-other.parquet"),)),
        replace(plan, files=(replace(plan.files[0], schema_id=5),)),
        replace(plan, snapshot_id=99),
    ):
        with pytest.raises(StalePlan, match="plan again"):
            table.upkeep.run(edited)


def test_a_file_that_yields_no_rows_is_a_profile_and_not_an_error_of_python(
    catalog: Catalog,
) -> None:
    table = filled(catalog)
    plan = table.upkeep.plan_validate_rows(files_per_version=1)
    path = f"{table.table_files.paths.root}/bucket-0/{plan.files[0].file}"
    held = pq.read_table(path)
    pq.write_table(held.slice(0, 0), path)
    (profile,) = table.upkeep.run(plan).profiles
    assert (profile.rows_in_file, profile.rows_read) == (0, 0)
    assert "its manifest says 1" in (profile.error or "")
    pq.write_table(held, path)


@pytest.mark.parametrize("name", ["files_per_version", "rows_per_file"])
@pytest.mark.parametrize("value", [1.5, "3", True, None, 0])
def test_a_number_of_files_or_rows_is_a_whole_one(
    catalog: Catalog, name: str, value: object
) -> None:
    with pytest.raises(InvalidRequestError, match=f"{name} is .*give"):
        filled(catalog).upkeep.plan_validate_rows(**{name: value})  # type: ignore[arg-type]
