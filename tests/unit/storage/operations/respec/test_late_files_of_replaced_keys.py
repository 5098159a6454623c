"""Late files of append tables whose keys were replaced by as many of the same types.

Their rows of partitions equal those of other partitions under the new keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import SchemaMoved
from tests.support.stores.watched_files import Call, Crashed, WatchedFiles, over
from tests.support.tables.builders import content, new_table, remove_orphans, rows
from tests.support.tables.late_commits import commit_late

pytestmark = pytest.mark.mission("PT1")

COLUMNS = {"src": "STRING", "dst": "STRING", "id": "INT"}
FIRST = [{"src": "x", "dst": "y", "id": 1}, {"src": "y", "dst": "x", "id": 2}]
LATE = [{"src": "x", "dst": "y", "id": number} for number in (3, 4)]


def with_late_files(
    catalog: Catalog, old: tuple[str, ...], new: tuple[str, ...], **options: str
) -> Table:
    """A table with new keys, and two files that a client committed under the old ones."""
    table = new_table(catalog, COLUMNS, partitions=old, options=options)
    table.write(rows(table, FIRST))
    opened = [catalog.table("db.t") for _ in LATE]
    late = [each.stage(rows(each, [row])) for each, row in zip(opened, LATE, strict=True)]
    table.upkeep.respec(list(new))
    for each, staged in zip(opened, late, strict=True):
        commit_late(each, staged)
    return catalog.table("db.t")


def ids(table: Table, where: str | None = None) -> set[int]:
    found = table.read(where=where)["id"].to_pylist()
    assert len(found) == len(set(found))
    return set(found)


def compacts(table: Table) -> None:
    table.upkeep.compact(full=True)


def sorts(table: Table) -> None:
    table.upkeep.run(table.upkeep.plan_sort_compact(["id"]))


def writes(table: Table) -> None:
    table.write(rows(table, [{"src": "z", "dst": "z", "id": 5}]))


@pytest.mark.parametrize(
    ("old", "new"), [(("src",), ("dst",)), (("src", "dst"), ("dst", "src"))], ids=str
)
@pytest.mark.parametrize("options", [{}, {"deletion-vectors.enabled": "true"}], ids=str)
@pytest.mark.parametrize("work", [compacts, sorts, writes])
def test_work_on_late_files_keeps_their_rows_in_their_partitions(
    catalog: Catalog,
    old: tuple[str, ...],
    new: tuple[str, ...],
    options: dict[str, str],
    work: Callable[[Table], None],
) -> None:
    table = with_late_files(catalog, old, new, **options)
    try:
        work(table)
    except SchemaMoved:
        table.upkeep.respec(list(new))
        work(table)
    table = catalog.table("db.t")
    assert ids(table) - {5} == {1, 2, 3, 4}
    assert ids(table, "dst = 'y'") == {1, 3, 4}
    table.upkeep.drop_partitions("dst = 'x'")
    assert ids(catalog.table("db.t")) - {5} == {1, 3, 4}
    remove_orphans(table)


def test_an_overwrite_of_a_partition_leaves_late_rows_of_others(catalog: Catalog) -> None:
    table = with_late_files(catalog, ("src",), ("dst",))
    table.write(rows(table, [{"src": "z", "dst": "x", "id": 9}]), mode="overwrite")
    assert ids(table) == {1, 3, 4, 9}
    # It is not taken for an overwrite by another client.
    table.upkeep.respec(["src"])
    assert ids(catalog.table("db.t")) == {1, 3, 4, 9}
    remove_orphans(catalog.table("db.t"))


@pytest.mark.parametrize(
    "ask",
    [
        lambda table: table.upkeep.drop_partitions(partitions=[{"dst": "x"}]),
        lambda table: table.upkeep.drop_partitions("dst = 'x'"),
        lambda table: table.upkeep.rename_partition({"dst": "x"}, {"dst": "w"}),
    ],
    ids=["drop", "drop by filter", "rename"],
)
def test_verbs_on_partitions_name_the_way_out_of_late_files(catalog: Catalog, ask: Any) -> None:
    table = with_late_files(catalog, ("src",), ("dst",))
    due = content(table)
    with pytest.raises(SchemaMoved, match=r"respec db\.t --keys 'dst'"):
        ask(table)
    assert content(table) == due
    table.upkeep.respec(["dst"])
    ask(catalog.table("db.t"))
    assert ids(catalog.table("db.t"), "dst = 'y'") == {1, 3, 4}
    remove_orphans(catalog.table("db.t"))


@pytest.mark.parametrize(
    ("old", "new", "folder"),
    [(("src",), ("src", "dst"), "schema"), (("src", "dst"), ("src",), "snapshot")],
    ids=str,
)
def test_a_compaction_amid_a_stopped_change_names_the_way_out(
    catalog: Catalog, old: tuple[str, ...], new: tuple[str, ...], folder: str
) -> None:
    table = new_table(catalog, COLUMNS, partitions=old)
    for _ in range(2):
        table.write(rows(table, FIRST))
    due, schemas = content(table), []

    def die(call: Call) -> None:
        if call.name != "put_if_absent":
            return
        if f"/{folder}/{folder}-" in call.path and (folder == "schema" or schemas):
            raise Crashed
        schemas.extend([call.path] if "/schema/" in call.path else [])

    with pytest.raises(Crashed):
        over(table, WatchedFiles(table.table_files.fs, before=die)).upkeep.respec(list(new))
    table = catalog.table("db.t")
    keys = table.schema.partition_keys
    with pytest.raises(SchemaMoved, match=f"respec db.t --keys '{','.join(keys)}'"):
        table.upkeep.compact(full=True)
    table.upkeep.respec(list(keys))
    table = catalog.table("db.t")
    table.upkeep.compact(full=True)
    assert content(table) == due
    remove_orphans(table)
