"""The check `healthy`: what upkeep a table needs, from its metadata alone.

The upkeep sensor reports the same evaluation without a run whenever what is due changes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import dagster as dg

from lakewright.platform.orchestration.check_events import HEALTHY
from lakewright.platform.orchestration.failures import failures_for_dagster
from lakewright.platform.orchestration.health_background import read_background
from lakewright.platform.orchestration.health_reports import (
    HealthEvaluation,
    absent,
    evaluate_health,
)
from lakewright.platform.orchestration.names import UpkeepNames
from lakewright.platform.orchestration.past_runs import past_runs
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.platform.orchestration.run_life import RunLife
from lakewright.platform.warehouse.clock import Clock
from lakewright.platform.warehouse.decide import decide
from lakewright.platform.warehouse.kept_tables import KeptTables
from lakewright.platform.warehouse.ledger import Ledger
from lakewright.platform.warehouse.past import LedgerPast, day_of
from lakewright.platform.warehouse.table_state import read_state
from lakewright.storage.env import SystemEnv


def build_health_check(
    name: str,
    tables: KeptTables,
    checked: Sequence[str],
    *,
    verbs: Sequence[str],
    names: UpkeepNames | None = None,
    resources: ResourceKeys | None = None,
) -> dg.AssetChecksDefinition:
    """One step that checks any of these tables; `verbs` are those that the sensor may ask for."""
    keys = resources or ResourceKeys()
    upkeep = names or UpkeepNames()
    by_key = {dg.AssetCheckKey(upkeep.keys.of(table), HEALTHY): table for table in sorted(checked)}

    @dg.multi_asset_check(
        name=name,
        specs=[
            dg.AssetCheckSpec(
                HEALTHY,
                asset=key.asset_key,
                description=(
                    "In which state the table is, and whether upkeep is due, by its metadata and "
                    "its policy: small files, sorted runs, rows that wait, snapshots, manifests, "
                    "orphans, files of other partition keys."
                ),
            )
            for key in by_key
        ],
        can_subset=True,
        required_resource_keys={keys.warehouse},
    )
    def healthy(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        warehouse: WarehouseResource = getattr(context.resources, keys.warehouse)
        wanted = [by_key[key] for key in by_key if key in context.selected_asset_check_keys]
        origin = context.run.remote_job_origin
        location = origin.repository_origin.code_location_origin.location_name if origin else None
        with failures_for_dagster():
            catalog = warehouse.catalog()
            now_ms = SystemEnv().now_ms()
            clock = Clock.at(now_ms)
            begins_ms, _ = day_of(now_ms, tables.warehouse.budget.timezone)
            life = RunLife(
                context.instance,
                catalog,
                now_ms,
                tables.warehouse.presumed_dead,
                keys=upkeep.keys,
            )
            past = past_runs(life, upkeep, wanted, verbs)
            past = LedgerPast(Ledger(catalog)).add_to(past, day_begins_ms=begins_ms)
            # What is due is due also while a run is on it, and this run may be one on the table.
            past = replace(past, in_flight={})

        def evaluate(table: str) -> HealthEvaluation:
            if not catalog.table_exists(table):
                return absent(table)
            kept = tables.table(table)
            state = read_state(
                catalog, table, now_ms=now_ms, sort=kept.policy.sort, respec=kept.policy.respec
            )
            decisions = decide(state, kept.policy, past, clock, declared_keys=kept.declared_keys)
            beside = read_background(catalog, state)
            return evaluate_health(state, decisions, kept, upkeep, location=location, beside=beside)

        for table in wanted:
            with failures_for_dagster():
                found = evaluate(table)
            yield found.result(upkeep.of(table))

    return healthy
