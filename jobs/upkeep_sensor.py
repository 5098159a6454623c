"""The upkeep sensor: looks at all kept tables, and asks for what is due, in few runs.

Each tick decides anew from the tables' metadata, their policies and the runs that Dagster knows of;
its cursor is the time of the last tick, for people to read. What it read of a table that did not
change is kept in this process, to spare reading it again.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import dagster as dg

from lakewright.jobs.refresh_assets import refresh_request
from lakewright.jobs.upkeep import SENSOR_TAG
from lakewright.jobs.verbs import KEEPING_VERBS
from lakewright.platform.decide.adopted import AdoptedTable
from lakewright.platform.decide.alerts import Alerts
from lakewright.platform.decide.budget import batches
from lakewright.platform.decide.clock import Clock
from lakewright.platform.decide.keepers import options_by
from lakewright.platform.decide.kept_tables import IN_FORCE, KeptTables
from lakewright.platform.decide.look import Look, TableWatch
from lakewright.platform.decide.surveys import OWN_TABLES
from lakewright.platform.documents.yaml_files import DeclarationError, Problem
from lakewright.platform.ledger.intents import Intent
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.ledger.past import day_of
from lakewright.platform.ledger.recording import is_recording
from lakewright.platform.ledger.shadows import record_shadows
from lakewright.platform.orchestration.names import (
    KEEPS_TAG,
    TABLE_TAG,
    UPKEEP,
    VERB_TAG,
    UpkeepNames,
    table_tag,
)
from lakewright.platform.orchestration.past_runs import past_runs
from lakewright.platform.orchestration.policy_memory import keep_policies
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.platform.orchestration.table_news import TableNews
from lakewright.platform.tables.upkeep_policies import CompactionPolicy, WarehousePolicy
from lakewright.platform.upkeep.measures import Measures
from lakewright.platform.upkeep.words import counted
from lakewright.storage.env import SystemEnv
from lakewright.storage.errors import StorageError
from lakewright.storage.operations.running.verb_options import written_options

_MOST_LOGGED = 50
_STOPPED = (
    " It begins stopped, as nothing here asks for upkeep: start it by the switch on this page, or "
    "write `maintenance` in a declaration, or `policies` in the component."
)
_UNMONITORED = (
    "run_monitoring is not enabled in dagster.yaml: a run whose process is killed holds its tables "
    "until a person ends it"
)
# Dagster gives up on an evaluation after 60 s: so long, tables are begun to be looked at, and then
# to be reported. The next tick goes on with the others.
_LOOK_MS, _TELL_MS = 20_000, 35_000


def build_upkeep_sensor(
    tables: KeptTables,
    jobs: Sequence[dg.JobDefinition],
    *,
    names: UpkeepNames | None = None,
    resources: ResourceKeys | None = None,
    shown: Sequence[AdoptedTable] | None = None,
    page: str = "",
    begins: bool = True,
) -> dg.SensorDefinition:
    """The sensor of all kept tables.

    `shown` are the adopted tables that are assets. Of further tables, and of those that have other
    partition keys by now, it asks for a run of the job `refresh_assets`, which then is one of the
    jobs. Without it, the assets stay as they are. `page` is the asset that shows all of it. A
    sensor that does not begin running is started by a person.
    """
    names = names or UpkeepNames()
    keys = resources or ResourceKeys()
    watch, news, alerts = TableWatch(tables), TableNews(tables, names), Alerts()
    verbs = [kind.name for kind in KEEPING_VERBS]
    died: dict[str, bool] = {}
    # What stays as it is was logged by an earlier tick.
    logged: set[str] = set()
    told_problems: list[Problem] = []

    @dg.sensor(
        name=names.sensor,
        jobs=list(jobs),
        minimum_interval_seconds=max(_interval_ms(tables) // 1000, 1),
        default_status=dg.DefaultSensorStatus.RUNNING if begins else dg.DefaultSensorStatus.STOPPED,
        required_resource_keys={keys.warehouse},
        description=(
            "Looks at the metadata of every kept table and asks for the upkeep that is due: the "
            "most useful first, in few runs, within the budget of the day. Fails while a policy "
            "file is wrong; the last valid policies decide until it is right."
            + (f" The asset `{page}` shows all of it on one page." if page else "")
            + ("" if begins else _STOPPED)
        ),
    )
    def upkeep_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        warehouse: WarehouseResource = getattr(context.resources, keys.warehouse)
        now_ms = SystemEnv().now_ms()
        clock = Clock.at(now_ms)
        problems = keep_policies(context.instance, tables.files)
        catalog = warehouse.catalog()
        budget = tables.warehouse.budget
        day_begins_ms, day_ends_ms = day_of(now_ms, budget.timezone)
        present = watch.names(catalog)
        past = past_runs(context.instance, names, present, verbs, now_ms=now_ms, died=died)
        past = watch.recorded(catalog).add_to(past, day_begins_ms=day_begins_ms)
        look = watch.look(
            catalog, past, clock, names=present, day_ends_ms=day_ends_ms, within_ms=_LOOK_MS
        )
        if look.shadows and is_recording():
            # What cannot be recorded now is decided again at the next tick.
            with suppress(StorageError):
                record_shadows(Ledger(catalog), look.shadows, run=names.sensor, now_ms=now_ms)
        if is_recording():
            with suppress(StorageError):
                watch.record(catalog, look, now_ms=now_ms)
        alerts.tell_look(
            catalog,
            tables.warehouse.alerts,
            look,
            watch,
            past,
            day_ends_ms=day_ends_ms,
            problems=problems,
            warn=context.log.warning,
        )
        _fail_once(problems, told_problems, look)
        warnings = {f"{problem}; {IN_FORCE}" for problem in problems}
        if not context.instance.run_monitoring_enabled:
            warnings.add(_UNMONITORED)
        for warning in sorted(warnings - logged):
            context.log.warning("%s", warning)
        logged.intersection_update(warnings)
        logged.update(warnings)
        for told in look.news[:_MOST_LOGGED]:
            context.log.info("%s", told)
        seconds = tables.warehouse.max_runtime // 1000
        requests = [
            _request(context.instance, batch, tables, names, seconds)
            for batch in batches(look.choice.chosen)
        ]
        if shown is not None:
            # Our own tables appear with the next one: the first look makes them.
            assets = {each.table for each in shown}
            known = tables.declarations.keys() | tables.rejects | assets | set(OWN_TABLES)
            new = [each for each in present if each not in known]
            new += [each for each in _moved(shown, watch) if each not in tables.declarations]
            refresh = refresh_request(context, new, names, now_ms=now_ms)
            requests += [] if refresh is None else [refresh]
        cursor = f"{dt.datetime.fromtimestamp(now_ms // 1000, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
        origin = context.code_location_origin
        events = news.events(
            context.instance,
            catalog,
            watch,
            look,
            location=None if origin is None else origin.location_name,
            until_ms=now_ms + _TELL_MS,
        )
        if problems and not (requests or events):
            raise _failure(problems, look.summary)
        skipped = None if requests else "; ".join([*map(str, problems), look.summary])
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=skipped,
            cursor=cursor,
            asset_events=events,
        )

    return upkeep_sensor


def _fail_once(problems: Sequence[Problem], told: list[Problem], look: Look) -> None:
    """Fail the first tick after a mistake, before it asks for runs or reports, which would be lost.

    Later ticks fail only if they have neither.
    """
    is_new = list(problems) != told
    told[:] = problems
    if problems and is_new:
        due = len(look.choice.chosen)
        waits = f"{counted(due, 'verb')} due, for which the next tick asks"
        raise _failure(problems, waits if due else look.summary)


def _failure(problems: Sequence[Problem], told: str) -> dg.Failure:
    return dg.Failure(f"{DeclarationError(problems)}\n{IN_FORCE}; {told}", allow_retries=False)


def _moved(shown: Iterable[AdoptedTable], watch: TableWatch) -> Iterator[str]:
    """The tables whose assets have the partitions of former keys."""
    for each in shown:
        state = watch.state(each.table)
        # A table that was not read when all were listed has no columns here.
        if not each.columns or state is None or state.survey.problem is not None:
            continue
        if state.survey.partition_keys != each.partition_keys:
            yield each.table


def _interval_ms(tables: KeptTables) -> int:
    """How often the sensor looks: as often as the warehouse or any declaration says.

    The default holds only if none of them says it.
    """
    warehouse = tables.files.shown().warehouse
    sections: list[CompactionPolicy | WarehousePolicy] = [
        warehouse,
        *(declaration.maintenance.compaction for declaration in tables.declarations.values()),
    ]
    written = [section.interval for section in sections if "interval" in section.model_fields_set]
    return min(written, default=warehouse.interval)


def _request(
    instance: dg.DagsterInstance,
    batch: Sequence[Intent],
    tables: KeptTables,
    names: UpkeepNames,
    seconds: int,
) -> dg.RunRequest:
    """The run of one verb on some tables, with all of its options as the policies have them now."""
    verb = batch[0].verb
    config = {
        "tables": {
            each.table: {
                **written_options(options_by(tables.table(each.table).policy, verb)),
                **({} if each.partitions is None else {"partitions": list(each.partitions)}),
                **each.options,
            }
            for each in batch
        },
        "asked": {
            each.table: {
                "state": each.state,
                "policy": each.policy,
                "reason": each.reason,
                "why": each.why.value,
                "predicted": Measures(cost=each.cost, benefit=each.benefit).prediction(),
            }
            for each in batch
        },
    }
    return dg.RunRequest(
        run_key=_run_key(instance, batch),
        job_name=names.job(UPKEEP),
        run_config=names.run_config(verb, config),
        tags={
            KEEPS_TAG: verb,
            TABLE_TAG: table_tag(each.table for each in batch),
            VERB_TAG: verb,
            SENSOR_TAG: names.sensor,
            dg.MAX_RUNTIME_SECONDS_TAG: str(seconds),
        },
    )


def _run_key(instance: dg.DagsterInstance, batch: Iterable[Intent]) -> str:
    """The same for the same tables in the same state, until a run of it has ended.

    Dagster launches a key once, for as long as it knows a run of it: a tick that is evaluated twice
    asks for one run, and the work of a run that has ended needs another key. So runs are asked for
    by their key, of which no number of other runs hides one.
    """
    parts = (f"{each.table} {each.table_uuid} {each.verb} {each.state}" for each in batch)
    key = _digest("\n".join(parts))
    while (last := _newest_of(instance, key)) is not None and last.is_finished:
        key = _digest(f"{key} {last.run_id}")
    return key


def _newest_of(instance: dg.DagsterInstance, key: str) -> dg.DagsterRun | None:
    found = instance.get_runs(filters=dg.RunsFilter(tags={"dagster/run_key": key}), limit=1)
    return found[0] if found else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]
