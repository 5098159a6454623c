"""The job of all verbs of upkeep: plan, lease, run, and report to Dagster.

A run is for the tables that its config names, one after the other. It makes its own plans, because
a table may have changed since the sensor looked. A table that cannot be kept does not keep the run
from the others. The file is long since it follows one run from its config to its last report.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, Union

import dagster as dg
from pydantic import Field, create_model

from lakewright.jobs.run_progress import RunProgress
from lakewright.platform.decide.keepers import may_be_done
from lakewright.platform.decide.kept_tables import IN_FORCE, KeptTable, KeptTables
from lakewright.platform.documents.yaml_files import DeclarationError
from lakewright.platform.ledger.kept_verbs import COMPACT
from lakewright.platform.ledger.recording import Recorder
from lakewright.platform.orchestration.failures import failures_for_dagster
from lakewright.platform.orchestration.names import (
    DEFERRED_TAG,
    TABLE_TAG,
    UPKEEP,
    VERB_TAG,
    TableNames,
    UpkeepNames,
    table_tag,
)
from lakewright.platform.orchestration.policy_memory import recall_policies
from lakewright.platform.orchestration.reports import (
    findings_metadata,
    partition_health_metadata,
    report_metadata,
    table_metadata,
    whole_table_metadata,
)
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import SparkResource, WarehouseResource
from lakewright.platform.orchestration.run_config import (
    PlannedConfig,
    VerbConfig,
    check_nothing_else_planned,
    config_class,
    options_of_run,
)
from lakewright.platform.orchestration.run_identity import commit_user
from lakewright.platform.orchestration.runs import release_of_ended_runs
from lakewright.platform.tables.partition_keys import partition_identity
from lakewright.platform.upkeep.clean import collect_dropped_tables
from lakewright.platform.upkeep.health import TableHealth, read_health
from lakewright.platform.upkeep.known_partitions import unknown_partitions
from lakewright.platform.upkeep.measures import Measures
from lakewright.platform.upkeep.procedure import AnyProcedure, Outcome, Report, Work
from lakewright.platform.upkeep.saved_plans import given_plan
from lakewright.platform.upkeep.words import counted
from lakewright.storage import Table
from lakewright.storage.env import SystemEnv
from lakewright.storage.errors import LeaseHeld, SnapshotNotFound
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.spec.partition_words import describe_partition

# The sensor that asked for the run.
SENSOR_TAG = "lakewright/asked_by"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepVerb:
    """What a run of one verb does to a table.

    `name` is the verb in run config and tags. The sensor of upkeep may ask for it if it
    `is_asked_for`. `verbs` are carried out in turn, with the
    options that `declared` reads in the table's policy and that a run may change. Where
    `may_come_early`, a table that does not exist yet is no failure.
    `afterwards` gets the table as the verbs left it.
    """

    name: str
    description: str
    verbs: Callable[[Table, dg.OpExecutionContext, KeptTable], Sequence[AnyProcedure]]
    declared: Callable[[KeptTable], Any]
    options: type[Any]
    is_asked_for: bool = False
    may_come_early: bool = False
    afterwards: Callable[[KeptTable, Table, TableNames, dg.OpExecutionContext], None] | None = None


class AskedConfig(dg.Config):
    """What the sensor saw when it asked for a verb on a table; the ledger keeps it."""

    state: str = Field(default="", description="What the decision was made from, as a digest.")
    reason: str = Field(default="", description="Why the verb was due.")
    why: str = Field(default="", description="The kind of this reason.")
    predicted: dict[str, int] = Field(
        default={}, description="What it is predicted to take and to gain, as the ledger names it."
    )
    policy: str = Field(default="", description="The policy that asked for it, as a digest.")


@dataclass(frozen=True, slots=True)
class _Run:
    """Runs of the jobs of one workspace: each keeps the tables that its config names."""

    tables: KeptTables
    names: UpkeepNames
    keys: ResourceKeys

    def keep(
        self,
        kind: UpkeepVerb,
        context: dg.OpExecutionContext,
        config: Any,
        asked: Mapping[str, AskedConfig],
    ) -> None:
        """Keep the tables, one after the other; `asked` is what the sensor asked for."""
        if not config.tables:
            told = "the run names no table; write for example tables: {database.table: {}}"
            raise dg.Failure(told, allow_retries=False)
        try:
            for problem in recall_policies(context.instance, self.tables.files):
                context.log.warning("%s; %s", problem, IN_FORCE)
        except DeclarationError as error:
            raise dg.Failure(
                f"{error}\nno upkeep is done until this is right", allow_retries=False
            ) from error
        # A person may have launched the run, without the tags of the sensor.
        context.instance.add_run_tags(context.run_id, {TABLE_TAG: table_tag(config.tables)})
        progress = RunProgress(context.log.info)
        with progress.told():
            self._keep_each(kind, context, config, asked, progress)

    def _keep_each(
        self,
        kind: UpkeepVerb,
        context: dg.OpExecutionContext,
        config: Any,
        asked: Mapping[str, AskedConfig],
        progress: RunProgress,
    ) -> None:
        troubles: dict[str, Exception] = {}
        deferred: dict[str, str] = {}
        begins_until_ms = _begins_until_ms(context)
        names, several = self.names, len(config.tables) > 1
        recorders: dict[str, Recorder] = {}
        for at, (name, given) in enumerate(config.tables.items()):
            why = asked.get(name)
            if at and SystemEnv().now_ms() >= begins_until_ms:
                deferred[name] = "half of the run's time is over"
                continue
            try:
                wrong = self.tables.withheld_by(name)
                if wrong is not None:
                    raise dg.Failure(
                        f"{wrong}\nno upkeep of {name} is done until this is right",
                        allow_retries=False,
                    )
                kept = self.tables.table(name)
                progress.work_at(f"{name}, {kind.name}")
                one = _OneTable(
                    kind,
                    names.of(name),
                    kept,
                    context,
                    self.keys,
                    progress,
                    recorders,
                    why,
                    several,
                )
                one.keep(given, names.job(kind.name), dry_run=config.dry_run)
            except (dg.Failure, dg.RetryRequested) as trouble:
                if why is not None and isinstance(trouble.__cause__, LeaseHeld):
                    # To wait here would hold up all other tables: the sensor asks for it again.
                    deferred[name] = _told(trouble)
                    continue
                if not several:
                    raise
                # The other tables are kept all the same.
                context.log.warning("%s: %s", name, _told(trouble))
                troubles[name] = trouble
        if deferred:
            _tell_deferred(context, deferred)
        _raise_for(troubles, len(config.tables))


def build_upkeep_job(
    kinds: Sequence[UpkeepVerb],
    tables: KeptTables,
    *,
    names: UpkeepNames | None = None,
    resources: ResourceKeys | None = None,
    bound: Mapping[str, Any] | None = None,
) -> dg.JobDefinition:
    """The one job of all verbs; a run names the verb and its tables.

    `bound` are its resources, if those of the definitions are known.
    """
    names, keys = names or UpkeepNames(), resources or ResourceKeys()
    run = _Run(tables, names, keys)
    by_name = {each.name: each for each in kinds}

    def keep_tables(context: dg.OpExecutionContext, config: Any) -> None:
        kind, given = by_name[config.verb.verb], config.verb
        # A person may have launched the run, without the tags of the sensor.
        context.instance.add_run_tags(context.run_id, {VERB_TAG: kind.name})
        run.keep(kind, context, given, getattr(given, "asked", {}))

    # Dagster reads run config's type here, and it is made of the verbs' options.
    keep_tables.__annotations__["config"] = config_of(kinds)
    op = dg.op(
        name=names.op(UPKEEP),
        required_resource_keys={keys.warehouse, keys.spark},
        description=f"Carry out one verb on tables: {', '.join(by_name)}.",
    )(keep_tables)

    @dg.job(
        name=names.job(UPKEEP),
        executor_def=dg.in_process_executor,
        resource_defs=bound,
        # The launchpad would open with all verbs at once. A run without tables says what to write.
        config=names.run_config(COMPACT, {"tables": {}, "dry_run": True}),
        description="Carry out one verb of upkeep on tables, such as "
        "verb: {compact: {tables: {database.table: {}}}}.",
    )
    def upkeep_job() -> None:
        op.alias(names.job(UPKEEP))()

    return upkeep_job


def config_of(kinds: Sequence[UpkeepVerb]) -> type[dg.Config]:
    """The run config of the job of these verbs, made once in a process: it takes 0.2 seconds."""
    return _config_of_verbs(tuple((each.name, each.options, each.is_asked_for) for each in kinds))


@cache
def _config_of_tables(options: type[Any]) -> type[dg.Config]:
    """Run config with the options of each table by its name."""
    one = config_class(options, PlannedConfig)  # type: ignore[arg-type]  # classes are hashable
    told = "The tables by their names, each with its options, such as database.table: {}."
    tables = (dict[str, one], Field(description=told))  # type: ignore[valid-type]  # made here
    return _extended(VerbConfig, f"{one.__name__}OfTables", tables=tables)


@cache
def _config_with_asked(options: type[Any]) -> type[dg.Config]:
    base = _config_of_tables(options)  # type: ignore[arg-type]  # classes are hashable
    asked: Any = (
        dict[str, AskedConfig],
        Field(default={}, description="Filled by the upkeep sensor; leave empty."),
    )
    return _extended(base, "Asked", asked=asked)


@cache
def _config_of_verbs(verbs: tuple[tuple[str, type[Any], bool], ...]) -> type[dg.Config]:
    """Run config with one of these verbs, by its name, and its tables.

    Of a verb that the sensor asks for, also with what it asks.
    """
    members = tuple(
        _extended(
            _config_with_asked(options) if is_asked_for else _config_of_tables(options),  # type: ignore[arg-type]  # classes are hashable
            f"Of_{verb}",
            verb=(Literal[verb], verb),
        )
        for verb, options, is_asked_for in verbs
    )
    verb = (
        Union[members],  # noqa: UP007 - made of the verbs
        Field(discriminator="verb", description="The verb, with the tables and its options."),
    )
    return _extended(dg.Config, "OfVerbs", verb=verb)


def _extended(base: type[dg.Config], name: str, **given: Any) -> type[dg.Config]:
    made: type[dg.Config] = create_model(f"{base.__name__}{name}", __base__=base, **given)
    return made


def _raise_for(troubles: Mapping[str, Exception], tables: int) -> None:
    """Fail or try again for the tables that could not be kept; the others plan nothing anew."""
    if not troubles:
        return
    for trouble in troubles.values():
        if isinstance(trouble, dg.RetryRequested):
            raise trouble
    told = "; ".join(f"{name}: {_told(each)}" for name, each in troubles.items())
    raise dg.Failure(
        description=f"{counted(len(troubles), 'table')} of {tables} could not be kept: {told}",
        metadata={name: _told(each) for name, each in troubles.items()},
        allow_retries=False,
    )


def _begins_until_ms(context: dg.OpExecutionContext) -> float:
    """Until when a run begins with tables: the second half of its time is for what is begun."""
    seconds = float(context.run.tags.get(dg.MAX_RUNTIME_SECONDS_TAG, "inf"))
    return SystemEnv().now_ms() + seconds * 1000 / 2


def _tell_deferred(context: dg.OpExecutionContext, deferred: Mapping[str, str]) -> None:
    """Tell which tables are left to a later run, also to the sensor, to which they are not done."""
    for name, why in deferred.items():
        context.log.warning("%s is left to a later run: %s", name, why)
    context.instance.add_run_tags(context.run_id, {DEFERRED_TAG: table_tag(deferred)})
    context.add_output_metadata({"deferred": "; ".join(f"{n}: {w}" for n, w in deferred.items())})


def _told(trouble: Exception) -> str:
    return str(trouble.description if isinstance(trouble, dg.Failure) else trouble.__cause__)


@dataclass(frozen=True, slots=True)
class _OneTable:
    """One table in one run of a job; `several` says that the run has others too.

    `recorders` are those of the run, by warehouse: a receiver of events that is away holds up a run
    once, not with each table.
    """

    kind: UpkeepVerb
    names: TableNames
    kept: KeptTable
    context: dg.OpExecutionContext
    keys: ResourceKeys
    progress: RunProgress
    recorders: dict[str, Recorder]
    asked: AskedConfig | None = None
    several: bool = False

    def keep(self, config: PlannedConfig, job: str, *, dry_run: bool) -> None:
        """Carry out the verbs of the job, with what the run's config says of this table."""
        kind, context = self.kind, self.context
        if self.asked is not None and not may_be_done(kind.name, self.kept, self.asked.why):
            # The policy changed while the run waited.
            context.log.info("%s is skipped by its policy", self.kept.name)
            return
        warehouse: WarehouseResource = getattr(context.resources, self.keys.warehouse)
        with failures_for_dagster():
            catalog = warehouse.catalog()
            if kind.may_come_early and not catalog.table_exists(self.kept.name):
                context.log.info("table %s does not exist yet", self.kept.name)
                return
            table = catalog.table(self.kept.name)
            verbs = kind.verbs(table, context, self.kept)
            if config.plan is not None:
                check_nothing_else_planned(config, kind.options)
            given = given_plan(config.plan, verbs, table)
            # What the sensor asks for, it asks for whole: an edit of a policy changes no run that
            # waits.
            declared = kind.declared(self.kept) if self.asked is None else kind.options()
            options = options_of_run(config, declared, table)
            options = _without_gone(options, table, context)
            if options is None:
                return
            if not dry_run:
                release_of_ended_runs(context.instance, table, tell=context.log.info)
            spark: SparkResource | None = getattr(context.resources, self.keys.spark, None)
            work = Work(
                run=commit_user(context.instance, context.run, job),
                session=(spark or SparkResource()).session,
                counts=self.progress,
            )
            if catalog.uri not in self.recorders:
                if not dry_run:
                    collect_dropped_tables(catalog, context.log.warning)
                self.recorders[catalog.uri] = Recorder.of(
                    catalog, warn=context.log.warning, make=True
                )
            for verb, plan in [given] if given else [(each, None) for each in verbs]:
                _OneVerb(
                    kind,
                    self.names,
                    context,
                    table,
                    verb,
                    options,
                    work,
                    self.progress,
                    self.recorders[catalog.uri],
                    self.asked,
                    self.several,
                    plan,
                ).carry_out(dry_run)
            if kind.afterwards is not None and not dry_run:
                kind.afterwards(self.kept, catalog.table(self.kept.name), self.names, context)


