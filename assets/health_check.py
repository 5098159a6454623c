"""The check `healthy`: what upkeep a table needs, from its metadata alone.

The upkeep sensor reports the same evaluation without a run whenever what is due changes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import dagster as dg

from lakewright.assets.table_checks import TableCheck
from lakewright.platform.decide.clock import Clock
from lakewright.platform.decide.decide import decide
from lakewright.platform.decide.kept_tables import KeptTables
from lakewright.platform.decide.upkeep_state import read_state
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.ledger.past import LedgerPast, day_of
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
from lakewright.platform.orchestration.policy_memory import recall_policies
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.storage.env import SystemEnv

_DESCRIPTION = (
    "In which state the table is, and whether upkeep is due, by its metadata and its policy: small "
    "files, sorted runs, rows that wait, snapshots, manifests, orphans, files of other partition "
    "keys."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthChecks:
    """The checks of all kept tables; `verbs` are those that the sensor may ask for."""

    tables: KeptTables
    verbs: Sequence[str]
    names: UpkeepNames
    resources: ResourceKeys

    def of(self, table: str) -> TableCheck:
        """The check of one table."""
        return TableCheck(
            name=HEALTHY,
            description=_DESCRIPTION,
            evaluate=lambda context, _: next(self._results(context, [table])),
        )

    def step(self, name: str, tables: Sequence[str]) -> dg.AssetChecksDefinition:
        """One step that checks any of these tables."""
        by_key = {
            dg.AssetCheckKey(self.names.keys.of(table), HEALTHY): table for table in sorted(tables)
        }

        @dg.multi_asset_check(
            name=name,
            specs=[
                dg.AssetCheckSpec(HEALTHY, asset=key.asset_key, description=_DESCRIPTION)
                for key in by_key
            ],
            can_subset=True,
            required_resource_keys={self.resources.warehouse},
        )
        def healthy(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
            wanted = [by_key[key] for key in by_key if key in context.selected_asset_check_keys]
            yield from self._results(context, wanted)

        return healthy

    def _results(
        self, context: dg.AssetCheckExecutionContext, wanted: Sequence[str]
    ) -> Iterator[dg.AssetCheckResult]:
        warehouse: WarehouseResource = getattr(context.resources, self.resources.warehouse)
        origin = context.run.remote_job_origin
        location = origin.repository_origin.code_location_origin.location_name if origin else None
        recall_policies(context.instance, self.tables.files)
        with failures_for_dagster():
            catalog = warehouse.catalog()
            now_ms = SystemEnv().now_ms()
            clock = Clock.at(now_ms)
            begins_ms, _ = day_of(now_ms, self.tables.warehouse.budget.timezone)
            past = past_runs(context.instance, self.names, wanted, self.verbs, now_ms=now_ms)
            past = LedgerPast(Ledger(catalog)).add_to(past, day_begins_ms=begins_ms)
            # What is due is due also while a run is on it, and this run may be one on the table.
            past = replace(past, in_flight={})

        def evaluate(table: str) -> HealthEvaluation:
            if not catalog.table_exists(table):
                return absent(table)
            kept = self.tables.table(table)
            policy = kept.policy
            state = read_state(
                catalog, table, now_ms=now_ms, sort=policy.sort, respec=policy.respec
            )
            decisions = decide(state, policy, past, clock, declared_keys=kept.declared_keys)
            beside = read_background(catalog, state)
            return evaluate_health(
                state, decisions, kept, self.names, location=location, beside=beside
            )

        for table in wanted:
            with failures_for_dagster():
                found = evaluate(table)
            yield found.result(self.names.of(table))
