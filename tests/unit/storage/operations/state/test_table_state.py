"""A state tells how the keys of its files compare with the table's, and refuses by itself."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import SchemaMoved
from lakewright.storage.operations.state.table_state import ANY_KEYS, Keys, latest_state, state_at
from tests.support.stores.watched_files import Call, Crashed, WatchedFiles, over
from tests.support.tables.builders import content, rows
from tests.support.tables.late_commits import commit_late
from tests.unit.storage.operations.respec.test_keyed import KEY, by_day, event, respec

pytestmark = pytest.mark.mission("PT1")


def stopped(catalog: Catalog, key: Sequence[str]) -> Table:
    """A table whose change of keys died before its schema was created."""

    def dies(call: Call) -> None:
        if call.name == "put_if_absent" and "/schema/schema-" in call.path:
            raise Crashed

    # Without the option the builder deletes rows, which an append table cannot.
    append = {"buckets": -1, "merge-engine": "deduplicate"}
    table = by_day(catalog, key=key, **({} if key else append))
    with suppress(Crashed):
        over(table, WatchedFiles(table.table_files.fs, before=dies)).upkeep.respec(["dt", "hh"])
    return catalog.table(table.name)


def kind(table: Table) -> Keys:
    return latest_state(table.table_files, takes=ANY_KEYS).keys


@pytest.mark.parametrize(
    ("key", "due"), [(KEY, Keys.BRIDGED), ((), Keys.MIXED)], ids=["upsert", "append"]
)
def test_amid_a_change_of_keys_only_who_takes_them_gets_a_state(
    catalog: Catalog, key: Sequence[str], due: Keys
) -> None:
    table = stopped(catalog, key)
    files, snapshot = table.table_files, table.history.latest_snapshot()
    assert kind(table) is due
    assert state_at(files, snapshot, takes=[due]).entries
    for refused in (
        lambda: state_at(files, snapshot),
        lambda: latest_state(files),
        lambda: table.upkeep.plan_compact(full=True),
        lambda: table.upkeep.plan_drop_partitions(partitions=[{"dt": "a"}]),
    ):
        with pytest.raises(SchemaMoved, match=r"respec db\.t --keys 'dt'"):
            refused()
    rows_before = content(table)
    table.upkeep.respec(["dt"])
    assert kind(table) is Keys.SETTLED
    assert content(table) == rows_before
    table.upkeep.plan_compact(full=True)


def test_files_of_a_late_client_are_mixed_until_they_are_moved(catalog: Catalog) -> None:
    opened = by_day(catalog)
    late = opened.stage(rows(opened, [event("a", 1, 2, v="late")]))
    table = respec(catalog, opened, "hh")
    assert kind(table) is Keys.SETTLED
    commit_late(opened, late)
    assert kind(table) is Keys.MIXED
    with pytest.raises(SchemaMoved, match=r"respec db\.t --keys 'hh'"):
        table.delete("hh = 1")
    table.upkeep.respec(["hh"])
    assert kind(table) is Keys.SETTLED


def test_a_table_that_was_opened_before_a_change_is_told_to_be_opened_again(
    catalog: Catalog,
) -> None:
    opened = by_day(catalog)
    respec(catalog, opened, "hh")
    with pytest.raises(SchemaMoved, match="open the table"):
        latest_state(opened.table_files)


def test_a_table_without_a_snapshot_is_settled_and_holds_nothing(catalog: Catalog) -> None:
    files = by_day(catalog).table_files
    state = state_at(files, None)
    assert (state.keys, state.entries, state.indexes) == (Keys.SETTLED, [], ())
