"""What Java makes of snapshots from before a change of partition keys: it decodes them by the new.

Time travel is right, since it takes the schema of the snapshot. Reads of changes and expiry do not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal

import pytest

from lakewright.storage import Catalog, Table
from tests.interop.test_they_read_ours import as_read_by, as_texts
from tests.oracles.client import JavaOracle, Oracle, OracleError
from tests.support.tables.builders import compact, content, expire, new_table, remove_orphans, rows
from tests.support.tables.invariants import assert_only_reachable_files, unreachable_files

COLUMNS = {"dt": "STRING NOT NULL", "hh": "INT NOT NULL", "v": "INT NOT NULL"}
FINER, REPLACED = ("dt", "hh"), ("hh",)
pytestmark = pytest.mark.mission("PT1")


def table_of_days(catalog: Catalog, keys: Sequence[str] = ()) -> Table:
    """Two days of two hours; the files of both writes were replaced by a compaction."""
    options = {"bucket": "1"} if keys else None
    table = new_table(catalog, COLUMNS, partitions=["dt"], keys=keys, options=options)
    write(table, 0)
    write(table, 1)
    compact(table, full=True)
    return table


def write(table: Table, v: int) -> None:
    given = [{"dt": day, "hh": hour, "v": v} for day in "ab" for hour in (1, 2)]
    table.write(rows(table, given))


@pytest.mark.parametrize("keys", [FINER, REPLACED, ()], ids=str)
def test_java_reads_no_changes_of_before_and_ours_are_right(
    catalog: Catalog, java_latest: JavaOracle, keys: tuple[str, ...]
) -> None:
    table = table_of_days(catalog)
    table.upkeep.respec(keys)
    table = catalog.table(table.name)
    last = table.history.snapshots()[-1].id
    write(table, 2)

    def incremental(first: int, hour: int | None = None) -> int:
        between = {"incremental-between": f"{first},{last + 1}"}
        where = [] if hour is None else [("hh", "=", hour)]
        return len(java_latest.read(catalog.root, table.name, where=where, options=between))

    with pytest.raises(OracleError, match="FileNotFoundException"):
        incremental(1)
    with pytest.raises(OracleError, match="FileNotFoundException"):
        java_latest.changes(catalog.root, table.name, 2, 2)
    if keys == REPLACED:
        # It takes the bytes of a day for an hour, and rules files of before out without a word.
        assert incremental(1, hour=2) == 2
    else:
        with pytest.raises(OracleError, match=r"FileNotFound|ArrayIndexOutOfBounds"):
            incremental(1, hour=2)
    assert table.read_changes(1, last + 1, where="hh = 2").num_rows == 4
    # From the snapshot on that the change left, Java is right, too.
    assert (incremental(last), incremental(last, hour=2)) == (4, 2)
    found = java_latest.changes(catalog.root, table.name, last + 1, last + 1)
    assert sorted(json.dumps(each.row, sort_keys=True) for each in found) == content(
        table, where="v = 2"
    )


@pytest.mark.parametrize("key", [(), ("dt", "hh", "v")], ids=["append", "primary key"])
@pytest.mark.parametrize("keys", [FINER, REPLACED, ()], ids=str)
@pytest.mark.sampled(3)
def test_an_expiry_by_java_leaves_replaced_files_behind_and_deletes_none_that_is_live(
    catalog: Catalog, java_latest: JavaOracle, keys: tuple[str, ...], key: Sequence[str]
) -> None:
    """A Java writer expires with each of its commits. It looks for the files in other folders."""
    table = table_of_days(catalog, key)
    table.upkeep.respec(keys)
    table = catalog.table(table.name)
    options = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    options["snapshot.time-retained"] = "1 ms"
    java_latest.write(catalog.root, table.name, [{"dt": "a", "hh": 9, "v": 9}], options=options)
    table = catalog.table(table.name)
    assert len(table.history.snapshots()) == 1
    due = content(table)
    assert len(due) == 9
    assert as_read_by(java_latest, catalog, table) == due
    assert len([each for each in unreachable_files(table) if "/bucket-" in each]) >= 4
    remove_orphans(table)
    assert_only_reachable_files(table)
    assert as_read_by(java_latest, catalog, table) == content(table) == due


def test_an_expiry_by_java_that_cannot_decode_old_rows_fails_until_we_have_expired_them(
    catalog: Catalog, java_latest: JavaOracle
) -> None:
    """Decimals of more than 18 digits lie behind the row, where rows of before have nothing."""
    columns = {"dt": "STRING", "p": "DECIMAL(20, 5)", "v": "INT"}
    table = new_table(catalog, columns, partitions=["dt"])
    for v in (1, 2):
        table.write(rows(table, [{"dt": "a", "p": Decimal("1.50000"), "v": v}]))
    compact(table, full=True)
    table.upkeep.respec(["dt", "p"])
    with pytest.raises(OracleError, match="NumberFormatException"):
        java_latest.expire_snapshots(catalog.root, table.name, retain_max=1, retain_min=1)
    table = catalog.table(table.name)
    expire(table)
    java_latest.write(catalog.root, table.name, [{"dt": "a", "p": "2.00000", "v": 3}])
    java_latest.expire_snapshots(catalog.root, table.name, retain_max=1, retain_min=1)
    assert len(table.history.snapshots()) == 1
    assert as_read_by(java_latest, catalog, table) == content(table)
    assert_only_reachable_files(table)


@pytest.mark.parametrize("client", ["java_latest", "released_pypaimon"])
@pytest.mark.parametrize("key", [(), ("dt", "hh", "v")], ids=["append", "primary key"])
@pytest.mark.parametrize("keys", [FINER, REPLACED, ()], ids=str)
@pytest.mark.sampled(each="client, key")
def test_a_client_that_opened_the_table_before_must_open_it_again(
    catalog: Catalog,
    request: pytest.FixtureRequest,
    client: str,
    keys: tuple[str, ...],
    key: Sequence[str],
) -> None:
    """It knows the former keys for as long as it has the table open."""
    reader: Oracle = request.getfixturevalue(client)
    table = table_of_days(catalog, key)
    reader.open(catalog.root, table.name)
    table.upkeep.respec(keys)
    table = catalog.table(table.name)
    where = [("dt", "=", "a")]
    due, some = content(table), content(table, where="dt = 'a'")
    if not key and keys == FINER:
        # Rows of the new keys begin with the former ones, and entries name the places of files.
        assert as_texts(reader.read_opened()) == due
        assert as_texts(reader.read_opened(where=where)) == some
        write(table, 5)
    if keys == REPLACED:
        # It takes hours for days.
        assert reader.read_opened(where=where) == []
    else:
        with pytest.raises(OracleError):
            reader.read_opened(where=where)
    if client == "java_latest" and key and keys == FINER:
        # It decodes bounds of the primary key without dt and hh as those without dt.
        assert reader.read_opened(where=[("hh", "=", 2)]) == []
    reader.open(catalog.root, table.name)
    assert as_texts(reader.read_opened()) == content(table)
    assert as_texts(reader.read_opened(where=where)) == content(table, where="dt = 'a'")
