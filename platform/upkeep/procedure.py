"""A procedure of upkeep: a verb of a table, reported and leased; and what carries out every one.

1. Plan: read metadata, write nothing. A dry run ends here.
2. Lease the plan's scope, if another process could work on it. A procedure that must run alone
   leases the whole table before it plans.
3. Run: check the plan against the table, and carry out the part that the lease covers.
4. Report: describe the plan or the result as numbers and rows for terminal, Dagster and JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.upkeep_policies import EngineChoice, UpkeepPolicy
from lakewright.platform.upkeep.engines import Counts, compaction_engine
from lakewright.platform.upkeep.leases import maintaining
from lakewright.platform.upkeep.measures import Measures
from lakewright.storage import Engine, Lease, LeaseKind, Snapshot, Table
from lakewright.storage.operations.leases.leases import whole_table
from lakewright.storage.operations.running.effects import Effect
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.operations.running.verb_options import option_fields
from lakewright.storage.spec.lease import LeaseScope
from lakewright.storage.spec.partition_words import describe_partition
from lakewright.storage.verb import AnyVerb, Verb

OptionsT = TypeVar("OptionsT")
PlanT = TypeVar("PlanT", bound=Plan[Any])
ResultT = TypeVar("ResultT")

# Rows of detail; a plan may name a million files, so rows may be made lazily.
Rows = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class NamedPartition:
    """A partition in a row of detail: its text, or a column for each of its values.

    A row of no partition, as of a stray folder, has no `spec`.
    """

    spec: Mapping[str, object] | None

    def __str__(self) -> str:
        return "-" if self.spec is None else describe_partition(self.spec)


# --- what a procedure is -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A verb's plan or result: the one wording for terminal, logs, JSON and Dagster.

    `facts` are its values by name: Dagster shows those that are single values. `record` is for
    programs, where their names differ, and `rows` are those of CSV, without which a plan's parts
    are. `tables` are rows of detail, and `notes` further sentences.
    `is_empty` means that there was nothing to do, and `only_tells` that nothing was done although
    something is told, such as changes that wait for a person. `was_beaten` means that all of it
    conflicted with other commits. `partitions` are those with rewritten files, and `snapshot` the
    committed snapshot.
    """

    summary: str
    facts: Mapping[str, object]
    record: Mapping[str, object] | None = None
    rows: Rows | None = None
    tables: Mapping[str, Rows] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    is_empty: bool = False
    only_tells: bool = False
    was_beaten: bool = False
    partitions: tuple[Mapping[str, object], ...] = ()
    snapshot: Snapshot | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseNeed:
    """What a verb leases while it runs."""

    kind: LeaseKind
    scope: LeaseScope


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The context of a running verb.

    `run` names the lease's holder. `session` starts Spark; a verb calls it only for Spark work.
    `counts` counts tasks, in this process and on Spark, and of what a plan has looked at.
    """

    run: str
    session: Callable[[], Any] = field(repr=False)
    lease: Lease | None = None
    counts: Counts | None = field(default=None, repr=False)

    def engine(self, choice: EngineChoice, size_bytes: int) -> Engine:
        """The engine for rewriting that many bytes."""
        return compaction_engine(
            choice, size_bytes=size_bytes, session=self.session, counts=self.counts
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[OptionsT, PlanT, ResultT]):
    """Options, plan and result of a verb; a dry run has no result."""

    options: OptionsT
    plan: PlanT
    result: ResultT | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How far a verb's steps have come: `done` of about `total` things, which `of` names."""

    done: int
    total: int
    of: str


Steps = Iterator[Outcome[OptionsT, PlanT, ResultT]]


