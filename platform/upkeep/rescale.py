"""Rescaling as a verb: the rows of partitions in another number of buckets."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakewright.platform.upkeep.known_partitions import check_partitions_known
from lakewright.platform.upkeep.rewrites import (
    RewriteOptions,
    move_report,
    rewrite_engine,
    rewrite_lease,
)
from lakewright.platform.upkeep.verb import LeaseNeed, Outcome, Report, Verb, Work, option
from lakewright.storage import LeaseKind, RescalePlan, RescaleResult, Table
from lakewright.storage.errors import InvalidRequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleOptions(RewriteOptions):
    """What a rescale may be told."""

    buckets: int | None = option(None, "How many buckets there are to be.")


class Rescale(Verb[RescaleOptions, RescalePlan, RescaleResult]):
    """Move rows into another number of buckets."""

    name = "rescale"
    description = "move the rows of a table, or of some partitions, into another number of buckets"
    options = RescaleOptions
    plan_type = RescalePlan

    def plan(self, table: Table, options: RescaleOptions) -> RescalePlan:
        """The partitions that have another number of buckets.

        Raises:
            NotFoundError: the table has no such partition.
            InvalidRequestError: no number is given, or the table cannot be rescaled.
        """
        if options.buckets is None:
            raise InvalidRequestError(
                f"say how many buckets {table.name} is to have: buckets is not given"
            )
        check_partitions_known(table, options.partitions or ())
        return table.upkeep.plan_rescale(options.buckets, options.partitions)

    def lease(self, table: Table, plan: RescalePlan | None) -> LeaseNeed | None:
        """The partitions of the plan, with all of their buckets."""
        return rewrite_lease(table, plan, LeaseKind.RESCALE)

    def run(
        self, table: Table, plan: RescalePlan, options: RescaleOptions, work: Work
    ) -> RescaleResult:
        """Move what the plan names."""
        engine = rewrite_engine(options, plan, work)
        return table.upkeep.run(plan, engine, verify=options.verify, lease=work.lease)

    def report(
        self, table: Table, outcome: Outcome[RescaleOptions, RescalePlan, RescaleResult]
    ) -> Report:
        """Files, bytes and rows before and after."""
        report = move_report(
            outcome.plan,
            outcome.result,
            outcome.options,
            purpose="other buckets",
        )
        option_value = outcome.plan.bucket_option
        if option_value is None:
            return report
        # The option changes even where no partition holds rows.
        return replace(
            report, facts={**report.facts, "bucket_option": option_value}, is_empty=False
        )


RESCALE = Rescale()
