"""The server of Java Paimon's own tests of its REST catalog: what our client asks of it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakewright.storage import (
    AddColumn,
    Catalog,
    ChangeComment,
    ChangeDefault,
    ChangeNullability,
    ChangeTableComment,
    ChangeType,
    DropColumn,
    MoveColumn,
    Position,
    RenameColumn,
    ResetOption,
    SetOption,
    Side,
)
from lakewright.storage.errors import (
    AccessRefused,
    AlreadyExistsError,
    InvalidRequestError,
    TableNotFound,
    UnsupportedError,
)
from tests.oracles.client import LatestJavaOracle
from tests.support.stores.servers import java_rest_server
from tests.support.tables.builders import (
    EVENTS,
    compact,
    content,
    events,
    expire,
    new_table,
    remove_orphans,
    rows,
)
from tests.support.tables.fixtures import check_all_tables

TOKEN = "a-token-of-tests"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with java_rest_server(tmp_path_factory.mktemp("rest"), "lake", TOKEN) as address:
        yield address


@pytest.fixture
def options(address: str) -> dict[str, str]:
    return {"metastore": "rest", "uri": address, "token": TOKEN, "token.provider": "bear"}


@pytest.fixture
def catalog(options: dict[str, str]) -> Iterator[Catalog]:
    opened = Catalog.open("lake", options=options, durable=False)
    yield opened
    check_all_tables(opened, raced=True)
    for database in opened.list_databases():
        for table in opened.list_tables(database):
            opened.drop_table(f"{database}.{table}")
        opened.drop_database(database)


def test_names_are_listed_made_and_dropped(catalog: Catalog, options: dict[str, str]) -> None:
    names = [f"t{number:03}" for number in range(105)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: new_table(catalog, EVENTS, name=f"db.{name}"), names))
    # Its pages have 100.
    assert catalog.list_tables("db") == tuple(names)
    with pytest.raises(AlreadyExistsError):
        new_table(catalog, EVENTS, name="db.t000")
    with pytest.raises(TableNotFound):
        catalog.table("db.other")
    with pytest.raises(InvalidRequestError, match="is not empty: t000"):
        catalog.drop_database("db")
    with pytest.raises(AccessRefused, match="401"):
        Catalog.open("lake", options={**options, "token": "another-token"})
    Catalog.open("lake", options=options)


def test_each_change_of_a_schema_comes_out_as_asked(catalog: Catalog) -> None:
    columns = {**EVENTS, "r": "ROW<a INT, b ARRAY<ROW<c INT>>>"}
    table = new_table(catalog, columns, options={"my.note": "x"})
    for changes in (
        [RenameColumn("v", "text")],
        [
            AddColumn("n", "INT", comment="a count", position=Position(Side.AFTER, "id")),
            AddColumn("r.d", "STRING", position=Position(Side.FIRST)),
            AddColumn("r.f", "STRING", position=Position(Side.AFTER, "a")),
            AddColumn("m", "ROW<x INT, y INT>"),
        ],
        [ChangeType("r.a", "BIGINT"), ChangeComment("day", "of the event")],
        [RenameColumn("r.b.element.c", "e"), ChangeType("n", "BIGINT")],
        [ChangeDefault("n", "7"), SetOption("snapshot.num-retained.min", "3")],
        [ResetOption("my.note"), ChangeTableComment("what happened")],
        [ChangeNullability("day", True), MoveColumn("day", Position(Side.LAST))],
        [DropColumn("text"), AddColumn("text", "STRING", position=Position(Side.FIRST))],
    ):
        table = table.alter(*changes)
    assert table.schema.field_names == ("text", "id", "n", "r", "m", "day")
    assert table.schema.comment == "what happened"
    assert table.schema == catalog.table("db.t").schema
    table.write(rows(table, [{"id": 1, "day": "a", "r": {"a": 1, "b": [{"e": 2}], "d": "x"}}]))
    assert len(content(table)) == 1


def test_upkeep_beside_java_on_its_server(
    catalog: Catalog, options: dict[str, str], java_latest: LatestJavaOracle
) -> None:
    table = new_table(catalog, EVENTS, keys=["id"], options={"changelog-producer": "input"})
    with java_latest.using_catalog(options):
        for number in range(4):
            table.write(rows(table, events(number, number + 1)))
            java_latest.write("lake", "db.t", events(10 + number, 11 + number))
        table.history.create_tag("kept")
        java_latest.compact("lake", "db.t", full=True)
        table.write(rows(table, events(20, 21)))
        compact(table, full=True)
        expire(table)
        remove_orphans(table)
        assert len(java_latest.read("lake", "db.t")) == len(content(table)) == 9
        assert len(content(table.at(tag="kept"))) == 8
        with pytest.raises(UnsupportedError, match="to roll back is not implemented there"):
            table.history.rollback(tag="kept", grace_ms=0)
        table.write(rows(table, events(30, 31)))
        table.history.revert(table.history.snapshots()[-1].id)
        assert len(java_latest.read("lake", "db.t")) == 9


def test_commits_of_java_and_us_at_one_time_are_each_made_once(
    catalog: Catalog, options: dict[str, str], java_latest: LatestJavaOracle
) -> None:
    table = new_table(catalog, EVENTS)
    with java_latest.using_catalog(options):

        def ours() -> None:
            for number in range(8):
                table.write(rows(table, events(number, number + 1)))

        def theirs() -> None:
            for number in range(100, 108):
                java_latest.write("lake", "db.t", events(number, number + 1))

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(ours), pool.submit(theirs)]:
                done.result()
        assert len(java_latest.read("lake", "db.t")) == len(content(table)) == 16
    # What lost attempts of Java's wrote may stay.
    remove_orphans(table)


def test_branches_of_the_server_are_read_and_not_written(
    catalog: Catalog, options: dict[str, str], java_latest: LatestJavaOracle
) -> None:
    table = new_table(catalog, EVENTS)
    table.write(rows(table, events(0, 3)))
    with java_latest.using_catalog(options):
        table.history.create_tag("base")
        java_latest.create_branch("lake", "db.t", "side", tag="base")
        java_latest.write("lake", "db.t$branch_side", events(5, 6))
        branch = catalog.table("db.t$branch_side")
        assert len(content(branch)) == 4
        before = len(branch.history.snapshots())
        for change in (
            lambda: branch.write(rows(branch, events(7, 8))),
            lambda: branch.alter(AddColumn("n", "INT")),
            lambda: table.history.delete_branch("side", grace_ms=0),
        ):
            with pytest.raises(UnsupportedError, match="branch"):
                change()
        assert len(branch.history.snapshots()) == before
        assert remove_orphans(table).files_deleted == 0
        java_latest.delete_branch("lake", "db.t", "side")
    # The server leaves the branch's files, and its id in the hint of main.
    assert len(content(catalog.table("db.t"))) == 3
    remove_orphans(table)
    catalog.drop_table("db.t")


def test_a_rename_is_the_servers(catalog: Catalog, tmp_path: Path) -> None:
    table = new_table(catalog, EVENTS)
    table.write(rows(table, events(0, 3)))
    catalog.create_database("other")
    # This server moves the files, and tells their former place afterwards.
    with pytest.raises(TableNotFound, match=r"other\.u is listed in .*, and does not lie at"):
        catalog.rename_table("db.t", "other.u")
    assert catalog.list_tables("db") == ()
    catalog.drop_table("other.u")