def _without_gone(options: Any, table: Table, context: dg.OpExecutionContext) -> Any:
    """Options without partitions that were dropped while the run waited; None if none is left.

    A sensor names partitions that existed. Partitions that a person names must still exist.
    """
    partitions = getattr(options, "partitions", None)
    if partitions is None or SENSOR_TAG not in context.run.tags:
        return options
    gone = unknown_partitions(table, partitions)
    for spec in gone:
        context.log.info("%s of %s is gone by now", describe_partition(spec), table.name)
    # With `==`, a dropped partition -0.0 would also remove the partition 0.0.
    left_out = {partition_identity(spec) for spec in gone}
    left = tuple(spec for spec in partitions if partition_identity(spec) not in left_out)
    return replace(options, partitions=left) if left else None


@dataclass
class _OneVerb:
    """One verb in one run: carries it out and reports it; a `given` plan as it stands."""

    kind: UpkeepVerb
    names: TableNames
    context: dg.OpExecutionContext
    table: Table
    verb: AnyProcedure
    options: Any
    work: Work
    progress: RunProgress
    recorder: Recorder
    asked: AskedConfig | None
    several: bool
    given: Plan[Any] | None = None
    before: TableHealth | None = None
    done: Outcome[Any, Any, Any] | None = None
    plan: Report | None = None

    def carry_out(self, dry_run: bool) -> None:
        """Plan, lease, run, and report each step; a failure has the findings of its plan."""
        plans_again = self.given is None
        with failures_for_dagster(lambda: findings_metadata(self.plan), plans_again=plans_again):
            self._carry_out(dry_run)

    def _carry_out(self, dry_run: bool) -> None:
        verb, recorder = self.verb, self._recorder_with_prediction()
        try:
            outcome = recorder.carry_out(
                verb,
                self.table,
                self.options,
                self.work,
                plan=self.given,
                dry_run=dry_run,
                planned=self._planned,
                stepped=self._stepped,
            )
        except BaseException:
            # Report completed work even if the rest failed; a retry reports the rest. Dagster drops
            # the events of a failed step, so this event is reported outside of the run.
            if self.done is not None:
                self._observe(
                    verb.report(self.table, self.done),
                    self.context.instance.report_runless_asset_event,
                )
            raise
        plan = verb.report(self.table, replace(outcome, result=None))
        if dry_run:
            plan = recorder.foretell(verb, self.table, outcome, plan)
        report = plan if dry_run else verb.report(self.table, outcome)
        self.context.add_output_metadata(self._output_metadata(plan, report))
        if dry_run:
            self.context.log.info("dry run: %s", plan.summary)
            return
        self._observe_partitions(report)
        # Reported last, so that a list with the newest event first begins with the whole table.
        self._observe(report, self.context.log_event)

    def _output_metadata(self, plan: Report, report: Report) -> dict[str, Any]:
        """What the step shows: of one table its result and plan, of several a line for each.

        Dagster joins the metadata of all calls by name, so figures of one table would stand beside
        those of another.
        """
        if self.several:
            return {self.table.name: report.summary}
        told = {"table": self.table.name, "result": report.summary}
        if report is plan:
            told = {"table": self.table.name}
        return {**told, "plan": plan.summary, **report_metadata(plan)}

    def _recorder_with_prediction(self) -> Recorder:
        """Records in the ledger, with what the sensor predicted if it asked for the run."""
        if self.asked is None:
            return self.recorder
        return replace(
            self.recorder,
            reason=self.asked.reason,
            state=self.asked.state,
            policy=self.asked.policy,
            predicted=Measures.predicted(self.asked.predicted),
        )

    def _planned(self, plan: Any) -> None:
        report = self.verb.report(self.table, Outcome(options=self.options, plan=plan))
        self.plan = report
        if not report.is_empty:
            self.before = read_health(self.table)
        for row in report.tables.get("plan", ()):
            if "reason" in row:
                self.context.log.info(
                    "%s, bucket %s: %s", row["partition"], row["bucket"], row["reason"]
                )

    def _stepped(self, done: Outcome[Any, Any, Any]) -> None:
        self.done = done
        extent = None if self.verb.extent is None else self.verb.extent(done)
        told = self.verb.report(self.table, done).summary
        if extent is not None:
            told = f"{extent.done:,} of about {extent.total:,} {extent.of}; {told}"
        self.progress.far(told)

    def _observe(self, report: Report, tell: Callable[[dg.AssetObservation], None]) -> None:
        for note in report.notes:
            self.context.log.info("%s: %s", self.table.name, note)
        self.context.log.info("%s: %s", self.table.name, report.summary)
        if report.is_empty:
            return
        # The log of a run shows the first few: what was done, before what the table is.
        metadata: Mapping[str, Any] = {
            "lakewright/verb": self.kind.name,
            **report_metadata(report),
            **whole_table_metadata(self.table, report.snapshot),
        }
        tell(
            dg.AssetObservation(self.names.asset_key, metadata=metadata, description=report.summary)
        )

    def _observe_partitions(self, report: Report) -> None:
        """Report the files of each rewritten partition, before and after."""
        if self.before is None or not report.partitions:
            return
        touched = {partition_identity(spec) for spec in report.partitions}
        earlier = {each.key: each for each in self.before.partitions}
        common = {"lakewright/verb": self.kind.name, **table_metadata(self.table)}
        try:
            # Other processes may have committed since.
            after = read_health(self.table, report.snapshot)
        except SnapshotNotFound:
            # An expiry was faster.
            after = read_health(self.table)
        for partition in after.partitions:
            if not partition.key or partition_identity(partition.spec) not in touched:
                continue
            metadata = partition_health_metadata(earlier.get(partition.key), partition)
            self.context.log_event(
                dg.AssetObservation(
                    self.names.asset_key,
                    partition=partition.key,
                    metadata={**metadata, **common},
                )
            )
