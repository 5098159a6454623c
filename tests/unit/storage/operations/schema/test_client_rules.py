"""A change after which other clients would not open the table, or find its files, is refused."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest

from lakewright.storage import (
    Catalog,
    ChangeType,
    DropColumn,
    RenameColumn,
    ResetOption,
    SetOption,
    Table,
)
from lakewright.storage.errors import InvalidOption, StorageError
from lakewright.storage.spec.schema_change import SchemaChange
from tests.support.tables.builders import content, new_table, remove_orphans, rows
from tests.support.tables.invariants import assert_only_reachable_files

COLUMNS = {"id": "BIGINT", "v": "STRING", "at": "INT", "day": "STRING"}
KEPT = {"snapshot.num-retained.min": "3", "snapshot.num-retained.max": "5"}


def keyed(catalog: Catalog, **options: str) -> Table:
    return new_table(catalog, COLUMNS, keys=["id"], options={"bucket": "1", **options})


@pytest.mark.parametrize(
    ("options", "change"),
    [
        ({}, SetOption("snapshot.num-retained.max", "5")),
        (KEPT, ResetOption("snapshot.num-retained.min")),
        ({}, SetOption("target-file-row-num", "0")),
        ({"changelog-producer": "lookup"}, SetOption("streaming-read-overwrite", "true")),
        ({"streaming-read-overwrite": "true"}, SetOption("changelog-producer", "lookup")),
        ({"deletion-vectors.enabled": "true"}, SetOption("changelog-producer", "full-compaction")),
        ({"record-level.time-field": "at"}, ChangeType("at", "STRING")),
        ({"file-index.bloom-filter.columns": "at"}, ChangeType("at", "DECIMAL(12, 2)")),
        (
            {"file-index.bloom-filter.columns": "v", "file-index.bloom-filter.v.items": "9"},
            RenameColumn("v", "w"),
        ),
    ],
    ids=str,
)
def test_a_change_that_locks_other_clients_out_is_refused_and_planned_as_refused(
    catalog: Catalog, options: dict[str, str], change: SchemaChange
) -> None:
    modes = {"disable-explicit-type-casting": "false", "lakewright.cast-mode": "explicit-null"}
    table = keyed(catalog, **options, **(modes if isinstance(change, ChangeType) else {}))
    table.write(rows(table, [{"id": 1, "v": "x", "at": 2, "day": "a"}]))
    with pytest.raises(StorageError, match="would not open the table any more"):
        table.alter(change)
    plan = table.plan_alter(change)
    assert any("would not open the table" in each.message for each in plan.findings)
    assert table.table_files.schemas.ids() == [0]
    assert_only_reachable_files(table)


def test_both_ends_of_a_retention_may_be_set_together_in_any_order(catalog: Catalog) -> None:
    least = SetOption("snapshot.num-retained.min", "2")
    most = SetOption("snapshot.num-retained.max", "5")
    for number, changes in enumerate(((least, most), (most, least))):
        table = new_table(catalog, COLUMNS, name=f"db.t{number}")
        assert table.alter(*changes).options.snapshot_num_retained_max == 5


def test_a_table_of_others_that_breaks_a_rule_may_change_and_be_cured(catalog: Catalog) -> None:
    """An older client took the option, and newer ones open the table no more."""
    table = keyed(catalog)
    schema = replace(
        table.schema, id=1, options={**table.schema.options, "target-file-row-num": "0"}
    )
    assert table.table_files.schemas.put_schema(schema)
    table = catalog.table(table.name).alter(DropColumn("at"))
    with pytest.raises(InvalidOption, match="num-retained"):
        table.alter(SetOption("snapshot.num-retained.max", "5"))
    table = table.alter(ResetOption("target-file-row-num"))
    assert "target-file-row-num" not in table.schema.options


def test_partition_keys_that_an_option_needs_stay(catalog: Catalog) -> None:
    table = new_table(
        catalog, COLUMNS, partitions=["day"], options={"partition.expiration-time": "9 d"}
    )
    table.write(rows(table, [{"id": 1, "v": "x", "at": 2, "day": "a"}]))
    with pytest.raises(InvalidOption, match=r"partition\.expiration-time needs partition keys"):
        table.upkeep.respec([])
    assert table.upkeep.respec(["v"]).schema.partition_keys == ("v",)
    remove_orphans(table)


# --- the folders of partitions --------------------------------------------------------------------

DATE = dt.date(2024, 1, 2)
LEGACY = SetOption("partition.legacy-name", "false")
DEFAULT = SetOption("partition.default-name", "none")


@pytest.mark.parametrize(
    ("kind", "value", "change"),
    [("DATE", DATE, LEGACY), ("STRING", None, DEFAULT), ("STRING", " ", DEFAULT)],
    ids=["a date", "null", "blank"],
)
@pytest.mark.parametrize("kept_by", ["latest", "snapshot", "tag"])
def test_an_option_that_names_folders_stays_while_files_lie_in_one(
    catalog: Catalog, kind: str, value: object, change: SetOption, kept_by: str
) -> None:
    table = new_table(catalog, {"p": kind, "v": "INT"}, partitions=["p"])
    table.write(rows(table, [{"p": value, "v": 1}]))
    before = content(table)
    if kept_by == "tag":
        table.history.create_tag("kept")
    if kept_by != "latest":
        table.write(rows(table, []), mode="overwrite", dynamic=False)
        assert content(table) == []
    if kept_by == "tag":
        table.upkeep.expire_snapshots(retain_min=1, retain_max=1, grace_ms=0)
    with pytest.raises(InvalidOption, match=r"cannot change: the files of partition .* lie in p="):
        table.alter(change)
    assert table.plan_alter(change).findings
    kept = {"latest": {}, "snapshot": {"snapshot": 1}, "tag": {"tag": "kept"}}[kept_by]
    assert table.at(**kept).read().num_rows == len(before)  # type: ignore[arg-type]
    assert_only_reachable_files(table)


def test_an_option_that_names_folders_may_change_where_no_folder_is_named_otherwise(
    catalog: Catalog,
) -> None:
    table = new_table(catalog, {"p": "STRING", "v": "INT"}, partitions=["p"])
    table.write(rows(table, [{"p": "a", "v": 1}]))
    table = table.alter(LEGACY, DEFAULT)
    table.write(rows(table, [{"p": None, "v": 2}]))
    assert len(content(table)) == 2
    plain = new_table(catalog, {"v": "INT"}, name="db.plain").alter(LEGACY)
    assert plain.schema.id == 1
    with pytest.raises(InvalidOption, match="cannot change"):
        table.alter(ResetOption("partition.default-name"))
