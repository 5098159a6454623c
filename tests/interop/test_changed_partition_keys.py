"""Partition keys that we change: other clients read the table at every moment of the change."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import AddColumn, Catalog, Table
from lakewright.storage.codec.binary_row import row_arity
from tests.interop.test_they_read_ours import as_read_by
from tests.oracles.client import Condition, JavaOracle, Oracle, OracleError, WritingOracle
from tests.support.stores.watched_files import Call, WatchedFiles, looked_at
from tests.support.tables.builders import content, new_table, remove_orphans, rows
from tests.support.tables.deleted_rows import delete_first_rows
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.values.every_type import PARTITIONS

COLUMNS = {"dt": "STRING", "hh": "INT", "origin": "STRING", "day": "DATE", "v": "BIGINT"}
READERS = ("released_pypaimon", "rust", "java_latest")


def events(table: Table, date: str, hours: Sequence[int | None], first: int = 0) -> None:
    given = [
        {"dt": date, "hh": hour, "origin": origin, "day": dt.date(2024, 1, 1 + number), "v": first}
        for number, hour in enumerate(hours)
        for origin in ("JFK", "L/G:A", None)
    ]
    table.write(rows(table, given))


def table_of_days(catalog: Catalog, file_format: str = "parquet", **options: str) -> Table:
    """Some files have one hour, others several or none; the column `late` came later."""
    table = new_table(
        catalog, COLUMNS, partitions=["dt"], options={"file.format": file_format, **options}
    )
    events(table, "a b=c", [1])
    events(table, "a b=c", [2, 3, None])
    table = table.alter(AddColumn("late", "INT"))
    events(table, "2024-01-02", [1, 2], first=7)
    return table


def moments(
    catalog: Catalog, table: Table, keys: Sequence[str], folder: Path, **how: Any
) -> tuple[Table, list[Path]]:
    """Change the keys, and copy the warehouse whenever a reader may see something new."""
    copies: list[Path] = []

    def look(call: Call) -> None:
        if call.changes and ("/snapshot/snapshot-" in call.path or "/schema/schema-" in call.path):
            copies.append(folder / str(len(copies)))
            shutil.copytree(catalog.root, copies[-1])

    watched = replace(catalog, fs=WatchedFiles(catalog.fs, after=looked_at(look)))
    watched.table(table.name).upkeep.respec(keys, **how)
    return catalog.table(table.name), copies


def has_wide_rows(table: Table) -> bool:
    """Whether rows of partitions have more values than the table has keys."""
    keys = len(table.schema.partition_keys)
    return any(row_arity(entry.partition) > keys for entry in table.at().files())


def reads(client: Oracle, catalog: Catalog, table: Table) -> bool:
    try:
        as_read_by(client, catalog, table)
    except OracleError as error:
        if "does not match row arity" not in str(error):
            raise
        return False
    return True


# The Java driver keeps a text in a filter only if it comes last.
FILTERS: dict[str, Sequence[Condition]] = {
    "dt = '2024-01-02'": [("dt", "=", "2024-01-02")],
    "hh = 2": [("hh", "=", 2)],
    "hh IS NULL": [("hh", "is null")],
    "v = 7 AND origin = 'JFK'": [("v", "=", 7), ("origin", "=", "JFK")],
    "late IS NULL": [("late", "is null")],
}
CHANGES: dict[str, list[tuple[str, ...]]] = {
    "a key comes": [("dt", "hh")],
    "a key of text comes": [("dt", "origin")],
    "a column that files lack comes": [("dt", "late")],
    "all keys go": [()],
    "a key is replaced": [("day",)],
    "coarser and finer": [("dt", "hh", "origin"), ("dt", "hh"), ("dt",), ("hh",)],
}


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("change", list(CHANGES))
@pytest.mark.sampled(each="change")
@pytest.mark.mission("PT1", "PT2", "PT3", "PT4", "SE6", "SE15", "SE16")
def test_they_read_every_moment_of_a_change(
    catalog: Catalog,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    reader: str,
    change: str,
    file_format: str,
) -> None:
    client: Oracle = request.getfixturevalue(reader)
    table = table_of_days(catalog, file_format)
    due, seen = content(table), 0
    for number, keys in enumerate(CHANGES[change]):
        filtered = {text: content(table, where=text) for text in FILTERS}
        table, copies = moments(catalog, table, keys, tmp_path / str(number))
        assert content(table) == due
        for copy in copies:
            at = replace(catalog, root=str(copy))
            if reader == "rust" and not reads(client, at, table):
                # It refuses a row with more values than keys, for as long as the change takes.
                assert has_wide_rows(at.table(table.name))
                continue
            read = as_read_by(client, at, table)
            assert read == due, f"{keys}, moment {copy.name}"
            for text, where in FILTERS.items():
                found = as_read_by(client, at, table, where=where)
                assert found == filtered[text], f"{keys}, moment {copy.name}, {text}"
            seen += 1
        first = as_read_by(client, catalog, table, snapshot=1)
        assert len(first) == 3
        events(table, f"new{number}", [5, 6], first=9)
        due = content(table)
        assert as_read_by(client, catalog, table) == due
        assert_only_reachable_files(table)
    assert seen >= len(CHANGES[change])


@pytest.mark.mission("PT1")
def test_java_below_1_0_refuses_a_restated_table_loudly_and_reads_what_was_before(
    catalog: Catalog, java: JavaOracle
) -> None:
    table = new_table(catalog, COLUMNS, partitions=["dt"])
    events(table, "a", [1])
    before = content(table)
    table.upkeep.respec(["dt", "hh"])
    with pytest.raises(OracleError, match=r"does not exist|FileNotFound"):
        as_read_by(java, catalog, table)
    assert as_read_by(java, catalog, table, snapshot=1) == before


@pytest.mark.parametrize("writer", ["java_latest", "released_pypaimon"])
@pytest.mark.parametrize("keys", [("dt", "hh"), ()], ids=["a key comes", "all keys go"])
@pytest.mark.mission("PT1", "PT4")
def test_rows_of_a_writer_that_opened_the_table_before_are_restated_by_our_next_commit(
    catalog: Catalog,
    request: pytest.FixtureRequest,
    java_latest: Oracle,
    released_pypaimon: Oracle,
    writer: str,
    keys: tuple[str, ...],
) -> None:
    """Our reader finds them at once; other clients fail or find them after that commit."""
    client: WritingOracle = request.getfixturevalue(writer)
    table = new_table(catalog, {"dt": "STRING", "hh": "INT", "v": "INT"}, partitions=["dt"])
    table.write(rows(table, [{"dt": "a", "hh": 1, "v": 0}]))
    client.begin_write(catalog.root, table.name, [{"dt": "a", "hh": 1, "v": 1}])
    table.upkeep.respec(keys)
    client.finish_write(catalog.root, table.name, [{"dt": "b", "hh": 2, "v": 2}])
    table = catalog.table(table.name)
    assert [row["v"] for row in sorted(table.read().to_pylist(), key=str)] == [0, 1, 2]
    assert table.read("hh = 2").num_rows == table.read("dt = 'b'").num_rows == 1
    table.write(rows(table, [{"dt": "c", "hh": 3, "v": 3}]))
    due = content(table)
    assert len(due) == 4
    for reader in (java_latest, released_pypaimon):
        assert as_read_by(reader, catalog, table) == due
        where = [("hh", "=", 2)]
        assert len(as_read_by(reader, catalog, table, where=where)) == 1
    assert_only_reachable_files(table)


@pytest.mark.parametrize("keys", [("dt", "hh"), ("hh",), ()], ids=str)
@pytest.mark.parametrize("writer", ["java_latest", "released_pypaimon"])
@pytest.mark.sampled(each="keys")
@pytest.mark.mission("PT1", "PT4")
def test_a_writer_that_goes_on_with_former_keys_costs_no_schema_and_they_read_and_expire_the_rest(
    catalog: Catalog,
    request: pytest.FixtureRequest,
    java_latest: JavaOracle,
    released_pypaimon: Oracle,
    writer: str,
    keys: tuple[str, ...],
) -> None:
    """Its files hold several hours, and its removals are decoded by Java's expiry."""
    table = new_table(catalog, {"dt": "STRING", "hh": "INT", "v": "INT"}, partitions=["dt"])
    table.write(rows(table, [{"dt": "a", "hh": hour, "v": 0} for hour in (1, 2)]))
    given = [{"dt": day, "hh": hour, "v": 1} for day in "ab" for hour in (1, 2, 3)]
    client: WritingOracle = request.getfixturevalue(writer)
    client.begin_write(catalog.root, table.name, given[:1])
    table.upkeep.respec(keys)
    table = catalog.table(table.name)
    schemas, before = table.table_files.schemas.ids(), table.history.snapshots()[-1].id
    client.finish_write(catalog.root, table.name, given[1:])
    late = [*range(before + 1, table.history.snapshots()[-1].id + 1)]
    (named,) = table.inspect.late_writers()
    assert named.commit_user == table.history.snapshots()[-1].commit_user
    assert named.commits == 1
    table.upkeep.respec(keys)
    assert table.table_files.schemas.ids() == schemas
    assert table.history.snapshots()[-1].id == late[-1] + 1
    due = content(table)
    assert len(due) == 2 + len(given)
    for reader in (java_latest, released_pypaimon):
        assert as_read_by(reader, catalog, table) == due
        found = as_read_by(reader, catalog, table, where=[("hh", "=", 2)])
        assert found == content(table, where="hh = 2")
    java_latest.expire_snapshots(catalog.root, table.name, retain_min=1)
    assert len(table.history.snapshots()) == 1
    for reader in (java_latest, released_pypaimon):
        assert as_read_by(reader, catalog, table) == content(table) == due
    # By the present keys, Java does not find a file of before the change.
    assert remove_orphans(table).files_condemned <= 1
    assert_only_reachable_files(table)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("type_name", list(PARTITIONS))
