"""Overwrites and compactions that began before the partition keys changed, and end after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import SchemaMoved, UnsupportedError
from tests.interop.test_they_read_ours import as_read_by
from tests.oracles.client import JavaOracle, OracleError, WritingOracle
from tests.support.tables.builders import content, expire, new_table, remove_orphans, rows

pytestmark = pytest.mark.mission("PT1", "PT4")

COLUMNS = {"dt": "STRING", "hh": "INT", "origin": "STRING", "id": "BIGINT", "v": "STRING"}
KEY = ("dt", "hh", "origin", "id")
NEW = [{"dt": "a", "hh": 1, "origin": "x", "id": 99, "v": "over"}]
WRITERS = ("java_latest", "released_pypaimon")
KINDS = pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])


def days(catalog: Catalog, *, keyed: bool) -> Table:
    """Days a and b, of two hours; rows of each come from origins x, b and a."""
    columns = {
        name: f"{kind} NOT NULL" if keyed and name != "v" else kind
        for name, kind in COLUMNS.items()
    }
    table = new_table(
        catalog,
        columns,
        partitions=["dt"],
        keys=KEY if keyed else (),
        options={"bucket": "2"} if keyed else {},
    )
    for turn in range(2):
        table.write(
            rows(
                table,
                [
                    {"dt": day, "hh": hour, "origin": origin, "id": turn, "v": f"old {turn}"}
                    for day in "ab"
                    for hour in (1, 2)
                    for origin in ("x", "b", "a")
                ],
            )
        )
    return table


def changed(catalog: Catalog, table: Table, keys: Sequence[str]) -> Table:
    table.upkeep.respec(keys)
    return catalog.table(table.name)


def end(client: WritingOracle, catalog: Catalog, table: Table) -> bool:
    """Whether the client commits its overwrite."""
    try:
        client.finish_write(catalog.root, table.name, [])
    except OracleError:
        return False
    return True


def cleaned(table: Table) -> None:
    """Only the latest snapshot is left, with no file that it does not name."""
    expire(table)
    remove_orphans(table)


@KINDS
@pytest.mark.parametrize("keys", [("dt", "hh"), (), ("hh",)], ids=str)
def test_an_overwrite_of_ours_that_began_before_is_staged_again(
    catalog: Catalog, *, keyed: bool, keys: tuple[str, ...]
) -> None:
    table = opened = days(catalog, keyed=keyed)
    due = content(table)
    over: dict[str, Any] = {"mode": "overwrite", "partition": {"dt": "a"}, "dynamic": False}
    staged = opened.stage(rows(opened, NEW), **over)
    now = changed(catalog, table, keys)
    with pytest.raises(SchemaMoved):
        opened.commit(staged)
    with pytest.raises(SchemaMoved):
        opened.write(rows(opened, NEW), **over)
    opened.abort(staged)
    assert content(now) == due


@KINDS
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("keys", [("dt", "hh"), ()], ids=str)
@pytest.mark.parametrize("ends_by", ["write", "respec"])
@pytest.mark.sampled(each="writer, keyed, keys")
def test_an_overwrite_that_another_client_began_before_replaces_its_partition_or_nothing(
    catalog: Catalog,
    request: pytest.FixtureRequest,
    java_latest: JavaOracle,
    writer: str,
    keys: tuple[str, ...],
    ends_by: str,
    *,
    keyed: bool,
) -> None:
    client: WritingOracle = request.getfixturevalue(writer)
    table = days(catalog, keyed=keyed)
    before = content(table)
    client.begin_write(catalog.root, table.name, NEW, overwrite={"dt": "a"})
    now = changed(catalog, table, keys)
    commits = end(client, catalog, now)
    # Others fail to decode partitions of another number of keys.
    assert commits == (writer == "released_pypaimon" and not keyed and keys == ("dt", "hh"))
    now = catalog.table(table.name)
    if commits:
        # It removed the files in vain, as it names them by the former key alone.
        assert len(content(now)) == len(before) + 1
        if ends_by == "write":
            now.write(rows(now, [{"dt": "c", "hh": 1, "origin": "x", "id": 1, "v": "next"}]))
        else:
            now.upkeep.respec(keys)
        kept = [text for text in before if '"dt": "a"' not in text]
        found = content(now)
        assert [text for text in found if '"over"' not in text and '"next"' not in text] == kept
        assert len(found) == len(kept) + (2 if ends_by == "write" else 1)
    else:
        assert content(now) == before
    assert as_read_by(java_latest, catalog, now) == content(now)
    cleaned(now)
    assert as_read_by(java_latest, catalog, now) == content(now)


@KINDS
@pytest.mark.parametrize("writer", WRITERS)
def test_an_overwrite_that_took_values_of_another_key_for_its_own_is_told_before_it_is_lost(
    catalog: Catalog, request: pytest.FixtureRequest, writer: str, *, keyed: bool
) -> None:
    """No client asks for the schema as it commits, so nothing can refuse its commit."""
    client: WritingOracle = request.getfixturevalue(writer)
    table = days(catalog, keyed=keyed)
    before = content(table)
    client.begin_write(catalog.root, table.name, NEW, overwrite={"dt": "a"})
    now = changed(catalog, table, ["origin"])
    last = now.history.latest_snapshot()
    assert last is not None
    assert end(client, catalog, now)
    now = catalog.table(table.name)
    if not keyed:
        # All rows of origin a are gone, and those of day a are not.
        assert len(content(now)) == len(before) - 8 + 1
    for keys in (["origin"], ["dt"]):
        with pytest.raises(UnsupportedError, match="took values of origin for theirs") as told:
            now.upkeep.respec(keys)
    assert f"lakewright rollback db.t --snapshot {last.id})" in str(told.value)
    now.history.rollback(snapshot=last.id, grace_ms=0)
    now = catalog.table(table.name)
    assert content(now) == before
    assert now.upkeep.plan_respec(["origin"]).changes_nothing
    remove_orphans(now)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("ends_by", ["write", "respec"])
def test_rows_of_a_key_that_was_replaced_are_shown_to_other_clients_by_our_next_commit_or_respec(
    catalog: Catalog,
    request: pytest.FixtureRequest,
    java_latest: JavaOracle,
    writer: str,
    ends_by: str,
) -> None:
    """Such rows have as many values as the table has keys; the schema of their manifest tells."""
    client: WritingOracle = request.getfixturevalue(writer)
    table = days(catalog, keyed=False)
    due = len(content(table)) + 1
    client.begin_write(catalog.root, table.name, NEW)
    now = changed(catalog, table, ["origin"])
    assert end(client, catalog, now)
    now = catalog.table(table.name)
    assert len(content(now)) == due
    with pytest.raises(OracleError, match="FileNotFoundException"):
        as_read_by(java_latest, catalog, now)
    if ends_by == "write":
        now.write(rows(now, [{"dt": "c", "hh": 1, "origin": "x", "id": 1, "v": "next"}]))
        due += 1
    else:
        now.upkeep.respec(["origin"])
    now = catalog.table(table.name)
    assert len(content(now)) == due
    assert as_read_by(java_latest, catalog, now) == content(now)
    cleaned(now)
    assert as_read_by(java_latest, catalog, now) == content(now)


@KINDS
@pytest.mark.parametrize("keys", [("dt", "hh"), (), ("hh",), ("origin",)], ids=str)
def test_a_dedicated_compaction_of_java_that_began_before_conflicts_and_loses_nothing(
    catalog: Catalog, java_latest: JavaOracle, keys: tuple[str, ...], *, keyed: bool
) -> None:
    table = days(catalog, keyed=keyed)
    due = content(table)
    java_latest.begin_compact(catalog.root, table.name)
    now = changed(catalog, table, keys)
    last = now.history.latest_snapshot()
    assert last is not None
    with pytest.raises(OracleError, match=r"conflicts detected|Cannot read manifest entries"):
        java_latest.finish_compact(catalog.root, table.name)
    after = now.history.latest_snapshot()
    assert after is not None
    assert after.id == last.id
    assert content(now) == due == as_read_by(java_latest, catalog, now)
    # What it wrote in vain is left to the removal of orphans.
    remove_orphans(now)
    assert content(now) == due


@KINDS
def test_a_dedicated_compaction_of_java_that_ends_before_the_schema_changes_is_kept(
    catalog: Catalog, java_latest: JavaOracle, *, keyed: bool
) -> None:
    """The same compaction commits as it should, so that the test above is about the change."""
    table = days(catalog, keyed=keyed)
    due = content(table)
    java_latest.begin_compact(catalog.root, table.name)
    java_latest.finish_compact(catalog.root, table.name)
    assert table.history.latest_snapshot().commit_kind.name == "COMPACT"  # type: ignore[union-attr]
    now = changed(catalog, table, ["dt", "hh"])
    assert content(now) == due == as_read_by(java_latest, catalog, now)
