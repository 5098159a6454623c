"""Sorting as a verb: an append table's rows in an order that lets filters skip files."""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.platform.upkeep.known_partitions import check_partitions_known
from lakewright.platform.upkeep.procedure import Command, Keeping, Procedure
from lakewright.platform.upkeep.rewrites import (
    compaction_report,
    rewrite_lease,
    rewrite_measures,
)
from lakewright.platform.upkeep.run_options import Verified
from lakewright.storage import Table
from lakewright.storage.operations.rewrite.sort_compact import (
    SortCompactionPlan,
    SortCompactOptions,
)
from lakewright.storage.upkeep import Upkeep


@dataclass(frozen=True, kw_only=True)
class SortCompactRun(Verified, SortCompactOptions):
    """What a sorting takes."""


def _plan(table: Table, options: SortCompactRun) -> SortCompactionPlan:
    check_partitions_known(table, options.partitions or ())
    return SORT_COMPACT.verb.planned(table.table_files, options)


SORT_COMPACT = Procedure(
    verb=Upkeep.sort_compact,
    options=SortCompactRun,
    plan=_plan,
    report=lambda table, done: compaction_report(table, done.plan, done.result, done.options),
    command=Command(
        purpose="Upkeep",
        examples="lakewright sort-compact nyc.flights --by carrier,distance --order zorder "
        "--dry-run",
    ),
    keeping=Keeping(
        section=lambda policy: policy.sort,
        options=lambda policy: SortCompactRun(by=policy.sort.columns, order=policy.sort.order),
    ),
    lease=rewrite_lease,
    measures=rewrite_measures,
)
