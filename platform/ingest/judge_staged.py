"""Judges staged rows by the expectations: all together, and the rows of each partition alone.

If all together are rejected, the partitions whose own rows do not meet the expectations are left
out. The caller judges the others together again before it publishes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakewright.platform.ingest.expectations import (
    ExpectationOutcome,
    ValidationReport,
)
from lakewright.platform.ingest.validate_staged import validate_staged
from lakewright.platform.tables.declarations import ExpectationDeclaration
from lakewright.platform.tables.partition_keys import partition_identity
from lakewright.platform.tables.upkeep_policies import EngineChoice
from lakewright.platform.upkeep.words import failing_rows
from lakewright.storage import StagedWrite, Table
from lakewright.storage.env import Env
from lakewright.storage.operations.write.split_staged import split_staged
from lakewright.storage.spec.partition_words import describe_partition

Spec = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class StagedJudge:
    """Reads staged rows, and evaluates expectations on them."""

    table: Table
    session: Callable[[], Any]
    find_table: Callable[[str], Table]
    env: Env
    engine: EngineChoice = EngineChoice.AUTO

    def report(
        self, staged: Sequence[StagedWrite], expectations: Sequence[ExpectationDeclaration]
    ) -> ValidationReport:
        """The results for the rows of some writes together."""
        return validate_staged(
            self.table,
            staged,
            expectations,
            session=self.session,
            find_table=self.find_table,
            env=self.env,
            engine=self.engine,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedPartition:
    """A partition whose rows were not published, and by check what they did not meet."""

    spec: Spec
    row_count: int
    not_met: Mapping[str, str]


def rejected_alone(
    judge: StagedJudge,
    staged: Sequence[StagedWrite],
    report: ValidationReport,
    expectations: Sequence[ExpectationDeclaration],
) -> tuple[RejectedPartition, ...]:
    """The partitions whose own rows do not meet the expectations that all rows did not meet.

    There are none if the expectations could not be evaluated, or only partitions together fail.
    """
    if any(each.error is not None for each in report.blocking):
        return ()
    failed = {each.check_name for each in report.blocking}
    asked = [expectation for expectation in expectations if expectation.check_name in failed]
    suspects = _suspects(report)
    found = {
        partition_identity(partition.spec): partition.spec
        for one in staged
        for partition in one.partitions
    }
    rejected = []
    for spec in found.values():
        if suspects is not None and describe_partition(spec) not in suspects:
            continue
        alone = judge.report(parts_in(judge.table, staged, [spec])[0], asked)
        if alone.blocking:
            not_met = {each.check_name: _told(each) for each in alone.blocking}
            rejected.append(
                RejectedPartition(spec=spec, row_count=alone.row_count, not_met=not_met)
            )
    return tuple(rejected)


def _told(outcome: ExpectationOutcome) -> str:
    count = outcome.unexpected_count
    return failing_rows(count) if count else outcome.summary


def parts_in(
    table: Table, staged: Sequence[StagedWrite], specs: Sequence[Spec]
) -> tuple[list[StagedWrite], list[StagedWrite]]:
    """The parts of writes in some partitions, and their parts in others."""
    wanted = {partition_identity(spec) for spec in specs}
    pairs = [
        split_staged(table.table_files, each, lambda spec: partition_identity(spec) in wanted)
        for each in staged
    ]
    return [kept for kept, _ in pairs], [others for _, others in pairs]


def _suspects(report: ValidationReport) -> set[str] | None:
    """The partitions with all rows that do not meet the expectations; None if that is unknown."""
    found: set[str] = set()
    for each in report.blocking:
        counts = each.unexpected_by_partition
        if not counts or sum(counts.values()) != each.unexpected_count:
            return None
        found |= set(counts)
    return found
