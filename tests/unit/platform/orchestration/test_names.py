"""Names of tables in Dagster: the keys of their assets, in both directions."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest

from lakewright.platform.orchestration.names import AssetKeys, TableNames, UpkeepNames, usual_key

MOVED = dg.AssetKey(["lake", "shop", "events"])
USUAL = dg.AssetKey(["shop", "events"])


def test_without_more_a_key_is_made_of_the_name() -> None:
    names = TableNames("shop.events")
    assert names.asset_key == USUAL
    assert names.keys.table(USUAL) == "shop.events"
    # Assets of others have names of the same form.
    assert names.keys.table(dg.AssetKey(["theirs"])) == "theirs"


@pytest.mark.parametrize("table", ["my db.with space", "odd.Ünïcode-Tàble", "odd.it's"])
def test_a_table_of_any_name_has_names_that_dagster_takes(table: str) -> None:
    names = TableNames(table)

    @dg.asset(key=names.asset_key)
    def asset() -> None: ...

    @dg.multi_asset_check(specs=[dg.AssetCheckSpec("healthy", asset=names.asset_key)])
    def healthy() -> Iterator[dg.AssetCheckResult]:
        yield from ()

    @dg.op(name=names.checks)
    def op() -> None: ...

    @dg.job(name=names.schedule("ingest"))
    def job() -> None:
        op()

    dg.Definitions.validate_loadable(dg.Definitions([asset], jobs=[job], asset_checks=[healthy]))
    assert names.keys.table(names.asset_key) == table


def test_names_that_look_alike_have_keys_of_their_own() -> None:
    names = ("odd.with space", "odd.with_space", "odd.with\u00a0space")
    assert len({usual_key(each) for each in names}) == 3


def test_a_key_that_was_changed_leads_to_its_table_and_the_usual_one_no_longer() -> None:
    names = UpkeepNames("lake", AssetKeys({"shop.events": MOVED}))
    assert names.of("shop.events").asset_key == MOVED
    assert names.keys.table(MOVED) == "shop.events"
    # What has the usual key now is another asset, and no run of it is one on the table.
    assert names.keys.table(USUAL) == "shop/events"
    assert names.of("shop.orders").asset_key == dg.AssetKey(["shop", "orders"])


def test_a_later_table_gets_no_key_that_is_another_tables() -> None:
    keys = AssetKeys({"shop.events": MOVED}, lambda table: MOVED)
    assert keys.of("shop.orders") == dg.AssetKey(["shop", "orders"])
    assert (keys.table(MOVED), keys.table(keys.of("shop.orders"))) == ("shop.events", "shop.orders")


def test_a_table_that_comes_later_is_asked_for_once() -> None:
    asked: list[str] = []

    def key_of(table: str) -> dg.AssetKey:
        asked.append(table)
        return dg.AssetKey(["lake", *table.split(".")])

    keys = AssetKeys({}, key_of)
    assert keys.of("shop.events") == keys.of("shop.events") == MOVED
    assert asked == ["shop.events"]
    assert keys.table(MOVED) == "shop.events"


def test_a_run_for_one_table_is_one_of_the_groups_job_of_all_tables() -> None:
    names = UpkeepNames("lake").of("shop.events")
    assert names.run_config("respec", {"keys": ["dt"]}) == {
        "ops": {
            "lake__upkeep": {
                "config": {"verb": {"respec": {"tables": {"shop.events": {"keys": ["dt"]}}}}}
            }
        }
    }


def test_each_time_zone_has_a_schedule_of_its_own_name() -> None:
    zones = ("UTC", "Europe/Berlin", "Etc/GMT+1", "Etc/GMT-1")
    found = [UpkeepNames().schedule("validate_schema", zone) for zone in zones]
    assert found[:2] == ["validate_schema_schedule", "validate_schema_schedule__Europe_Berlin"]
    assert len({*found}) == len(zones)
    assert all(each.isidentifier() for each in found)
