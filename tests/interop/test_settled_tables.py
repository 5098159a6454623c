"""A table whose files came home: it lies anywhere, and each client reads it, Java 0.9 too."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from tests.interop.test_changed_partition_keys import table_of_days
from tests.interop.test_they_read_ours import as_read_by
from tests.oracles.client import JavaOracle, Oracle
from tests.support.tables.builders import content, expire, remove_orphans
from tests.support.tables.deleted_rows import delete_first_rows
from tests.support.tables.invariants import assert_only_reachable_files

READERS = ("released_pypaimon", "rust", "java_latest", "java")
CHANGES: dict[str, Sequence[tuple[str, ...]]] = {
    "a key comes": [("dt", "hh")],
    "all keys go": [()],
    "a key is replaced": [("day",)],
    "there and back": [("dt", "hh", "origin"), ("dt",)],
}


def away(table: Table) -> int:
    return sum(each.file.external_path is not None for each in table.at().files())


def at_home(catalog: Catalog, table: Table, keys: Sequence[tuple[str, ...]]) -> Table:
    for each in keys:
        table.upkeep.respec(each)
        table = catalog.table(table.name)
        assert away(table)
        table.upkeep.settle()
        assert not away(table)
    return table


@pytest.mark.parametrize("deleted", [0, 1], ids=["whole", "with deletion vectors"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("change", list(CHANGES))
@pytest.mark.sampled(each="change")
@pytest.mark.mission("PT1")
def test_they_read_a_settled_table_wherever_it_is_copied(
    catalog: Catalog,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    change: str,
    file_format: str,
    deleted: int,
) -> None:
    options = {"deletion-vectors.enabled": "true"} if deleted else {}
    table = table_of_days(catalog, file_format, **options)
    if deleted:
        delete_first_rows(table, deleted)
    due = content(table)
    table = at_home(catalog, table, CHANGES[change])
    assert content(table) == due
    copied = Catalog.open(str(tmp_path / "elsewhere"), env=catalog.env)
    copied.create_database("db")
    shutil.copytree(Path(catalog.root) / "db.db" / "t", Path(copied.root) / "db.db" / "t")
    shutil.move(catalog.root, tmp_path / "hidden")
    try:
        for name in READERS:
            client: Oracle = request.getfixturevalue(name)
            assert as_read_by(client, copied, copied.table("db.t")) == due, name
    finally:
        shutil.move(tmp_path / "hidden", catalog.root)


@pytest.mark.parametrize("client", ["java", "java_latest"])
@pytest.mark.mission("PT1")
def test_an_expiry_of_java_keeps_the_files_that_came_home(
    catalog: Catalog, request: pytest.FixtureRequest, client: str
) -> None:
    java: JavaOracle = request.getfixturevalue(client)
    table = table_of_days(catalog)
    due = content(table)
    table.upkeep.respec(["dt", "hh"])
    table = catalog.table("db.t")
    # The snapshots of before the change have keys that its expiry takes for others.
    expire(table)
    table.upkeep.settle()
    assert java.expire_snapshots(catalog.root, "db.t", retain_max=1, retain_min=1)
    assert len(table.history.snapshots()) == 1
    assert content(catalog.table("db.t")) == due
    assert as_read_by(java, catalog, table) == due
    remove_orphans(catalog.table("db.t"))
    assert_only_reachable_files(catalog.table("db.t"))
