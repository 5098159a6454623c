"""A verb of upkeep: plan, run, report; and the one way in which each is carried out.

1. Plan: metadata is read, nothing is written. A dry run ends here.
2. Lease what the plan works on, if others could work on the same. A verb that must be the only
   one of its kind leases the whole table before it plans.
3. Run: the plan is checked against the table and done, as far as the lease reaches.
4. Report: what would be done, or was, as numbers and rows that a terminal, Dagster and JSON show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic, Protocol, TypeVar, get_type_hints, runtime_checkable

from lakewright.platform.declare.declarations import EngineChoice
from lakewright.platform.upkeep.engines import compaction_engine
from lakewright.platform.upkeep.leases import maintaining
from lakewright.storage import Engine, Lease, LeaseKind, Snapshot, Table
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.spec.lease import LeaseScope

OptionsT = TypeVar("OptionsT")
PlanT = TypeVar("PlanT", bound=Plan)
ResultT = TypeVar("ResultT")
_T = TypeVar("_T")

Fact = str | int | float | bool
Rows = tuple[Mapping[str, object], ...]


# --- options -----------------------------------------------------------------------------------


def option(default: _T, text: str, *, at_run: bool = False) -> _T:
    """A field of an options class: its default, and the sentence that help and run config show.

    An option that is `at_run` says how a plan is run. The others say what is planned, so they
    contradict a plan that was saved.
    """
    made: _T = field(default=default, metadata={"text": text, "at_run": at_run})
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionField:
    """One option of a verb, for the command line and run config to ask for.

    A name that ends in `_ms` is a duration: people write 1h or 7d, under the name without `_ms`.
    """

    name: str
    type: Any
    default: Any
    text: str
    at_run: bool


def option_fields(options: type[Any]) -> tuple[OptionField, ...]:
    """The options that a class describes, in their order."""
    hints = get_type_hints(options)
    return tuple(
        OptionField(
            name=each.name,
            type=hints[each.name],
            default=each.default,
            text=each.metadata["text"],
            at_run=each.metadata["at_run"],
        )
        for each in fields(options)
    )


# --- what a verb is ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a verb would do, or did: one sentence, numbers by name, and rows of detail.

    `is_empty` says that there is, or was, nothing to do; `partitions` are those that files were
    rewritten in, `snapshot` is the one that was committed.
    """

    summary: str
    facts: Mapping[str, Fact]
    tables: Mapping[str, Rows] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    is_empty: bool = False
    file_sizes: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    partitions: tuple[Mapping[str, object], ...] = ()
    snapshot: Snapshot | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseNeed:
    """What a verb leases while it runs."""

    kind: LeaseKind
    scope: LeaseScope


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a verb has at hand while it runs.

    `run` names the lease's holder. `session` starts Spark, and is called only for work that
    goes there.
    """

    run: str
    session: Callable[[], Any] = field(repr=False)
    lease: Lease | None = None

    def engine(self, choice: EngineChoice, size_bytes: int) -> Engine:
        """The engine for rewriting that many bytes."""
        return compaction_engine(choice, size_bytes=size_bytes, session=self.session)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[OptionsT, PlanT, ResultT]):
    """What was asked for, what was planned, and what came of it; no result after a dry run."""

    options: OptionsT
    plan: PlanT
    result: ResultT | None = None


class Verb(Protocol[OptionsT, PlanT, ResultT]):
    """One thing that upkeep does to a table.

    `name` has underscores, as jobs and tags do; `options` is a dataclass made of `option`s, and
    `plan_type` reads a saved plan back.
    """

    name: str
    description: str
    options: type[OptionsT]
    plan_type: type[PlanT]

    def plan(self, table: Table, options: OptionsT) -> PlanT:
        """What is to be done, from metadata; nothing is written."""
        ...

    def lease(self, table: Table, plan: PlanT | None) -> LeaseNeed | None:
        """What to lease for a plan; None, as long as a verb says nothing else, for nothing.

        It is asked without a plan first: a verb that must be the only one of its kind at work
        leases the whole table before it plans.
        """
        return None

    def run(self, table: Table, plan: PlanT, options: OptionsT, work: Work) -> ResultT:
        """Do exactly what the plan says; of the options those `at_run` count."""
        ...

    def report(self, table: Table, outcome: Outcome[OptionsT, PlanT, ResultT]) -> Report:
        """What would be done, or was."""
        ...


@runtime_checkable
class InSteps(Verb[OptionsT, PlanT, ResultT], Protocol[OptionsT, PlanT, ResultT]):
    """A verb that plans and runs step after step, until nothing is left or its time is up."""

    def steps(
        self, table: Table, options: OptionsT, work: Work
    ) -> Iterator[Outcome[OptionsT, PlanT, ResultT]]:
        """All that was done so far, after each step; the plan is the first step's.

        Raises:
            LeaseLost: the lease was lost between two steps; what was done stays done.
        """
        ...


AnyVerb = Verb[Any, Any, Any]


# --- carrying out --------------------------------------------------------------------------------


def _ignore(_: object) -> None:
    """Tell nothing."""


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
    """Plan, lease, run; a `plan` that is given is done as it stands, in one step.

    `planned` is called with the plan. `stepped` is called after each step of a verb that goes in
    steps, with all that was done so far: a run that fails halfway can tell it.

    Raises:
        StalePlan: the table has changed since a plan that is given.
        LeaseHeld: others work on all that the plan needs.
        LeaseLost: the lease was lost while the verb ran.
    """
    if dry_run:
        plan = plan or verb.plan(table, options)
        planned(plan)
        return Outcome(options=options, plan=plan)
    with _leased(table, verb.lease(table, None), work) as alone:
        if plan is None and isinstance(verb, InSteps):
            for done in verb.steps(table, options, alone):
                stepped(done)
            return done
        plan = plan or verb.plan(table, options)
        planned(plan)
        need = verb.lease(table, plan) if alone.lease is None else None
        with _leased(table, need, alone) as leased:
            result = verb.run(table, plan, options, leased)
    return Outcome(options=options, plan=plan, result=result)


@contextmanager
def _leased(table: Table, need: LeaseNeed | None, work: Work) -> Iterator[Work]:
    if need is None:
        yield work
        return
    with maintaining(table, need.kind, need.scope, run=work.run) as lease:
        yield replace(work, lease=lease)
