"""Metadata of later versions of the format: the table is read, and not written to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import UnsupportedError
from tests.support.tables.builders import compact, content, events, expire, remove_orphans, rows
from tests.support.tables.foreign_metadata import (
    change_json,
    change_records,
    root_of,
    table_of_everything,
)

WRITES: dict[str, Callable[[Table], object]] = {
    "write": lambda table: table.write(rows(table, events(3, 4))),
    "overwrite": lambda table: table.write(rows(table, events(3, 4)), mode="overwrite"),
    "compact": lambda table: compact(table, full=True),
    "analyze": lambda table: table.upkeep.run(table.upkeep.plan_analyze()),
}
DELETIONS: dict[str, Callable[[Table], object]] = {
    "expire": expire,
    "remove orphans": remove_orphans,
    "roll back": lambda table: table.history.run(
        table.history.plan_rollback(snapshot=1, grace_ms=0)
    ),
}


@pytest.fixture
def table(unchecked_catalog: Catalog) -> Table:
    made = table_of_everything(unchecked_catalog)
    made.history.delete_consumer("reader")
    return made


def data_files(table: Table) -> list[Path]:
    return sorted(root_of(table).rglob("data-*"))


def latest_snapshot_file(table: Table) -> Path:
    latest = table.history.latest_snapshot()
    assert latest is not None
    return root_of(table) / f"snapshot/snapshot-{latest.id}"


@pytest.mark.parametrize("verb", [*WRITES, *DELETIONS])
def test_an_unknown_snapshot_field_stops_each_verb_that_writes_or_deletes(
    table: Table, verb: str
) -> None:
    change_json(latest_snapshot_file(table), lambda data: data.update(rowLineage="x"))
    readable, before = content(table), data_files(table)
    with pytest.raises(UnsupportedError, match="later version of the format: rowLineage"):
        {**WRITES, **DELETIONS}[verb](table)
    assert set(before) <= set(data_files(table))
    assert content(table) == readable


@pytest.mark.parametrize("verb", list(DELETIONS))
@pytest.mark.parametrize("file", ["tag/tag-kept", "branch/branch-side/snapshot/snapshot-3"])
def test_nothing_is_deleted_beside_a_tag_or_branch_with_an_unknown_field(
    table: Table, verb: str, file: str
) -> None:
    change_json(root_of(table) / file, lambda data: data.update(rowLineage="x"))
    before = data_files(table)
    with pytest.raises(UnsupportedError, match="rowLineage"):
        DELETIONS[verb](table)
    assert data_files(table) == before


def test_a_field_that_appears_between_stage_and_commit_stops_the_commit(table: Table) -> None:
    staged = table.stage(rows(table, events(3, 4)))
    change_json(latest_snapshot_file(table), lambda data: data.update(rowLineage="x"))
    with pytest.raises(UnsupportedError, match="rowLineage"):
        table.commit(staged)


def test_fields_that_other_clients_may_leave_out_stop_nothing(table: Table) -> None:
    change_json(latest_snapshot_file(table), lambda data: data.update(totalFileSize=1, uuid="u"))
    assert table.write(rows(table, events(3, 4))).snapshot is not None


def test_an_index_of_an_unknown_kind_stops_each_commit(table: Table) -> None:
    for path in (root_of(table) / "manifest").glob("index-manifest-*"):
        change_records(path, lambda record: record.update(_INDEX_TYPE="RANGES"))
    table.read()
    with pytest.raises(UnsupportedError, match="of kind RANGES, and this release knows DELETION"):
        table.write(rows(table, events(3, 4)))


def test_an_option_that_another_client_sets_meanwhile_stops_the_commit(table: Table) -> None:
    staged = table.stage(rows(table, events(3, 4)))

    def later(data: dict[str, object]) -> None:
        options = data["options"]
        assert isinstance(options, dict)
        data.update(id=1, options={**options, "sequence.snapshot-ordering": "true"})

    (root_of(table) / "schema/schema-1").write_bytes(
        (root_of(table) / "schema/schema-0").read_bytes()
    )
    change_json(root_of(table) / "schema/schema-1", later)
    with pytest.raises(UnsupportedError, match=r"sequence\.snapshot-ordering=true"):
        table.commit(staged)
