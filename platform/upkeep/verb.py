"""A verb of upkeep: plan, run, report; and the function that carries out every verb.

1. Plan: read metadata, write nothing. A dry run ends here.
2. Lease the plan's scope, if another process could work on it. A verb that must run alone leases
   the whole table before it plans.
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
from lakewright.platform.upkeep.effects import Effect
from lakewright.platform.upkeep.engines import Counts, compaction_engine
from lakewright.platform.upkeep.leases import maintaining
from lakewright.platform.upkeep.measures import Measures
from lakewright.storage import Engine, Lease, LeaseKind, Snapshot, Table
from lakewright.storage.operations.leases.leases import whole_table
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.spec.lease import LeaseScope
from lakewright.storage.spec.partition_words import describe_partition

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


# --- what a verb is ----------------------------------------------------------------------------


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
    """How the command line calls a verb.

    `words` are its name, if that is not the verb's own; of a command with verbs of its own they are
    the last word. `purpose` is the heading of the list of commands under which it stands; without
    one it stands in such a command. Without `saves_plans` it plans for a dry run alone, since its
    plan is more than can be saved. `exit_code` is that of a run, or of a dry run, which has no
    result. A verb that differs for a declared table is made by `of_declared`.
    """

    examples: str = ""
    words: str = ""
    purpose: str = ""
    notes: str = ""
    saves_plans: bool = True
    exit_code: Callable[[Outcome[Any, Any, Any]], int] = _done_well
    of_declared: Callable[[TableDeclaration], AnyVerb] | None = None


class PolicySection(Protocol):
    """The section of a policy that rules a verb."""

    @property
    def enabled(self) -> bool: ...


def _nothing_first(_: Table) -> tuple[AnyVerb, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """What a policy says of a verb: the section that rules it, and the options that this gives.

    `first` are verbs that a table needs before, with the same options.
    """

    section: Callable[[UpkeepPolicy], PolicySection]
    options: Callable[[UpkeepPolicy], Any]
    first: Callable[[Table], tuple[AnyVerb, ...]] = _nothing_first


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb(Generic[OptionsT, PlanT, ResultT]):
    """One operation of upkeep.

    `name` has underscores, as jobs and tags do. `summary` says in one line what it does, wherever
    it is listed. `options` is a dataclass made of `option`s. `plan` writes nothing, `run` carries
    out exactly the plan and reads only `at_run` options, and `report` describes both. A
    verb whose plan may read rows has `scan`, which completes the plan. One whose plan may take long
    has `counting`: it plans as `plan` does, and tells how far it is.

    `measures` says what a plan will take and gain, and of a result what it did; without it,
    nothing is known of either. `lease` says what a plan needs to work alone on. A verb with
    `alone` leases the whole table before it plans. `steps` plan and run until no work is left or a
    time limit ends, and yield the total result after each step; `extent` says how far they are.
    A verb that `only_reads` changes no table, and is no action of upkeep. One that `may_use_spark`
    has an option `engine`. `not_undone` says why a run of it cannot be taken back, and what helps
    instead; where it says nothing, `undo` takes the run back. `effect` decides what the verb goes
    beside. A verb that policies ask for has `keeping`.
    """

    name: str
    summary: str
    options: type[OptionsT]
    plan_type: type[PlanT]
    plan: Callable[[Table, OptionsT], PlanT]
    run: Callable[[Table, PlanT, OptionsT, Work], ResultT]
    report: Callable[[Table, Outcome[OptionsT, PlanT, ResultT]], Report]
    lease: Callable[[Table, PlanT], LeaseNeed | None] | None = None
    alone: LeaseKind | None = None
    steps: Callable[[Table, OptionsT, Work], Steps[OptionsT, PlanT, ResultT]] | None = None
    counting: Callable[[Table, OptionsT, Counts], PlanT] | None = None
    scan: Callable[[Table, PlanT, OptionsT, Work], PlanT] | None = None
    measures: Callable[[Table, Outcome[OptionsT, PlanT, ResultT]], Measures] | None = None
    extent: Callable[[Outcome[OptionsT, PlanT, ResultT]], Extent | None] | None = None
    only_reads: bool = False
    effect: Effect = Effect.ALONE
    may_use_spark: bool = False
    not_undone: str = ""
    command: Command | None = None
    keeping: Keeping | None = None


AnyVerb = Verb[Any, Any, Any]


# --- carrying out --------------------------------------------------------------------------------


def _ignore(_: object) -> None:
    """A callback that does nothing."""


def carry_out(
    verb: Verb[OptionsT, PlanT, ResultT],
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
        LeaseLost: the lease was lost while the verb ran.
    """
    if dry_run:
        plan = plan or _plan(verb, table, options, work)
        planned(plan)
        return Outcome(options=options, plan=plan)
    table = table.for_run(work.run)
    alone = None
    if verb.alone is not None:
        alone = LeaseNeed(kind=verb.alone, scope=whole_table(table.table_files))
    with _leased(table, alone, work) as leased:
        if plan is None and verb.steps is not None:
            for done in verb.steps(table, options, leased):
                stepped(done)
            return done
        plan = plan or _plan(verb, table, options, leased)
        planned(plan)
        need = verb.lease(table, plan) if verb.lease is not None else None
        with _leased(table, need, leased) as held:
            result = verb.run(table, plan, options, held)
    return Outcome(options=options, plan=plan, result=result)


def _plan(
    verb: Verb[OptionsT, PlanT, ResultT], table: Table, options: OptionsT, work: Work
) -> PlanT:
    if verb.counting is not None and work.counts is not None:
        plan = verb.counting(table, options, work.counts)
    else:
        plan = verb.plan(table, options)
    return plan if verb.scan is None else verb.scan(table, plan, options, work)


@contextmanager
def _leased(table: Table, need: LeaseNeed | None, work: Work) -> Iterator[Work]:
    if need is None:
        yield work
        return
    with maintaining(table, need.kind, need.scope, run=work.run) as lease:
        yield replace(work, lease=lease)
