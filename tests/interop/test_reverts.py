"""Reverts: other clients read the table, expire what was taken back, and write on it."""

from __future__ import annotations

import pytest

from lakewright.storage import Catalog, Table
from tests.interop.test_they_read_ours import as_read_by
from tests.oracles.client import JavaOracle, WritingOracle
from tests.support.histories.reverts import KINDS, VERBS, fill, made_by
from tests.support.tables.builders import compact, content, events, rows, values_of
from tests.support.tables.invariants import assert_keys_are_indexed


@pytest.mark.parametrize(
    ("kind", "verb"),
    [
        ("keyed", "compact"),
        ("keyed", "drop"),
        ("append", "drop"),
        ("vectors", "compact"),
        ("dynamic", "drop"),
    ],
)
def test_other_clients_read_a_reverted_table_and_lose_nothing_of_it(
    catalog: Catalog, java: JavaOracle, pypaimon: WritingOracle, kind: str, verb: str
) -> None:
    table = KINDS[kind].table(catalog)
    fill(table)
    before = content(table)
    made = made_by(table, VERBS[verb])
    table.history.revert(*made)
    assert content(table) == before
    for client in (java, pypaimon):
        assert as_read_by(client, catalog, table) == before
    # Java deletes what expired snapshots removed, and knows nothing of a revert.
    table.write(rows(table, events(20, 22, day="b")))
    settled = content(table)
    java.expire_snapshots(catalog.root, table.name, retain_max=1, retain_min=1)
    assert len(table.history.snapshots()) == 1
    for client in (java, pypaimon):
        assert as_read_by(client, catalog, table) == settled
    java.write(catalog.root, table.name, [{"id": 30, "day": "a", "v": "java"}])
    compact(table, full=True)
    expected = content(table)
    for client in (java, pypaimon):
        assert as_read_by(client, catalog, table) == expected


def assert_keys_stay_once(catalog: Catalog, table: Table, client: WritingOracle) -> None:
    """Upsert the keys of both days by the client and by us: no other row has one of them."""
    assert_keys_are_indexed(table)
    for day in "ab":
        client.write(catalog.root, table.name, events(0, 9, day=day, v="theirs"))
        assert values_of(table, "id", where=f"day = '{day}'") == list(range(9))
    table.write(rows(table, events(3, 12, v="ours")))
    compact(table, full=True)
    assert_keys_are_indexed(table)
    assert as_read_by(client, catalog, table) == content(table)
    assert values_of(table, "id", where="day = 'a'") == list(range(12))


@pytest.mark.parametrize("verb", ["append", "drop", "overwrite a partition"])
@pytest.mark.parametrize("writer", ["java", "java_latest", "released_pypaimon"])
@pytest.mark.sampled(each="writer")
def test_another_client_finds_each_key_in_its_bucket_after_a_revert(
    catalog: Catalog, request: pytest.FixtureRequest, writer: str, verb: str
) -> None:
    client: WritingOracle = request.getfixturevalue(writer)
    table = KINDS["dynamic"].table(catalog)
    table.write(rows(table, [*events(0, 2), *events(0, 2, day="b")]))
    made = made_by(table, VERBS[verb])
    if verb == "append":
        # A key of the rows that go, and a new one.
        client.write(catalog.root, table.name, events(4, 6, v="later"))
    table.history.revert(*made)
    assert as_read_by(client, catalog, table) == content(table)
    assert_keys_stay_once(catalog, table, client)


@pytest.mark.parametrize("writer", ["java", "java_latest", "released_pypaimon"])
def test_a_writer_of_another_client_that_knew_the_keys_that_went_stores_them_once(
    catalog: Catalog, request: pytest.FixtureRequest, writer: str
) -> None:
    client: WritingOracle = request.getfixturevalue(writer)
    table = KINDS["dynamic"].table(catalog)
    table.write(rows(table, [*events(0, 2), *events(0, 2, day="b")]))
    made = made_by(table, VERBS["append"])
    # It lists no key as new that it has found in an index.
    client.begin_write(catalog.root, table.name, events(2, 4, v="under way"))
    table.history.revert(*made)
    client.finish_write(catalog.root, table.name, events(4, 5, v="under way"))
    assert values_of(table, "id", where="day = 'a'") == [0, 1, 2, 3, 4]
    assert_keys_stay_once(catalog, table, client)
