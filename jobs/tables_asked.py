"""Checks of many tables in one run, and the schedules that ask for such runs.

A table that cannot be read gets a failed check that says why. The others are evaluated, and the run
fails at its end.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.declare.partition_keys import first_few
from lakewright.platform.orchestration.check_events import check_event, not_evaluated
from lakewright.platform.orchestration.cron import is_tick
from lakewright.platform.orchestration.failures import failures_for_dagster
from lakewright.platform.orchestration.names import TABLE_TAG, VERB_TAG, UpkeepNames, table_tag
from lakewright.platform.upkeep.words import counted
from lakewright.storage.errors import InvalidRequestError

# As many as a run of upkeep keeps: the tag of a run names them, and stores index what it says.
_MOST_TABLES = 25


@dataclass(slots=True)
class TablesAsked:
    """What a run told of each table, and the troubles of those that could not be `done`."""

    context: dg.OpExecutionContext
    done: str
    told: dict[str, str] = field(default_factory=dict)
    troubles: dict[str, Exception] = field(default_factory=dict)

    def declaration(
        self, declarations: Sequence[TableDeclaration], table: str
    ) -> TableDeclaration | None:
        """The declaration of a table; without one, that is its trouble."""
        known = {each.table: each for each in declarations}
        if table not in known:
            names = first_few(sorted(known)) or "none"
            self._trouble(table, InvalidRequestError(f"{table} is not declared; there are {names}"))
        return known.get(table)

    def evaluation(
        self, table: str, key: dg.AssetCheckKey, evaluate: Callable[[], dg.AssetCheckResult]
    ) -> dg.AssetCheckEvaluation:
        """Evaluate a check of a table; one that cannot be asked does not keep it from others."""
        found = self._asked(table, key.name, evaluate)
        self.context.log.info("%s, %s: %s", table, key.name, found.description)
        earlier = f"{self.told[table]}; " if table in self.told else ""
        self.told[table] = f"{earlier}{key.name}: {found.description}"
        return check_event(key, found)

    def raise_for_troubles(self, tables: int) -> None:
        """Fail or try again for what could not be read; all results are reported by then."""
        if not self.troubles:
            return
        for trouble in self.troubles.values():
            if isinstance(trouble, dg.RetryRequested):
                raise trouble
        told = "; ".join(f"{name}: {_words(each)}" for name, each in self.troubles.items())
        count = counted(len(self.troubles), "table")
        raise dg.Failure(
            f"{count} of {tables} could not be {self.done}: {told}",
            metadata={name: _words(each) for name, each in self.troubles.items()},
            allow_retries=False,
        )

    def _asked(
        self, table: str, check: str, evaluate: Callable[[], dg.AssetCheckResult]
    ) -> dg.AssetCheckResult:
        try:
            with failures_for_dagster():
                return evaluate()
        except Exception as trouble:
            # A reader of files or a Spark session may raise anything; the other tables go on.
            self.context.log.exception("%s: %s could not be evaluated", table, check)
            self._trouble(table, trouble)
            return not_evaluated(_words(trouble))

    def _trouble(self, table: str, trouble: Exception) -> None:
        # Of several checks, the one that is worth another try stands for the table.
        if isinstance(trouble, dg.RetryRequested) or table not in self.troubles:
            self.troubles[table] = trouble


def schedules_of_tables(
    verb: str,
    moments: Mapping[str, tuple[str, str]],
    job: dg.JobDefinition,
    names: UpkeepNames,
    description: str,
) -> list[dg.ScheduleDefinition]:
    """A schedule for each time zone of the tables' moments, each a cron and its time zone."""
    zones: dict[str, dict[str, str]] = {}
    for table, (cron, timezone) in moments.items():
        zones.setdefault(timezone, {})[table] = cron
    return [_schedule(verb, zone, zones[zone], job, names, description) for zone in sorted(zones)]


def _schedule(
    verb: str,
    timezone: str,
    crons: Mapping[str, str],
    job: dg.JobDefinition,
    names: UpkeepNames,
    description: str,
) -> dg.ScheduleDefinition:
    moments = sorted({*crons.values()})

    def requests(
        context: dg.ScheduleEvaluationContext,
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        at = context.scheduled_execution_time
        due = [table for table, cron in crons.items() if is_tick(at, cron, timezone)]
        if not due:
            yield dg.SkipReason(f"no table is due at {at.isoformat()}")
        for first in range(0, len(due), _MOST_TABLES):
            batch = due[first : first + _MOST_TABLES]
            config: dict[str, Any] = {"tables": {table: {} for table in batch}}
            yield dg.RunRequest(
                f"{at.isoformat()} {batch[0]}",
                run_config={"ops": {job.name: {"config": config}}},
                tags={TABLE_TAG: table_tag(batch), VERB_TAG: verb},
            )

    return dg.ScheduleDefinition(
        name=names.schedule(verb, timezone),
        job=job,
        # Dagster tells in words what a single one means.
        cron_schedule=moments if len(moments) > 1 else moments[0],
        execution_timezone=timezone,
        execution_fn=requests,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=description,
    )


def _words(trouble: Exception) -> str:
    if isinstance(trouble, dg.Failure):
        return str(trouble.description)
    if isinstance(trouble, dg.RetryRequested):
        return str(trouble.__cause__)
    return f"{type(trouble).__name__}: {trouble}"
