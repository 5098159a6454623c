"""What Dagster knows of earlier and present runs of upkeep, for the next decisions.

Nothing of it is kept elsewhere: a lost cursor, a restarted daemon or a run that was killed leaves
nothing behind that could hold a table back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg

from lakewright.platform.ledger.intents import Cost
from lakewright.platform.ledger.known_work import LONGEST_DELAY_MS, Past, Try
from lakewright.platform.ledger.savings import sum_of_costs
from lakewright.platform.orchestration.in_flight import work_in_flight
from lakewright.platform.orchestration.names import (
    DEFERRED_TAG,
    UPKEEP,
    VERB_TAG,
    UpkeepNames,
    tables_of_tag,
)
from lakewright.platform.orchestration.runs import op_configs, tables_of
from lakewright.platform.upkeep.measures import Measures

# Runs of a verb that are looked at, newest first; more only as long as a delay may depend on them.
_RUNS, _MOST_RUNS = 200, 2_000
_GOOD = dg.DagsterRunStatus.SUCCESS
_MS = 1000


def past_runs(
    instance: dg.DagsterInstance,
    names: UpkeepNames,
    tables: Sequence[str],
    verbs: Iterable[str],
    *,
    now_ms: int,
    died: MutableMapping[str, bool] | None = None,
) -> Past:
    """The last tries of each verb on each table, what runs now, and what that may take.

    The first run that died in a state of a table, by one policy, is no try: another one is asked
    for at once. `died` remembers of failed runs, by their ids, whether they did; looks share it.
    """
    known = {} if died is None else died
    tries: dict[tuple[str, str], Try] = {}
    forgiven: set[tuple[str, str]] = set()
    done: dict[tuple[str, str], int] = {}
    promised: dict[str, Cost] = {}
    for verb in verbs:
        for record in _records(instance, names.job(UPKEEP), verb, now_ms):
            run = record.dagster_run
            if not run.is_finished:
                for table, each in _asked(run).items():
                    cost = Measures.predicted(each.get("predicted", {})).cost
                    promised[table] = sum_of_costs([promised.get(table, Cost()), cost])
                continue
            started_ms = int((record.start_time or record.create_timestamp.timestamp()) * _MS)
            ended_ms = int((record.end_time or record.update_timestamp.timestamp()) * _MS)
            asked = _asked(run)
            deferred = tables_of_tag(run.tags.get(DEFERRED_TAG, ""))
            for table in tables_of(run, names.keys):
                key = (table, verb)
                if run.status is _GOOD and not _is_dry(run) and table not in deferred:
                    done.setdefault(key, started_ms)
                wanted = asked.get(table, {})
                if wanted.get("state") is None:
                    continue
                tried = Try(
                    state=wanted["state"], ended_ms=ended_ms, policy=wanted.get("policy", "")
                )
                last = tries.get(key)
                again = last is None or last.is_like(tried)
                # The first death in a state is forgiven: mostly the work was not the cause of it.
                if again and key not in forgiven and _has_died(instance, run, known):
                    forgiven.add(key)
                    again = False
                if last is None:
                    tries[key] = replace(tried, times=int(again))
                else:
                    tries[key] = replace(last, times=last.times + again)
    return Past(
        tries=tries,
        done_ms=done,
        in_flight=work_in_flight(instance, tables, names.keys),
        spent=promised,
    )


def _has_died(
    instance: dg.DagsterInstance, run: dg.DagsterRun, known: MutableMapping[str, bool]
) -> bool:
    """Whether a run failed but its work did not: its process was killed, or never came."""
    if run.status is not dg.DagsterRunStatus.FAILURE:
        return False
    if run.run_id not in known:
        known[run.run_id] = not instance.get_run_stats(run.run_id).steps_failed
    return known[run.run_id]


def _records(
    instance: dg.DagsterInstance, job: str, verb: str, now_ms: int
) -> Iterator[dg.RunRecord]:
    """Runs of a verb, newest first."""
    filters = dg.RunsFilter(job_name=job, tags={VERB_TAG: verb})
    cursor = None
    for _ in range(0, _MOST_RUNS, _RUNS):
        some = instance.get_run_records(filters=filters, limit=_RUNS, cursor=cursor)
        yield from some
        oldest_ms = some[-1].create_timestamp.timestamp() * _MS if some else 0
        if len(some) < _RUNS or oldest_ms < now_ms - LONGEST_DELAY_MS:
            return
        cursor = some[-1].dagster_run.run_id


def _asked(run: dg.DagsterRun) -> Mapping[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for config in op_configs(run):
        found |= config.get("asked", {})
    return found


def _is_dry(run: dg.DagsterRun) -> bool:
    return any(config.get("dry_run") for config in op_configs(run))