@pytest.mark.sampled(4)
@pytest.mark.mission("PT1", "PT2")
def test_they_read_every_moment_of_a_key_of_any_type_that_comes(
    catalog: Catalog, request: pytest.FixtureRequest, tmp_path: Path, reader: str, type_name: str
) -> None:
    """Also with folders of awkward names, and with a filter on the first value."""
    client: Oracle = request.getfixturevalue(reader)
    table = new_table(catalog, {"dt": "STRING", "p": type_name, "k": "INT"}, partitions=["dt"])
    values = [*PARTITIONS[type_name], None]
    table.write(rows(table, [{"dt": "a", "p": each, "k": k} for k, each in enumerate(values)]))
    due = content(table)
    (first,) = [each for each in due if json.loads(each)["k"] == 0]
    where = [("p", "=", json.loads(first)["p"])]
    _, copies = moments(catalog, table, ["dt", "p"], tmp_path / "copies")
    assert len(copies) >= 4
    for copy in copies:
        at = replace(catalog, root=str(copy))
        if reader == "rust" and not reads(client, at, table):
            assert has_wide_rows(at.table(table.name))
            continue
        assert as_read_by(client, at, table) == due, copy.name
        assert as_read_by(client, at, table, where=where) == [first], copy.name


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("keys", [("dt", "hh"), ()], ids=["finer", "coarser"])
@pytest.mark.sampled(each="reader")
@pytest.mark.mission("PT1", "PT4")
def test_they_see_deleted_rows_at_no_moment(
    catalog: Catalog,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    reader: str,
    keys: tuple[str, ...],
) -> None:
    client: Oracle = request.getfixturevalue(reader)
    table = table_of_days(catalog, **{"deletion-vectors.enabled": "true"})
    whole = content(table)
    delete_first_rows(table)
    due = content(table)
    assert len(due) == len(whole) - 3
    table, copies = moments(catalog, table, keys, tmp_path / "copies")
    for copy in copies:
        at = replace(catalog, root=str(copy))
        if reader == "rust" and not reads(client, at, table):
            assert has_wide_rows(at.table(table.name))
            continue
        assert as_read_by(client, at, table) == due, copy.name
    assert as_read_by(client, catalog, table) == due


