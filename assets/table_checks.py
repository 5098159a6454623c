"""The checks of a stored table: one step evaluates those that a run selects.

Each step may have a process of its own, which loads all definitions: a step for each check would
cost a small run more than its write. A check that cannot be evaluated fails the step once the
others are evaluated.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import dagster as dg

from lakewright.platform.ingest.validate_schema import ValidateRun
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.run_config import config_class

# Without `dry_run`: a result without a sample would stand in place of the last one.
SampleConfig = config_class(ValidateRun, dg.Config)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCheck:
    """One check; `evaluate` gets the run's config of the sample of rows."""

    name: str
    description: str
    evaluate: Callable[[dg.AssetCheckExecutionContext, dg.Config], dg.AssetCheckResult]


def build_table_checks(
    names: TableNames, checks: Sequence[TableCheck], *, resources: ResourceKeys
) -> dg.AssetChecksDefinition:
    """The step of these checks of a table."""

    def table_checks(
        context: dg.AssetCheckExecutionContext, config: dg.Config
    ) -> Iterator[dg.AssetCheckResult]:
        selected = {each.name for each in context.selected_asset_check_keys}
        troubles: list[Exception] = []
        for check in checks:
            if check.name not in selected:
                continue
            try:
                found = check.evaluate(context, config)
            except (dg.Failure, dg.RetryRequested) as trouble:
                troubles.append(trouble)
                continue
            yield dg.AssetCheckResult(
                asset_key=names.asset_key,
                check_name=check.name,
                passed=found.passed,
                severity=found.severity,
                description=found.description,
                metadata=found.metadata,
            )
        if troubles:
            raise troubles[0]

    table_checks.__annotations__["config"] = SampleConfig
    return dg.multi_asset_check(
        name=names.checks,
        specs=[
            dg.AssetCheckSpec(each.name, asset=names.asset_key, description=each.description)
            for each in checks
        ],
        can_subset=True,
        required_resource_keys={resources.warehouse, resources.spark},
    )(table_checks)
