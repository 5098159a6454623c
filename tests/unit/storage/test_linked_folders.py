"""Symbolic links below the place of a table: refused by name, with what they lead to untouched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewright.session.session import Session
from lakewright.storage import Catalog, FormatTable
from lakewright.storage.errors import InvalidRequestError, UnsupportedError
from tests.support.tables.builders import content, events, new_table, rows
from tests.support.tables.landed import LANDED, land, land_days, rows_of

REGISTERED = {"metastore.partitioned-table": "true"}
NOW: dict[str, Any] = {"age_ms": 0}
Verb = Callable[[FormatTable], object]
A = {"day": "a"}


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A folder of somebody else, which has data files too."""
    folder = tmp_path / "precious"
    land(folder / "other.parquet", rows_of(0, 2))
    (folder / "contract.pdf").write_bytes(b"signed")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*.*")}


def linked(catalog: Catalog, root: Path, options: dict[str, str]) -> FormatTable:
    """A table of days b (a folder) and a (a link that replaced its folder)."""
    table = catalog.create_format_table(
        "db.f", LANDED, partition_keys=["day"], location=str(root), options=options
    )
    table.add_partitions(A, {"day": "b"})
    table.write(pa.table({"id": [9], "v": ["v"], "day": ["b"]}))
    (root / "day=a").rmdir()
    return table


def some(day: str) -> pa.Table:
    return pa.table({"id": [1], "v": ["x"], "day": [day]})


VERBS: dict[str, Verb] = {
    "read": lambda table: table.read(),
    "read of the day": lambda table: table.read("day = 'a'"),
    "partitions": lambda table: table.partitions(),
    "append": lambda table: table.write(some("a")),
    "overwrite of days": lambda table: table.write(some("a"), mode="overwrite"),
    "overwrite of the day": lambda table: table.write(
        some("a").drop_columns(["day"]), mode="overwrite", partition=A
    ),
    "overwrite of all": lambda table: table.write(some("b"), mode="overwrite", dynamic=False),
    "drop": lambda table: table.drop_partitions(A, delete_files=True),
    "statement": lambda table: Session(
        Catalog.open(table.table_files.paths.root.rsplit("/", 2)[0])
    ).sql("INSERT OVERWRITE db.f PARTITION (day = 'a') VALUES (1, 'x')"),
}


