"""Definitions of tables: built, resolved, kept as JSON."""

from __future__ import annotations

import json

import pytest

from lakewright.connectors.model.catalog_table import CatalogTable
from lakewright.connectors.model.changelog_mode import ChangelogMode, check_fits
from lakewright.storage.errors import CorruptionError, InvalidSchema, UnsupportedError
from lakewright.storage.spec.flink_columns import UnstoredColumn, Watermark
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.table_distribution import TableDistribution


def built(distribution: TableDistribution | None = None) -> CatalogTable:
    return (
        CatalogTable.builder()
        .column("id", "BIGINT NOT NULL", "the number")
        .column("day", "DATE")
        .column("tags", "ARRAY<STRING>")
        .primary_key("id", "day")
        .partitioned_by("day")
        .distributed_by(distribution)
        .option("connector", "memory")
        .options({"place": "here"})
        .comment("of tests")
        .build()
    )


@pytest.mark.mission("BK21", "BK23", "BK24", "CT8", "CN7")
def test_a_table_is_built_step_by_step_and_resolved_with_its_distribution() -> None:
    spread = TableDistribution.of_hash(["id"], 4)
    table = built(spread)
    assert table.distribution == spread
    resolved = table.resolve("db.t")
    assert resolved.distribution == spread
    assert [str(each) for each in resolved.schema.fields] == [
        "id BIGINT NOT NULL",
        "day DATE NOT NULL",
        "tags ARRAY<STRING>",
    ] or [each.name for each in resolved.fields] == ["id", "day", "tags"]
    assert built().resolve("db.t").distribution is None


@pytest.mark.mission("BK11")
def test_a_distribution_names_physical_columns_alone() -> None:
    with pytest.raises(InvalidSchema, match="distributed by nope, which is no column"):
        built(TableDistribution.of_hash(["nope"])).resolve("db.t")
    computed = CatalogTable(
        columns=built().columns,
        unstored=(UnstoredColumn(index=3, name="twice", type="BIGINT", expression="id * 2"),),
        distribution=TableDistribution.of_hash(["twice"], 2),
    )
    with pytest.raises(InvalidSchema, match="twice, which is computed or metadata"):
        computed.resolve("db.t")


def test_json_gives_the_same_table() -> None:
    table = CatalogTable(
        columns=built().columns,
        unstored=(UnstoredColumn(index=1, name="at", type="BIGINT", metadata="offset"),),
        watermark=Watermark("day", "day", "DATE"),
        options={"connector": "x", "ü": "ß"},
        distribution=TableDistribution.of_range(["id"], 3),
    )
    text = json.dumps(table.to_json())
    assert CatalogTable.from_json(text, "db.t") == table
    for broken in ("", "[]", '{"version": 9}', text[:-4]):
        with pytest.raises(CorruptionError, match=r"definition of db.t cannot be read"):
            CatalogTable.from_json(broken, "db.t")


@pytest.mark.mission("CN20", "CN27")
def test_changelog_modes_are_negotiated_and_a_conflict_names_both_sides() -> None:
    insert, upsert, every = (
        ChangelogMode.insert_only(),
        ChangelogMode.upsert(),
        ChangelogMode.all(),
    )
    check_fits(insert, insert, source_name="a", sink_name="b")
    check_fits(every, upsert, source_name="a", sink_name="b")
    check_fits(upsert, every, source_name="a", sink_name="b")
    with pytest.raises(UnsupportedError) as told:
        check_fits(every, insert, source_name="orders", sink_name="files")
    assert "orders gives rows of kinds +I -U +U -D, and files takes +I" in told.value.message
    deletes = ChangelogMode.of(RowKind.INSERT, RowKind.DELETE)
    with pytest.raises(UnsupportedError, match="no place for -D"):
        check_fits(deletes, insert, source_name="a", sink_name="b")