@pytest.mark.parametrize(
    ("keys", "window"),
    [
        pytest.param(keys, window, id=f"{'finer' if keys else 'coarser'}-{window}")
        for keys in (("dt", "hh"), ())
        # No file is split where keys go.
        for window in (("split", "places", "schema") if keys else ("places", "schema"))
    ],
)
@pytest.mark.parametrize("writer", ["java_latest", "released_pypaimon"])
@pytest.mark.sampled(each="window")
@pytest.mark.mission("PT1", "PT4")
def test_rows_that_another_client_commits_between_two_steps_are_there_afterwards(
    catalog: Catalog,
    request: pytest.FixtureRequest,
    writer: str,
    window: str,
    keys: tuple[str, ...],
) -> None:
    """Its file holds several hours, so it must be split, too."""
    client: WritingOracle = request.getfixturevalue(writer)
    table = new_table(catalog, {"dt": "STRING", "hh": "INT", "v": "INT"}, partitions=["dt"])
    table.write(rows(table, [{"dt": "a", "hh": hour, "v": 0} for hour in (1, 2)]))
    given = [{"dt": day, "hh": hour, "v": 1} for day in "ab" for hour in (1, 2, 3)]
    client.begin_write(catalog.root, table.name, given[:1])
    windows: list[str] = []

    def look(call: Call) -> None:
        if "/schema/schema-" in call.path:
            windows.append("schema")
        elif "/snapshot/snapshot-" in call.path:
            named = any(each.file.external_path for each in catalog.table("db.t").at().files())
            windows.append("places" if named else "split")
        else:
            return
        if windows[-1] == window and windows.count(window) == 1:
            client.finish_write(catalog.root, table.name, given[1:])

    watched = replace(catalog, fs=WatchedFiles(catalog.fs, after=looked_at(look)))
    watched.table(table.name).upkeep.respec(keys)
    assert window in windows
    table = catalog.table(table.name)
    assert table.schema.partition_keys == keys
    due = content(table)
    assert len(due) == 2 + len(given)
    # Rows that came after the schema may be restated by the next commit only.
    table.upkeep.respec(keys)
    table = catalog.table(table.name)
    assert table.upkeep.plan_respec(keys).changes_nothing
    for reader in ("java_latest", "released_pypaimon"):
        other: Oracle = request.getfixturevalue(reader)
        assert as_read_by(other, catalog, table) == content(table) == due
        found = as_read_by(other, catalog, table, where=[("hh", "=", 2)])
        assert found == content(table, where="hh = 2")
        assert len(found) == 3
    remove_orphans(table)
    assert_only_reachable_files(table)
