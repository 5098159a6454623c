"""Carries out verbs and records what came of them: one action each, in the ledger and for lineage.

Recording never fails the upkeep itself: what cannot be recorded is a warning. A dry run records
nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import cached_property, partial
from typing import Any, TypeVar

from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.calibrate import Calibration
from lakewright.platform.ledger.foresee import with_estimate
from lakewright.platform.ledger.intents import Intent
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.ledger.open_lineage import lineage_sink
from lakewright.platform.ledger.past import LEARNS_FROM_MS
from lakewright.platform.upkeep.measures import Benefit, Cost, Measures
from lakewright.platform.upkeep.procedure import (
    AnyProcedure,
    Outcome,
    Report,
    Work,
    carry_out,
)
from lakewright.storage import Catalog, Table
from lakewright.storage.errors import (
    CommitConflictError,
    InvalidRequestError,
    LeaseHeld,
    StorageError,
)
from lakewright.storage.operations.running.verb_options import option_fields
from lakewright.storage.secret_texts import shown_value, without_secrets

LEDGER_VARIABLE = "LAKEWRIGHT_LEDGER"
_LONGEST_ERROR = 2000

Record = Callable[[Action], object]
Figures = TypeVar("Figures", Cost, Benefit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """Carries verbs out, and hands each action to its sinks, such as the ledger.

    A sink that fails is a warning. `reason` says why a verb is carried out, and `predicted` what
    was predicted when that was decided; what it does not say is taken from the verb's plan. Without
    a decision, the plan is corrected by what `learned` says of the verb's name and the table's.
    """

    sinks: tuple[Record, ...]
    warn: Callable[[str], object]
    reason: str = ""
    state: str = ""
    predicted: Measures | None = None
    learned: Callable[[str, str], Calibration] = lambda *_: Calibration()
    policy: str = ""

    @classmethod
    def of(cls, catalog: Catalog, *, warn: Callable[[str], object], make: bool = False) -> Recorder:
        """Records in the warehouse's ledger, if it is to be used, and as events of OpenLineage.

        A ledger that exists is used, unless LAKEWRIGHT_LEDGER=off; `make` or LAKEWRIGHT_LEDGER=on
        makes it at the first action.

        Raises:
            InvalidRequestError: the variable is neither on, off nor auto.
        """
        ledger = Ledger(catalog)
        asked = _asked()
        use = make if asked is None else asked
        if asked is None and not make:
            # The verb itself will tell what is wrong with the store.
            with suppress(StorageError):
                use = ledger.exists()
        lineage = None
        try:
            lineage = lineage_sink(catalog)
        except StorageError as error:
            # Other programs of the machine may be set up for it, and upkeep goes on without.
            warn(error.message)
        return cls(
            sinks=(
                *([ledger.record_one] if use else []),
                *([lineage] if lineage is not None else []),
            ),
            warn=warn,
            learned=partial(_learned, ledger),
        )

    def for_intent(self, intent: Intent) -> Recorder:
        """Records what an intent says of why and with which prediction."""
        return replace(
            self,
            reason=intent.reason,
            state=intent.state,
            policy=intent.policy,
            predicted=Measures(cost=intent.cost, benefit=intent.benefit),
        )

    def carry_out(
        self,
        verb: AnyProcedure,
        table: Table,
        options: Any,
        work: Work,
        *,
        plan: Any = None,
        dry_run: bool = False,
        planned: Callable[[Any], object] = lambda _: None,
        stepped: Callable[[Outcome[Any, Any, Any]], object] = lambda _: None,
    ) -> Outcome[Any, Any, Any]:
        """Carry a verb out as `carry_out` does, and record its action.

        A failure is recorded too, with what was done before it, and raised again. A request of a
        person that is wrong is refused before a plan is made, and no action; nor is a verb that
        only reads. What a decision asked for is always recorded, as later ones wait because of it.
        """
        if dry_run or not self.sinks or verb.only_reads:
            return carry_out(
                verb,
                table,
                options,
                work,
                plan=plan,
                dry_run=dry_run,
                planned=planned,
                stepped=stepped,
            )
        watch = _Watch(verb, table, options, work, self)

        def saw_plan(made: Any) -> None:
            watch.saw(Outcome(options=options, plan=made))
            planned(made)

        def saw_step(done: Outcome[Any, Any, Any]) -> None:
            watch.saw(done)
            stepped(done)

        try:
            outcome = carry_out(
                verb, table, options, work, plan=plan, planned=saw_plan, stepped=saw_step
            )
        except BaseException as error:
            is_slip = isinstance(error, InvalidRequestError) and watch.done is None
            if self.state or not is_slip:
                self._record(verb, table, partial(watch.failed, error))
            raise
        self._record(verb, table, partial(watch.ended, outcome))
        return outcome

    def foretell(
        self, verb: AnyProcedure, table: Table, planned: Outcome[Any, Any, Any], report: Report
    ) -> Report:
        """The report of a plan with what it will take, by past runs where they can be read."""
        try:
            return with_estimate(self.learned, verb, table, planned, report)
        except StorageError as error:
            self._warn(f"past runs of {verb.name} cannot be read", error)
            return with_estimate(lambda *_: Calibration(), verb, table, planned, report)

    def _record(self, verb: AnyProcedure, table: Table, action: Callable[[], Action]) -> None:
        told = f"{verb.name} of {table.name} is not recorded"
        try:
            made = action()
        except Exception as error:  # noqa: BLE001  # upkeep that is done does not fail for its record
            self._warn(told, error)
            return
        for sink in self.sinks:
            try:
                sink(made)
            except Exception as error:  # noqa: BLE001  # nor does it keep it from the other sinks
                self._warn(told, error)

    def _warn(self, told: str, error: Exception) -> None:
        self.warn(f"{told}: {without_secrets(str(error)) or type(error).__name__}")


def _learned(ledger: Ledger, verb: str, table: str) -> Calibration:
    """What runs of the last weeks say: those of the table, or if they are few, of all tables."""
    since_ms = max(0, ledger.catalog.env.now_ms() - LEARNS_FROM_MS)
    own = Calibration.of(ledger.actions(table=table, verb=verb, since_ms=since_ms))
    return own if own.ratios else Calibration.of(ledger.actions(verb=verb, since_ms=since_ms))


def is_recording() -> bool:
    """Whether the ledger is not switched off by LAKEWRIGHT_LEDGER."""
    return _asked() is not False


def _asked() -> bool | None:
    said = os.environ.get(LEDGER_VARIABLE, "").strip().lower()
    if said in ("", "auto"):
        return None
    if said not in ("on", "off"):
        raise InvalidRequestError(f"{LEDGER_VARIABLE}={said!r} is neither on, off nor auto")
    return said == "on"


@dataclass
class _Watch:
    """A verb that is being carried out, as far as it is known."""

    verb: AnyProcedure
    table: Table
    options: Any
    work: Work
    recorder: Recorder
    started_ms: int = field(init=False)
    snapshot_before: int | None = field(init=False)
    first: Outcome[Any, Any, Any] | None = None
    done: Outcome[Any, Any, Any] | None = None

    def __post_init__(self) -> None:
        self.started_ms = self.table.table_files.env.now_ms()
        self.snapshot_before = self._latest()

    def saw(self, done: Outcome[Any, Any, Any]) -> None:
        """The plan, or a step."""
        self.done = done
        if self.first is None:
            self.first = done

    def ended(self, done: Outcome[Any, Any, Any]) -> Action:
        """The action of a run that came to its end."""
        self.done = done
        report = self.verb.report(self.table, self.done)
        verdict = Verdict.DONE
        if report.was_beaten:
            verdict = Verdict.BEATEN
        elif report.is_empty or report.only_tells:
            verdict = Verdict.NOTHING_TO_DO
        return self._action(verdict, report)

    def failed(self, error: BaseException) -> Action:
        """The action of a run that failed, or gave way to other processes."""
        beaten = isinstance(error, (CommitConflictError, LeaseHeld))
        report = None
        if self.done is not None and self.done.result is not None:
            # What the verb's steps did before may be past telling, as the error may be the store's.
            with suppress(Exception):
                report = self.verb.report(self.table, self.done)
        told = without_secrets(f"{type(error).__name__}: {error}")[:_LONGEST_ERROR]
        action = self._action(Verdict.BEATEN if beaten else Verdict.FAILED, report)
        return replace(action, error=told)

    def _action(self, verdict: Verdict, report: Report | None) -> Action:
        env = self.table.table_files.env
        ended_ms = env.now_ms()
        predicted, actual = self._predicted(), Measures()
        if self.done is not None and self.done.result is not None and self.verb.measures:
            actual = self.verb.measures(self.table, self.done)
        return Action(
            id=env.new_id(),
            run=self.work.run,
            table=self.table.name,
            table_uuid=self._uuid,
            verb=self.verb.name,
            started_ms=self.started_ms,
            ended_ms=ended_ms,
            verdict=verdict,
            reason=without_secrets(self.recorder.reason),
            summary="" if report is None else without_secrets(report.summary),
            options=_told(self.verb, self.options),
            snapshot_before=self.snapshot_before,
            snapshot_after=self._latest(),
            predicted_cost=None if predicted is None else predicted.cost,
            predicted_benefit=None if predicted is None else predicted.benefit,
            cost=replace(actual.cost, milliseconds=max(0, ended_ms - self.started_ms)),
            benefit=actual.benefit,
            condemned=self._condemned(),
            snapshots=actual.snapshots,
            state=self.recorder.state,
            policy=self.recorder.policy,
        )

    def _condemned(self) -> tuple[str, ...]:
        """The records of what the verb condemned in this run, and may be put back."""
        if not hasattr(self.options, "grace_ms"):
            return ()
        with suppress(StorageError):
            runs = self.table.upkeep.condemned()
            return tuple(e.id for e in runs if (e.run, e.verb) == (self.work.run, self.verb.name))
        return ()

    def _predicted(self) -> Measures | None:
        """What was expected: by the request, and else by the plan of the first step.

        Of a verb that measures nothing, it is the time that earlier runs took.
        """
        asked = self.recorder.predicted
        if self.first is None:
            return asked
        planned = Measures()
        if self.verb.measures:
            planned = self.verb.measures(self.table, replace(self.first, result=None))
        if asked is not None:
            cost, benefit = _or(asked.cost, planned.cost), _or(asked.benefit, planned.benefit)
            return replace(asked, cost=cost, benefit=benefit)
        verb = self.verb.name
        learned = self.recorder.learned(verb, self.table.name)
        return learned.measures(verb, self.table.name, planned)

    @cached_property
    def _uuid(self) -> str:
        try:
            return self.table.uuid
        except StorageError:
            return ""

    def _latest(self) -> int | None:
        try:
            return self.table.table_files.snapshots.latest_id()
        except StorageError:
            return None


def _or(asked: Figures, planned: Figures) -> Figures:
    """What was asked for, and where that is zero, what was planned."""
    zeros = {
        each.name: getattr(planned, each.name)
        for each in fields(asked)
        if not getattr(asked, each.name)
    }
    return replace(asked, **zeros)


def _told(verb: AnyProcedure, options: Any) -> Mapping[str, object]:
    """The options that are not the verb's defaults, as JSON values without secrets."""
    chosen = {
        each.name: getattr(options, each.name)
        for each in option_fields(verb.options)
        if getattr(options, each.name) != each.default
    }
    told: dict[str, object] = shown_value(json.loads(json.dumps(chosen, default=_plain)))
    return told


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else str(value)