@pytest.mark.parametrize("options", [{}, REGISTERED], ids=["folders", "registry"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_linked_partition_folder_is_refused_and_nothing_behind_it_changes(
    catalog: Catalog, tmp_path: Path, precious: Path, verb: str, options: dict[str, str]
) -> None:
    root = tmp_path / "landing"
    table = linked(catalog, root, options)
    (root / "day=a").symlink_to(precious)
    before, own = contents(precious), contents(root)
    with pytest.raises(UnsupportedError, match="landing/day=a is a symbolic link"):
        VERBS[verb](table)
    assert (contents(precious), contents(root)) == (before, own)
    # Days without a link are read and written as before.
    table.write(some("b"))
    assert table.read("day = 'b'").num_rows == 2
    (root / "day=a").rename(root / "_day=a")
    assert table.read().num_rows == 2


@pytest.mark.parametrize("mode", ["add", "drop", "sync"])
def test_a_repair_keeps_a_registered_partition_whose_folder_became_a_link(
    catalog: Catalog, tmp_path: Path, precious: Path, mode: str
) -> None:
    root = tmp_path / "landing"
    table = linked(catalog, root, REGISTERED)
    (root / "day=a").symlink_to(precious)
    with pytest.raises(UnsupportedError, match="day=a is a symbolic link"):
        table.repair_partitions(mode)
    (root / "day=a").unlink()
    (root / "day=a").mkdir()
    assert table.partitions() == (A, {"day": "b"})
    assert not table.drift().found


def test_a_drop_that_meets_a_link_leaves_the_partition_registered(
    catalog: Catalog, tmp_path: Path, precious: Path
) -> None:
    root = tmp_path / "landing"
    table = linked(catalog, root, REGISTERED)
    (root / "day=a").mkdir()
    (root / "day=a" / "more.parquet").symlink_to(precious / "other.parquet")
    before = contents(precious)
    with pytest.raises(UnsupportedError, match=r"more\.parquet is a symbolic link"):
        table.drop_partitions(A, delete_files=True)
    (root / "day=a" / "more.parquet").unlink()
    assert table.partitions() == (A, {"day": "b"})
    assert contents(precious) == before


def test_a_folder_that_is_a_link_is_not_registered(
    catalog: Catalog, tmp_path: Path, precious: Path
) -> None:
    root = tmp_path / "landing"
    table = linked(catalog, root, REGISTERED)
    table.drop_partitions(A)
    (root / "day=a").symlink_to(precious)
    for verb in (lambda: table.add_partitions(A), table.repair_partitions):
        with pytest.raises(UnsupportedError, match="day=a is a symbolic link"):
            verb()
    assert table.partitions() == ({"day": "b"},)


@pytest.mark.parametrize("options", [{}, REGISTERED], ids=["folders", "registry"])
def test_a_link_above_a_partition_is_refused_too(
    catalog: Catalog, tmp_path: Path, precious: Path, options: dict[str, str]
) -> None:
    root = tmp_path / "landing"
    table = catalog.create_format_table(
        "db.f", {**LANDED, "hour": "INT"}, partition_keys=["day", "hour"],
        location=str(root), options=options,
    )  # fmt: skip
    hour = {"day": "a", "hour": 1}
    table.add_partitions(hour)
    (root / "day=a").rename(tmp_path / "archive")
    (root / "day=a").symlink_to(tmp_path / "archive")
    land(tmp_path / "archive" / "hour=1" / "f.parquet", rows_of(0, 3))
    before = contents(tmp_path / "archive")
    values = pa.table({"id": [1], "v": ["x"]})
    verbs: list[Callable[[], object]] = [
        table.read,
        lambda: table.write(values, mode="overwrite", partition=hour),
        lambda: table.drop_partitions(hour, delete_files=True),
    ]
    for verb in verbs:
        with pytest.raises(UnsupportedError, match="landing/day=a is a symbolic link"):
            verb()
    assert contents(tmp_path / "archive") == before


@pytest.mark.parametrize("dangles", [False, True])
@pytest.mark.parametrize("keys", [["day"], []])
def test_a_linked_data_file_is_refused_and_stays(
    catalog: Catalog, tmp_path: Path, precious: Path, keys: list[str], dangles: bool
) -> None:
    root = tmp_path / "landing"
    table = catalog.create_format_table("db.f", LANDED, partition_keys=keys, location=str(root))
    table.write(some("a"))
    folder = root / "day=a" if keys else root
    (folder / "more.parquet").symlink_to(precious / ("gone" if dangles else "other.parquet"))
    before, own = contents(precious), {*folder.iterdir()}
    verbs: list[Callable[[], object]] = [
        table.read,
        lambda: table.write(some("a"), mode="overwrite"),
    ]
    for verb in verbs:
        with pytest.raises(UnsupportedError, match=r"more\.parquet is a symbolic link"):
            verb()
    assert (contents(precious), {*folder.iterdir()}) == (before, own)


def test_a_location_that_is_a_link_is_its_owners_choice(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "landing").symlink_to(tmp_path / "disk")
    table = catalog.create_format_table(
        "db.f", LANDED, partition_keys=["day"], location=str(tmp_path / "landing")
    )
    table.write(some("a"))
    table.write(some("a"), mode="overwrite")
    assert table.read().num_rows == 1
    table.drop_partitions(A, delete_files=True)
    assert not [*(tmp_path / "disk").iterdir()]


def test_rows_behind_a_link_are_not_left_out_of_a_takeover(
    catalog: Catalog, tmp_path: Path, precious: Path
) -> None:
    table = new_table(catalog, LANDED, partitions=["day"])
    root = land_days(tmp_path / "landed", ["a"])
    (root / "day=c").symlink_to(precious)
    with pytest.raises(UnsupportedError, match="day=c is a symbolic link"):
        table.upkeep.add_partitions(str(root), **NOW)
    (root / "day=c").rename(root / "_day=c")
    assert table.upkeep.add_partitions(str(root), **NOW).rows == 6


@pytest.mark.parametrize("name", ["day=a", "day=a/part-00000.c000.zstd.parquet"])
def test_a_repair_does_not_take_what_became_a_link_for_gone(
    catalog: Catalog, tmp_path: Path, name: str
) -> None:
    table = new_table(catalog, LANDED, partitions=["day"])
    root = land_days(tmp_path / "landed")
    table.upkeep.add_partitions(str(root), **NOW)
    table = catalog.table("db.t")
    (root / name).rename(tmp_path / "archive")
    (root / name).symlink_to(tmp_path / "archive")
    with pytest.raises(UnsupportedError, match=f"{name} is a symbolic link"):
        table.upkeep.plan_repair_partitions(mode="sync", **NOW)
    assert table.read().num_rows == 12


@pytest.mark.parametrize("kind", ["snapshots", "plain files"])
def test_a_table_whose_folder_is_a_link_is_not_dropped(
    unchecked_catalog: Catalog, tmp_path: Path, kind: str
) -> None:
    catalog = unchecked_catalog
    if kind == "snapshots":
        table = new_table(catalog)
        table.write(rows(table, events(0, 3)))
    else:
        catalog.create_format_table("db.t", LANDED).write(some("a"))
    own = Path(catalog.root) / "db.db" / "t"
    own.rename(tmp_path / "real")
    own.symlink_to(tmp_path / "real")
    before = contents(tmp_path / "real")
    with pytest.raises(UnsupportedError, match=r"t is a symbolic link, .* nothing was deleted"):
        catalog.drop_table("db.t")
    with pytest.raises(InvalidRequestError, match="database db is not empty: t"):
        catalog.drop_database("db")
    assert contents(tmp_path / "real") == before
    assert catalog.table_exists("db.t")


def test_a_branch_whose_folder_is_a_link_is_not_deleted(
    unchecked_catalog: Catalog, tmp_path: Path
) -> None:
    table = new_table(unchecked_catalog)
    table.write(rows(table, events(0, 3)))
    table.history.create_branch("side")
    own = Path(table.table_files.paths.root) / "branch" / "branch-side"
    own.rename(tmp_path / "real")
    own.symlink_to(tmp_path / "real")
    before = contents(tmp_path / "real")
    with pytest.raises(UnsupportedError, match="branch-side is a symbolic link"):
        table.history.run(table.history.plan_delete_branch("side", grace_ms=0))
    assert contents(tmp_path / "real") == before
    assert len(content(table)) == 3