def _done_well(_: object) -> int:
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How the command line calls a procedure.

    `words` are its name, if that is not the verb's own; of a command with verbs of its own they are
    the last word. `purpose` is the heading of the list of commands under which it stands; without
    one it stands in such a command. Without `saves_plans` it plans for a dry run alone, since its
    plan is more than can be saved. `exit_code` is that of a run, or of a dry run, which has no
    result. A procedure that differs for a declared table is made by `of_declared`.
    """

    examples: str = ""
    words: str = ""
    purpose: str = ""
    notes: str = ""
    saves_plans: bool = True
    exit_code: Callable[[Outcome[Any, Any, Any]], int] = _done_well
    of_declared: Callable[[TableDeclaration], AnyProcedure] | None = None


class PolicySection(Protocol):
    """The section of a policy that rules a verb."""

    @property
    def enabled(self) -> bool: ...


def _nothing_first(_: Table) -> tuple[AnyProcedure, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """What a policy says of a verb: the section that rules it, and the options that this gives.

    `first` are verbs that a table needs before, with the same options.
    """

    section: Callable[[UpkeepPolicy], PolicySection]
    options: Callable[[UpkeepPolicy], Any]
    first: Callable[[Table], tuple[AnyProcedure, ...]] = _nothing_first


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure(Generic[OptionsT, PlanT, ResultT]):
    """A verb of a table as the platform calls it: from commands, jobs, policies and agents.

    `options` is the verb's class of options, or one of its own, from which `plan` makes the verb's
    plan; what only a run takes is an `at_run` option. `run` carries out exactly the plan. `report`
    describes both. A procedure whose plan may read rows has `scan`, which completes the plan. One
    whose plan may take long has `counting`: it plans as `plan` does, and says how far it is.

    `measures` says what a plan will take and gain, and of a result what it did; without it,
    nothing is known of either. `lease` says what a plan needs to work alone on. A procedure with
    `alone` leases the whole table before it plans. `steps` plan and run until no work is left or a
    time limit ends, and yield the total result after each step; `extent` says how far they are.
    A procedure that policies ask for has `keeping`.
    """

    verb: Verb[Any, Any, PlanT, Any]
    options: type[OptionsT]
    report: Callable[[Table, Outcome[OptionsT, PlanT, ResultT]], Report]
    plan: Callable[[Table, OptionsT], PlanT] | None = None
    run: Callable[[Table, PlanT, OptionsT, Work], ResultT] | None = None
    lease: Callable[[Table, PlanT], LeaseNeed | None] | None = None
    alone: LeaseKind | None = None
    steps: Callable[[Table, OptionsT, Work], Steps[OptionsT, PlanT, ResultT]] | None = None
    counting: Callable[[Table, OptionsT, Counts], PlanT] | None = None
    scan: Callable[[Table, PlanT, OptionsT, Work], PlanT] | None = None
    measures: Callable[[Table, Outcome[OptionsT, PlanT, ResultT]], Measures] | None = None
    extent: Callable[[Outcome[OptionsT, PlanT, ResultT]], Extent | None] | None = None
    command: Command | None = None
    keeping: Keeping | None = None

    @property
    def name(self) -> str:
        return self.verb.name

    @property
    def summary(self) -> str:
        return self.verb.summary

    @property
    def plan_type(self) -> type[PlanT]:
        return self.verb.plan_type

    @property
    def only_reads(self) -> bool:
        """Whether it changes no table, and so is no action of upkeep."""
        return self.verb.effect is Effect.READS

    @property
    def may_use_spark(self) -> bool:
        return any(each.name == "engine" for each in option_fields(self.options))

    def planned(self, table: Table, options: OptionsT) -> PlanT:
        """The plan by some options; nothing is written."""
        if self.plan is not None:
            return self.plan(table, options)
        return self.verb.planned(table.table_files, options)

    def carried_out(self, table: Table, plan: PlanT, options: OptionsT, work: Work) -> ResultT:
        """The result of a plan; of the options, only those of a run are read."""
        if self.run is not None:
            return self.run(table, plan, options, work)
        result: ResultT = run_verb(self.verb, table, plan, options, work)
        return result


def run_verb(verb: AnyVerb, table: Table, plan: Plan[Any], options: Any, work: Work) -> Any:
    """Carry a plan out with the engine, the verification and the lease that the verb takes."""
    how: dict[str, Any] = {}
    if "verify" in verb.how:
        how["verify"] = options.verify
    if "lease" in verb.how:
        how["lease"] = work.lease
    engine: Engine | None = None
    # A plan without work starts no Spark session.
    if "engine" in verb.how and plan.work_bytes is not None:
        engine = work.engine(options.engine, plan.work_bytes)
    return verb.carry_out(table.table_files, plan, engine=engine, **how)


AnyProcedure = Procedure[Any, Any, Any]


# --- carrying out --------------------------------------------------------------------------------


def _ignore(_: object) -> None:
    """A callback that does nothing."""


def carry_out(
    procedure: Procedure[OptionsT, PlanT, ResultT],
    table: Table,
    options: OptionsT,
    work: Work,
    *,
    plan: PlanT | None = None,
    dry_run: bool = False,
    planned: Callable[[PlanT], object] = _ignore,
    stepped: Callable[[Outcome[OptionsT, PlanT, ResultT]], object] = _ignore,
) -> Outcome[OptionsT, PlanT, ResultT]:
    """Plan, lease and run; a given `plan` is carried out unchanged, in one step.

    `planned` is called with the plan. `stepped` is called after each step with the total result,
    so that a run that fails halfway can report it.

    Raises:
        StalePlan: the table has changed since the given plan, or the plan was edited.
        LeaseHeld: other processes hold all parts that the plan needs.
        LeaseLost: the lease was lost while the procedure ran.
    """
    if dry_run:
        plan = plan or _plan(procedure, table, options, work)
        planned(plan)
        return Outcome(options=options, plan=plan)
    table = table.for_run(work.run)
    alone = None
    if procedure.alone is not None:
        alone = LeaseNeed(kind=procedure.alone, scope=whole_table(table.table_files))
    with _leased(table, alone, work) as leased:
        if plan is None and procedure.steps is not None:
            for done in procedure.steps(table, options, leased):
                stepped(done)
            return done
        plan = plan or _plan(procedure, table, options, leased)
        planned(plan)
        need = procedure.lease(table, plan) if procedure.lease is not None else None
        with _leased(table, need, leased) as held:
            result = procedure.carried_out(table, plan, options, held)
    return Outcome(options=options, plan=plan, result=result)


def _plan(
    procedure: Procedure[OptionsT, PlanT, ResultT], table: Table, options: OptionsT, work: Work
) -> PlanT:
    if procedure.counting is not None and work.counts is not None:
        plan = procedure.counting(table, options, work.counts)
    else:
        plan = procedure.planned(table, options)
    return plan if procedure.scan is None else procedure.scan(table, plan, options, work)


@contextmanager
def _leased(table: Table, need: LeaseNeed | None, work: Work) -> Iterator[Work]:
    if need is None:
        yield work
        return
    with maintaining(table, need.kind, need.scope, run=work.run) as lease:
        yield replace(work, lease=lease)
