"""Late files whose manifest another client, with the present keys, merged into one of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import pytest

from lakewright.platform.decide.take_survey import survey_table
from lakewright.storage import Catalog, Table
from lakewright.storage.errors import SchemaMoved, UnsupportedError
from tests.interop.test_they_read_ours import as_read_by
from tests.oracles.client import JavaOracle, WritingOracle
from tests.support.tables.builders import content, expire, new_table, remove_orphans, rows

pytestmark = pytest.mark.mission("PT1", "PT4")

COLUMNS = {"src": "STRING NOT NULL", "dst": "STRING NOT NULL", "id": "INT NOT NULL", "v": "STRING"}
FIRST = [{"src": "x", "dst": "y", "id": 1, "v": "a"}, {"src": "y", "dst": "x", "id": 2, "v": "a"}]
LATE = [{"src": "x", "dst": "y", "id": 3, "v": "late"}]
# Manifests are merged with each commit.
MERGES = {"manifest.merge-min-count": "2"}
CHANGES = [(("src",), ("dst",)), (("src", "dst"), ("dst", "src")), (("src",), ("src", "dst"))]


def merged(
    catalog: Catalog,
    pypaimon: WritingOracle,
    java: JavaOracle,
    change: tuple[Sequence[str], Sequence[str]],
    **kind: Any,
) -> Table:
    """A table with a late file, in a manifest of a client that knows the present keys."""
    options = {**MERGES, **kind.pop("options", {})}
    table = new_table(catalog, COLUMNS, partitions=change[0], options=options, **kind)
    table.write(rows(table, FIRST))
    pypaimon.begin_write(catalog.root, "db.t", LATE)
    table.upkeep.respec(change[1])
    pypaimon.finish_write(catalog.root, "db.t", [])
    for number in range(3):
        java.write(
            catalog.root, "db.t", [{"src": "q", "dst": "q", "id": 100 + number, "v": "java"}]
        )
    return catalog.table("db.t")


def ids(table: Table, where: str = "id < 100") -> list[int]:
    return sorted(table.read(where=where)["id"].to_pylist())


def overwrites(table: Table) -> None:
    row = [{"src": "z", "dst": "x", "id": 9, "v": "over"}]
    table.write(rows(table, row), mode="overwrite")


def drops(table: Table) -> None:
    table.upkeep.drop_partitions("dst = 'x'")


def compacts(table: Table) -> None:
    table.upkeep.compact(full=True)


def sorts(table: Table) -> None:
    table.upkeep.run(table.upkeep.plan_sort_compact(["id"]))


def renames(table: Table) -> None:
    keys = table.schema.partition_keys
    spec = {key: {"src": "y", "dst": "x"}[key] for key in keys}
    table.upkeep.rename_partition(spec, {**spec, "dst": "w"})


def refusal(act: Callable[[Table], None], table: Table) -> str | None:
    """What a verb says that names the way out; None if it was carried out."""
    try:
        act(table)
    except SchemaMoved as error:
        return str(error)
    return None


WORK: dict[str, tuple[Callable[[Table], None], list[int], list[int]]] = {
    # What it does, the rows that are left, and those of dst = y.
    "overwrite": (overwrites, [1, 3, 9], [1, 3]),
    "drop": (drops, [1, 3], [1, 3]),
    "compact": (compacts, [1, 2, 3], [1, 3]),
    "sort": (sorts, [1, 2, 3], [1, 3]),
    "rename": (renames, [1, 2, 3], [1, 3]),
}


@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("keys", CHANGES, ids=str)
def test_work_on_an_append_table_keeps_late_rows_and_their_partitions(
    catalog: Catalog,
    released_pypaimon: WritingOracle,
    java_latest: JavaOracle,
    keys: tuple[tuple[str, ...], tuple[str, ...]],
    work: str,
) -> None:
    table = merged(catalog, released_pypaimon, java_latest, keys)
    act, due, of_y = WORK[work]
    if work == "overwrite" and len(keys[1]) == 2:
        # No other row is in the partition of its own.
        due = [1, 2, 3, 9]
    told = refusal(act, table)
    if told is not None:
        assert f"lakewright respec db.t --keys '{','.join(keys[1])}'" in told
        table.upkeep.respec(keys[1])
        act(catalog.table("db.t"))
    table = catalog.table("db.t")
    assert ids(table) == due
    assert ids(table, "dst = 'y' AND id < 100") == of_y
    assert as_read_by(java_latest, catalog, table) == content(table)
    expire(table)
    remove_orphans(table)


@pytest.mark.parametrize("keys", CHANGES, ids=str)
def test_a_survey_and_a_respec_find_them_and_every_client_reads_the_rows_then(
    catalog: Catalog,
    released_pypaimon: WritingOracle,
    java_latest: JavaOracle,
    keys: tuple[tuple[str, ...], tuple[str, ...]],
) -> None:
    table = merged(catalog, released_pypaimon, java_latest, keys)
    assert survey_table(table).has_other_keys
    assert not table.inspect.files_fit()
    table.upkeep.respec(keys[1])
    table = catalog.table("db.t")
    assert not survey_table(table).has_other_keys
    assert ids(table) == [1, 2, 3]
    assert ids(table, "dst = 'y' AND id < 100") == [1, 3]
    for client in (java_latest, released_pypaimon):
        assert as_read_by(client, catalog, table) == content(table)
    expire(table)
    remove_orphans(table)


@pytest.mark.parametrize("mode", ["overwrite", "append"])
def test_a_write_to_a_primary_key_table_is_refused_before_it_deletes_or_follows_them(
    unchecked_catalog: Catalog,
    released_pypaimon: WritingOracle,
    java_latest: JavaOracle,
    mode: Literal["overwrite", "append"],
) -> None:
    table = merged(
        unchecked_catalog,
        released_pypaimon,
        java_latest,
        (("src",), ("dst",)),
        keys=("src", "dst", "id"),
        options={"bucket": "1"},
    )
    last = table.history.latest_snapshot()
    with pytest.raises(UnsupportedError, match=r"respec db\.t --keys 'dst'"):
        table.write(rows(table, [{"src": "z", "dst": "x", "id": 9, "v": "x"}]), mode=mode)
    after = table.history.latest_snapshot()
    assert last is not None
    assert after is not None
    assert after.id == last.id
    assert survey_table(table).has_other_keys
