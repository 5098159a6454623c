"""The job that makes assets of new tables: it lists the warehouse and reloads the definitions.

It also gives a table whose partition keys changed the partitions that it has now.

A server of code that `dagster dev`, `dg dev` or `dagster code-server` started reloads itself when
it is asked to, and the daemon and the web server notice. Others have to be reloaded by a person.
"""

import datetime as dt
import hashlib
from collections.abc import Callable, Sequence

import dagster as dg
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.remote_origin import CodeLocationOrigin, GrpcServerCodeLocationOrigin

from lakewright.platform.orchestration.failures import failures_for_dagster
from lakewright.platform.orchestration.names import VERB_TAG, UpkeepNames
from lakewright.platform.tables.partition_keys import first_few
from lakewright.platform.upkeep.words import counted

VERB = "refresh_assets"
BY_HAND = "reload it in the UI (Deployment, Code locations)"
# The definitions of a large warehouse take long to load, and new tables often come in numbers.
_REST = dt.timedelta(minutes=10)
_DESCRIPTION = "List the tables of the warehouse again, so that new ones become assets."

Refresh = Callable[[dg.DagsterInstance], None]


def build_refresh_job(refresh: Refresh, *, names: UpkeepNames | None = None) -> dg.JobDefinition:
    """The job that calls `refresh`, which lists the tables, and reloads the code location."""
    names = names or UpkeepNames()

    @dg.op(name=names.op(VERB), pool=names.pool(VERB), description=_DESCRIPTION)
    def refresh_tables(context: dg.OpExecutionContext) -> None:
        with failures_for_dagster():
            refresh(context.instance)
        origin = context.run.remote_job_origin
        location = None if origin is None else origin.repository_origin.code_location_origin
        if location is None:
            context.log.info("this run is of no code location; none is reloaded")
        elif _reload(location, context.instance):
            context.log.info("code location %s is reloaded", location.location_name)
        else:
            context.log.warning(
                "the tables are listed; the server of code location %s does not reload when a run "
                "asks for it: %s",
                location.location_name,
                BY_HAND,
            )

    @dg.job(
        name=names.job(VERB),
        tags={VERB_TAG: VERB},
        executor_def=dg.in_process_executor,
        description=_DESCRIPTION,
    )
    def refresh_job() -> None:
        refresh_tables.alias(names.job(VERB))()

    return refresh_job


def _reload(location: CodeLocationOrigin, instance: dg.DagsterInstance) -> bool:
    if not isinstance(location, GrpcServerCodeLocationOrigin):
        return False
    try:
        location.create_client().reload_code(timeout=instance.code_server_reload_timeout)
    except DagsterUserCodeUnreachableError:
        # It is gone, or of a kind that never loads anything a second time.
        return False
    return True


def refresh_request(
    context: dg.SensorEvaluationContext, new: Sequence[str], names: UpkeepNames, *, now_ms: int
) -> dg.RunRequest | None:
    """The request that makes assets of new tables: once a day for the same ones.

    A table with other partition keys counts as new. None if a run of the job began in the last
    minutes, or no table is new.
    """
    if not new:
        return None
    job = names.job(VERB)
    now = dt.datetime.fromtimestamp(now_ms / 1000, dt.UTC)
    last = context.instance.get_run_records(dg.RunsFilter(job_name=job), limit=1)
    told = f"{counted(len(new), 'table')} without an asset of its keys: {first_few(new)}"
    if last and now - last[0].create_timestamp < _REST:
        context.log.info("%s; the last run of %s is less than %s old", told, job, _REST)
        return None
    context.log.info("%s; a run of %s is asked for, to make them", told, job)
    digest = hashlib.sha256("\n".join(new).encode()).hexdigest()[:24]
    return dg.RunRequest(
        run_key=f"{VERB} {now:%Y-%m-%d} {digest}", job_name=job, tags={VERB_TAG: VERB}
    )
