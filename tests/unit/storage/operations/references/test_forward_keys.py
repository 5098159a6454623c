"""A fast-forward whose readers would meet other partition keys is refused with the way out.

That readers of other clients then read every moment of it: `tests/interop/test_references.py`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import StalePlan, UnsupportedError
from tests.support.stores.watched_files import Call, Crashed, WatchedFiles
from tests.support.tables.builders import content, expire, new_table, rows
from tests.support.tables.invariants import assert_only_reachable_files

COLUMNS = {"dt": "STRING", "hh": "INT", "id": "INT"}


def parted(catalog: Catalog) -> tuple[Table, Table]:
    """A table, and a branch that has the first of its two snapshots, and one more."""
    table = new_table(catalog, COLUMNS, partitions=["dt"])
    given = [{"dt": d, "hh": h, "id": h} for d in "ab" for h in (1, 2)]
    table.write(rows(table, given))
    side = table.history.create_branch("side", snapshot=1)
    side.write(rows(side, [{"dt": "a", "hh": 7, "id": 7}]))
    table.write(rows(table, [{"dt": "a", "hh": 8, "id": 8}]))
    return table, side


def stop_before_the_schema(catalog: Catalog, name: str, keys: list[str]) -> None:
    """Begin to change the keys, and die when rows of both lists of keys are committed."""

    def die(call: Call) -> None:
        if call.changes and "/schema/schema-" in call.path:
            raise Crashed

    with pytest.raises(Crashed):
        replace(catalog, fs=WatchedFiles(catalog.fs, before=die)).table(name).upkeep.respec(keys)


@pytest.mark.parametrize("whose", ["db.t", "db.t$branch_side"])
def test_main_is_not_forwarded_while_keys_change(catalog: Catalog, whose: str) -> None:
    table, _ = parted(catalog)
    stop_before_the_schema(catalog, whose, ["dt", "hh"])
    shown = f"'{whose}'" if "$" in whose else whose
    with pytest.raises(UnsupportedError, match="is in progress, or was stopped") as told:
        table.history.fast_forward("side", grace_ms=0)
    assert f"lakewright respec {shown} --keys 'dt'" in str(told.value)
    catalog.table(whose).upkeep.respec(["dt"])
    catalog.table("db.t").history.fast_forward("side", grace_ms=0)
    table = catalog.table("db.t")
    assert content(table) == content(catalog.table("db.t$branch_side"))
    assert_only_reachable_files(table)


def test_where_both_share_no_snapshot_the_refusal_names_what_to_expire(catalog: Catalog) -> None:
    table, side = parted(catalog)
    expire(side)
    table.upkeep.respec(["hh"])
    table = catalog.table("db.t")
    with pytest.raises(UnsupportedError, match=r"expire the snapshots of main .* \[hh\]") as told:
        table.history.fast_forward("side", grace_ms=0)
    assert "lakewright respec 'db.t$branch_side' --keys 'hh'" in str(told.value)
    assert "last snapshot of both" not in str(told.value)
    expire(table)
    side.upkeep.respec(["hh"])
    table.history.fast_forward("side", grace_ms=0)
    table = catalog.table("db.t")
    assert content(table) == content(catalog.table("db.t$branch_side"))
    assert table.schema.partition_keys == ("hh",)


def test_a_plan_from_before_a_change_of_keys_is_not_carried_out(catalog: Catalog) -> None:
    table, side = parted(catalog)
    plan = table.history.plan_fast_forward("side", grace_ms=0)
    side.upkeep.respec(["hh"])
    due = content(table)
    with pytest.raises((StalePlan, UnsupportedError), match=r"keys|plan again"):
        table.history.run(plan)
    assert content(catalog.table("db.t")) == due


@pytest.mark.parametrize("went_back", [False, True], ids=["keys differ", "keys are equal again"])
def test_a_branch_gets_the_primary_key_of_main_before_it_is_forwarded(
    catalog: Catalog, went_back: bool
) -> None:
    table = new_table(
        catalog, COLUMNS, partitions=["dt"], keys=["id", "dt"], options={"bucket": "1"}
    )
    table.write(rows(table, [{"dt": "a", "hh": h, "id": h} for h in (1, 2)]))
    side = table.history.create_branch("side", snapshot=1)
    side.upkeep.respec(["dt", "hh"], primary_key=["id", "dt", "hh"])
    side = table.history.at_branch("side")
    if went_back:
        side.upkeep.respec(["dt"])
    with pytest.raises(UnsupportedError, match=r"the branch .*; primary key id, dt, hh\]") as told:
        table.history.fast_forward("side", grace_ms=0)
    way = "--keys 'dt' --primary-key id,dt"
    assert (f"{way}, by way of partition keys with hh)" in str(told.value)) is went_back
    assert (f"{way})" in str(told.value)) is not went_back
    if went_back:
        table.history.at_branch("side").upkeep.respec(["dt", "hh"])
    table.history.at_branch("side").upkeep.respec(["dt"], primary_key=["id", "dt"])
    table.history.fast_forward("side", grace_ms=0)
    assert catalog.table("db.t").schema.primary_keys == ("id", "dt")
    assert len(content(catalog.table("db.t"))) == 2
