"""One server of a REST catalog for pypaimon, Java and us: the same tables, one history each."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakewright.storage import AddColumn, Catalog, Table
from tests.oracles.client import LatestJavaOracle, OracleError, WritingOracle
from tests.support.stores.rest_server import WAREHOUSE, Fault, RestCatalogServer
from tests.support.tables.builders import compact, content, expire, new_table, remove_orphans, rows
from tests.support.tables.fixtures import check_all_tables

COLUMNS = {"id": "BIGINT", "day": "STRING", "v": "STRING"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestCatalogServer]:
    with RestCatalogServer(tmp_path / "lake").running() as running:
        yield running


@pytest.fixture(params=["java_latest", "released_pypaimon"])
def other(request: pytest.FixtureRequest, server: RestCatalogServer) -> Iterator[WritingOracle]:
    oracle: WritingOracle = request.getfixturevalue(request.param)
    with oracle.using_catalog(server.options):
        yield oracle


@pytest.fixture
def catalog(server: RestCatalogServer) -> Iterator[Catalog]:
    opened = Catalog.open(WAREHOUSE, options=server.options, durable=False)
    yield opened
    check_all_tables(opened, raced=True)


def row(number: int, v: str = "v", day: str = "a") -> dict[str, object]:
    return {"id": number, "day": day, "v": f"{v}{number}"}


def ids(found: list[dict[str, object]]) -> list[object]:
    return sorted(each["id"] for each in found)


@pytest.mark.parametrize(
    "keys",
    [pytest.param(["id"], id="keyed"), pytest.param([], id="append", marks=pytest.mark.deep)],
)
def test_both_write_and_read_one_anothers_tables_by_turns(
    other: WritingOracle, catalog: Catalog, server: RestCatalogServer, keys: list[str]
) -> None:
    options = {"bucket": "1"} if keys else {}
    other.create(WAREHOUSE, "db.theirs", COLUMNS, primary_keys=keys, options=options)
    new_table(catalog, COLUMNS, name="db.ours", keys=keys, partitions=[] if keys else ["day"])
    assert catalog.list_tables("db") == ("ours", "theirs")
    for name in ("db.theirs", "db.ours"):
        table = catalog.table(name)
        for number in range(3):
            other.write(WAREHOUSE, name, [row(2 * number)])
            table.write(rows(table, [row(2 * number + 1)]))
        assert ids(other.read(WAREHOUSE, name)) == ids(table.read().to_pylist()) == [*range(6)]
        compact(table, full=True)
        assert ids(other.read(WAREHOUSE, name)) == [*range(6)]
        other.write(WAREHOUSE, name, [row(7)])
        table = table.alter(AddColumn("n", "INT"))
        table.write(rows(table, [{**row(8), "n": 1}]))
        assert ids(other.read(WAREHOUSE, name)) == [*range(6), 7, 8]
        expire(table)
        remove_orphans(table)
        assert ids(other.read(WAREHOUSE, name)) == [*range(6), 7, 8]
        # Both tell the server the same of partitions: of each, the files that there are.
        told = [each for each in server.tables["db", name[3:]].statistics if each["spec"]]
        assert sum(each["fileCount"] for each in told) in (0, len(list_files(table)))


def list_files(table: Table) -> list[Path]:
    return [*Path(table.table_files.paths.root).rglob("bucket-*/*.parquet")]


def test_commits_of_both_at_one_time_are_each_made_once(
    other: WritingOracle, catalog: Catalog, server: RestCatalogServer
) -> None:
    """Java's clients of version 1 name no base; the server refuses the id that is taken."""
    table = new_table(catalog, COLUMNS, keys=["id"])

    def ours() -> None:
        for number in range(4):
            table.write(rows(table, [row(number)]))

    def theirs() -> None:
        for number in range(100, 104):
            other.write(WAREHOUSE, "db.t", [row(number)])

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(ours), pool.submit(theirs)]:
            done.result()
    assert ids(other.read(WAREHOUSE, "db.t")) == [*range(4), *range(100, 104)]
    assert len(content(table)) == 8
    # What lost attempts of others wrote may stay.
    remove_orphans(table)


def test_a_compaction_that_meets_their_commit_keeps_its_rows(
    other: WritingOracle, catalog: Catalog, server: RestCatalogServer
) -> None:
    table = new_table(catalog, COLUMNS, keys=["id"])
    for number in range(4):
        table.write(rows(table, [row(number)]))
    meanwhile = Fault(
        "POST", "/commit$", meanwhile=lambda: other.write(WAREHOUSE, "db.t", [row(2, "late")])
    )
    server.faults.append(meanwhile)
    compact(table, full=True)
    found = {each["id"]: each["v"] for each in other.read(WAREHOUSE, "db.t")}
    assert found == {0: "v0", 1: "v1", 2: "late2", 3: "v3"}


def test_java_renames_drops_tags_and_expires_and_we_see_it(
    java_latest: LatestJavaOracle, catalog: Catalog, server: RestCatalogServer
) -> None:
    table = new_table(catalog, COLUMNS, keys=["id"])
    with java_latest.using_catalog(server.options):
        for number in range(4):
            table.write(rows(table, [row(number)]))
        java_latest.create_tag(WAREHOUSE, "db.t", "theirs", snapshot=2)
        java_latest.compact(WAREHOUSE, "db.t", full=True)
        java_latest.expire_snapshots(WAREHOUSE, "db.t", retain_max=1, retain_min=1)
        assert [each.id for each in table.history.snapshots()] == [5]
        assert len(content(table.at(tag="theirs"))) == 2
        table.history.create_tag("ours")
        java_latest.rename(WAREHOUSE, "db.t", "db.u")
        renamed = catalog.table("db.u")
        assert len(content(renamed)) == 4
        renamed.history.delete_tags("theirs", grace_ms=0)
        renamed.write(rows(renamed, [row(9)]))
        assert ids(java_latest.read(WAREHOUSE, "db.u")) == [0, 1, 2, 3, 9]
        catalog.drop_table("db.u")
        with pytest.raises(OracleError):
            java_latest.read(WAREHOUSE, "db.u")
