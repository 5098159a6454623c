"""One job for any verb of upkeep: plan, lease, run, and report to Dagster.

A run is for the tables that its config names, one after the other. It makes its own plans, because
a table may have changed since the sensor looked. A table that cannot be kept does not keep the run
from the others. The file is long since it follows one run from its config to its last report.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import dagster as dg
from pydantic import Field, create_model

from lakewright.jobs.signs_of_life import SignsOfLife
from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.declare.partition_keys import partition_identity
from lakewright.platform.declare.yaml_files import DeclarationError
from lakewright.platform.orchestration.asset_partitions import partitions_def
from lakewright.platform.orchestration.failures import failures_for_dagster
from lakewright.platform.orchestration.names import (
    DEFERRED_TAG,
    TABLE_TAG,
    VERB_TAG,
    TableNames,
    UpkeepNames,
    table_tag,
)
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
    TableVerbConfig,
    VerbConfig,
    check_nothing_else_planned,
    config_class,
    options_of_run,
)
from lakewright.platform.orchestration.run_identity import commit_user
from lakewright.platform.orchestration.runs import release_of_ended_runs
from lakewright.platform.upkeep.health import TableHealth, read_health
from lakewright.platform.upkeep.known_partitions import unknown_partitions
from lakewright.platform.upkeep.measures import Benefit, Cost, Measures
from lakewright.platform.upkeep.saved_plans import given_plan
from lakewright.platform.upkeep.verb import AnyVerb, Outcome, Report, Work
from lakewright.platform.upkeep.words import counted
from lakewright.platform.warehouse.keepers import may_be_done
from lakewright.platform.warehouse.kept_tables import KeptTable, KeptTables
from lakewright.platform.warehouse.recording import Recorder
from lakewright.storage import Catalog, Table
from lakewright.storage.env import SystemEnv
from lakewright.storage.errors import InvalidRequestError, LeaseHeld, SnapshotNotFound
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.spec.partition_words import describe_partition

# The sensor that asked for the run.
SENSOR_TAG = "lakewright/asked_by"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepJob:
    """What one kind of job does to a table.

    `name` is what names of jobs and tags begin with. `verbs` are carried out in turn, with the
    options that `declared` reads in the table's policy and that a run may change. Where
    `may_come_early`, a table that does not exist yet is no failure. A job with `for_partitions` is
    partitioned as the asset is: it gives the options of a run for partitions of a backfill, or None
    if the table has no such rows. `afterwards` gets the table as the verbs left it.
    """

    name: str
    description: str
    verbs: Callable[[Table, dg.OpExecutionContext, KeptTable], Sequence[AnyVerb]]
    declared: Callable[[KeptTable], Any]
    options: type[Any]
    needs_spark: bool = True
    may_come_early: bool = False
    for_partitions: Callable[[Any, Table, Sequence[Mapping[str, object]]], Any] | None = None
    afterwards: Callable[[KeptTable, Table, TableNames, dg.OpExecutionContext], None] | None = None


class AskedConfig(dg.Config):
    """What the sensor saw when it asked for a verb on a table; the ledger keeps it."""

    state: str = Field(default="", description="What the decision was made from, as a digest.")
    reason: str = Field(default="", description="Why the verb was due.")
    why: str = Field(default="", description="The kind of this reason.")
    bytes: int = Field(default=0, description="Bytes that the run is predicted to read.")
    files: int = Field(default=0, description="Files that the run is predicted to read.")
    milliseconds: int = Field(default=0, description="How long it is predicted to take.")
    bytes_written: int = Field(default=0, description="Bytes that it is predicted to write.")
    files_named: int = Field(default=0, description="Files that only new metadata is to name.")
    benefit: dict[str, int] = Field(
        default={}, description="What it is predicted to gain, as the ledger names it."
    )
    policy: str = Field(default="", description="The policy that asked for it, as a digest.")


def build_upkeep_job(
    kind: UpkeepJob,
    tables: KeptTables,
    *,
    names: UpkeepNames | None = None,
    resources: ResourceKeys | None = None,
) -> dg.JobDefinition:
    """The job of a kind for all tables; a run names those that it is for."""
    names = names or UpkeepNames()
    keys = resources or ResourceKeys()

    def keep_tables(context: dg.OpExecutionContext, config: Any) -> None:
        if not config.tables:
            told = "the run names no table; write for example tables: {database.table: {}}"
            raise dg.Failure(told, allow_retries=False)
        try:
            tables.files.current()
        except DeclarationError as error:
            raise dg.Failure(
                f"{error}\nno upkeep is done until this is right", allow_retries=False
            ) from error
        # A person may have launched the run, without the tags of the sensor.
        context.instance.add_run_tags(context.run_id, {TABLE_TAG: table_tag(config.tables)})
        signs = SignsOfLife(context.log.info)
        with signs.told():
            keep_each(context, config, signs)

    def keep_each(context: dg.OpExecutionContext, config: Any, signs: SignsOfLife) -> None:
        troubles: dict[str, Exception] = {}
        deferred: dict[str, str] = {}
        begins_until_ms = _begins_until_ms(context)
        for at, (name, given) in enumerate(config.tables.items()):
            asked = config.asked.get(name)
            if at and SystemEnv().now_ms() >= begins_until_ms:
                deferred[name] = "half of the run's time is over"
                continue
            try:
                kept, several = tables.table(name), len(config.tables) > 1
                signs.work_at(f"{name}, {kind.name}")
                one = _OneTable(kind, names.of(name), kept, context, keys, signs, asked, several)
                one.keep(given, names.job(kind.name), dry_run=config.dry_run)
            except (dg.Failure, dg.RetryRequested) as trouble:
                if asked is not None and isinstance(trouble.__cause__, LeaseHeld):
                    # To wait here would hold up all other tables: the sensor asks for it again.
                    deferred[name] = _told(trouble)
                    continue
                if len(config.tables) == 1:
                    raise
                # The other tables are kept all the same.
                context.log.warning("%s: %s", name, _told(trouble))
                troubles[name] = trouble
        if deferred:
            _tell_deferred(context, deferred)
        _raise_for(troubles, len(config.tables))

    config_type = _config_of_tables(kind.options)  # type: ignore[arg-type]  # classes are hashable
    # Dagster reads run config's type here, and it is made of the verb's options.
    keep_tables.__annotations__["config"] = config_type
    op = dg.op(
        name=names.op(kind.name),
        pool=names.pool(kind.name),
        required_resource_keys=_resource_keys(kind, keys),
        description=kind.description,
    )(keep_tables)

    @dg.job(
        name=names.job(kind.name),
        tags={VERB_TAG: kind.name},
        executor_def=dg.in_process_executor,
        description=kind.description,
    )
    def upkeep_job() -> None:
        op.alias(names.job(kind.name))()

    return upkeep_job


def build_table_job(
    kind: UpkeepJob,
    declaration: TableDeclaration,
    names: TableNames,
    *,
    resources: ResourceKeys | None = None,
) -> dg.JobDefinition:
    """The job of a kind that a table has for itself: its partitions are those of the asset."""
    keys = resources or ResourceKeys()
    kept = KeptTable(
        name=declaration.table, policy=declaration.maintenance, declaration=declaration
    )

    def keep_table(context: dg.OpExecutionContext, config: TableVerbConfig) -> None:
        signs = SignsOfLife(context.log.info)
        one = _OneTable(kind, names, kept, context, keys, signs)
        with signs.told():
            signs.work_at(f"{names.table}, {kind.name}")
            one.keep(config, names.job(kind.name), dry_run=config.dry_run)

    config_type = config_class(kind.options, TableVerbConfig)  # type: ignore[arg-type]  # classes are hashable
    keep_table.__annotations__["config"] = config_type
    description = kind.description.format(table=declaration.table)
    op = dg.op(
        name=names.op(kind.name),
        pool=names.pool,
        required_resource_keys=_resource_keys(kind, keys),
        description=description,
    )(keep_table)

    @dg.job(
        name=names.job(kind.name),
        tags=names.tags(kind.name),
        executor_def=dg.in_process_executor,
        description=description,
        metadata={"lakewright/table": declaration.table},
        partitions_def=_partitions(kind, declaration),
    )
    def upkeep_job() -> None:
        op.alias(names.job(kind.name))()

    return upkeep_job


@cache
def _config_of_tables(options: type[Any]) -> type[dg.Config]:
    """Run config with the options of each table by its name."""
    one = config_class(options, PlannedConfig)  # type: ignore[arg-type]  # classes are hashable
    given: dict[str, Any] = {
        "tables": (
            dict[str, one],  # type: ignore[valid-type]  # made for these options
            Field(
                description="The tables by their names, each with its options, such as "
                "database.table: {}."
            ),
        ),
        "asked": (
            dict[str, AskedConfig],
            Field(default={}, description="Filled by the upkeep sensor; leave empty."),
        ),
    }
    made: type[dg.Config] = create_model(f"{one.__name__}OfTables", __base__=VerbConfig, **given)
    return made


def _resource_keys(kind: UpkeepJob, keys: ResourceKeys) -> set[str]:
    return {keys.warehouse} | ({keys.spark} if kind.needs_spark else set())


def _partitions(
    kind: UpkeepJob, declaration: TableDeclaration
) -> dg.PartitionsDefinition[str] | None:
    """The partitions of the job, for backfills."""
    if kind.for_partitions is None or not declaration.columns:
        return None
    return partitions_def(declaration.scheme, TableNames(declaration.table))


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
    """One table in one run of a job; `several` says that the run has others too."""

    kind: UpkeepJob
    names: TableNames
    kept: KeptTable
    context: dg.OpExecutionContext
    keys: ResourceKeys
    signs: SignsOfLife
    asked: AskedConfig | None = None
    several: bool = False

    def keep(self, config: PlannedConfig, job: str, *, dry_run: bool) -> None:
        """Carry out the verbs of the job, with what the run's config says of this table."""
        kind, context = self.kind, self.context
        if self.asked is not None and not may_be_done(kind.name, self.kept, self.asked.why):
            # The policy changed while the run waited.
            context.log.info("%s is left alone by its policy", self.kept.name)
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
            options = options_of_run(config, kind.declared(self.kept), table)
            options = _without_gone(options, table, context)
            if options is None:
                return
            if kind.for_partitions is not None and context.has_partition_key:
                assert self.kept.declaration is not None
                if given is not None:
                    told = (
                        f"the run is for {context.partition_key}; give a plan without a partition"
                    )
                    raise InvalidRequestError(told, table=table.name)
                spec = self.kept.declaration.scheme.spec_of(context.partition_key)
                options = kind.for_partitions(options, table, (spec,))
                if options is None:
                    context.log.info("%s has no rows of %s", table.name, context.partition_key)
                    return
            if not dry_run:
                release_of_ended_runs(context.instance, table, tell=context.log.info)
            spark: SparkResource | None = getattr(context.resources, self.keys.spark, None)
            work = Work(
                run=commit_user(context.instance, context.run, job),
                session=(spark or SparkResource()).session,
                counts=self.signs,
                warn=context.log.warning,
            )
            for verb, plan in [given] if given else [(each, None) for each in verbs]:
                _Run(
                    kind,
                    self.names,
                    context,
                    table,
                    verb,
                    options,
                    work,
                    self.signs,
                    catalog,
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
class _Run:
    """One verb in one run: carries it out and reports it; a `given` plan as it stands."""

    kind: UpkeepJob
    names: TableNames
    context: dg.OpExecutionContext
    table: Table
    verb: AnyVerb
    options: Any
    work: Work
    signs: SignsOfLife
    catalog: Catalog
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
        verb, recorder = self.verb, self._recorder()
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

    def _recorder(self) -> Recorder:
        """Records in the ledger, with what the sensor predicted if it asked for the run."""
        recorder = Recorder.of(self.catalog, warn=self.context.log.warning, make=True)
        if self.asked is None:
            return recorder
        cost = Cost(
            bytes=self.asked.bytes,
            files=self.asked.files,
            milliseconds=self.asked.milliseconds,
            bytes_written=self.asked.bytes_written,
            files_named=self.asked.files_named,
        )
        known = {each.name for each in fields(Benefit)}
        gained = {name: value for name, value in self.asked.benefit.items() if name in known}
        return replace(
            recorder,
            reason=self.asked.reason,
            state=self.asked.state,
            policy=self.asked.policy,
            predicted=Measures(cost=cost, benefit=Benefit(**gained)),
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
        self.signs.far(told)

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
