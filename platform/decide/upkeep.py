"""The upkeep of a warehouse without an orchestrator: look, carry out, look again.

1. Look: decide on every kept table by its metadata, the policies and the ledger.
2. Carry out what is chosen, the most useful first, each verb recorded in the ledger.
3. Look again, until nothing is due that was not tried.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

from lakewright.platform.decide.alerts import Alerts
from lakewright.platform.decide.clock import Clock
from lakewright.platform.decide.keepers import in_turn, options_by
from lakewright.platform.decide.kept_tables import KeptTables, check_patterns
from lakewright.platform.decide.look import Look, TableWatch
from lakewright.platform.decide.surveys import SurveyLog, Surveys
from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.intents import Declined, Intent, WhyNot
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.ledger.past import day_of
from lakewright.platform.ledger.recording import Recorder, is_recording
from lakewright.platform.ledger.shadows import record_shadows
from lakewright.platform.policies.policy_watch import PolicyFiles
from lakewright.platform.tables.partition_keys import decode_partition
from lakewright.platform.tables.upkeep_policies import UpkeepMode
from lakewright.platform.upkeep.clean import collect_dropped_tables
from lakewright.platform.upkeep.health import partition_columns
from lakewright.platform.upkeep.procedure import Work
from lakewright.storage import Catalog
from lakewright.storage.errors import StorageError

# A call goes on until nothing is due; each round carries out one verb for each table.
_MOST_ROUNDS = 8
_ALWAYS_TOLD = (
    WhyNot.UNREADABLE,
    WhyNot.READ_ONLY,
    WhyNot.FROZEN,
    WhyNot.HINT,
    WhyNot.UNDONE,
    WhyNot.CONTRADICTION,
    WhyNot.DECLARED,
    WhyNot.UNSUPPORTED,
)
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkept:
    """What one call of upkeep did: `left` is the last look, and `run` takes it back with undo."""

    run: str
    actions: tuple[Action, ...]
    left: Look

    @property
    def failed(self) -> tuple[Action, ...]:
        """The actions that failed, or gave way to other commits."""
        return tuple(
            action for action in self.actions if action.verdict in (Verdict.FAILED, Verdict.BEATEN)
        )


def upkeep(
    catalog: Catalog,
    policy: str | Path | Sequence[str | Path],
    *,
    only: Sequence[str] = ("*",),
    dry_run: bool = False,
) -> Upkept:
    """Carry out the upkeep that policies ask for, in all tables of a warehouse.

    `policy` names policy files, and folders of them; `only` are patterns of tables, such as
    sales.*. A dry run decides, and writes nothing; `left.decisions` has what is due and why.

    Raises:
        DeclarationError: a policy file is wrong, or is not there.
        InvalidRequestError: a pattern matches no table.
    """
    paths = [policy] if isinstance(policy, str | Path) else policy
    if tuple(only) != ("*",):
        databases = catalog.list_databases()
        known = (f"{db}.{name}" for db in databases for name in catalog.list_tables(db))
        check_patterns(only, frozenset(known))
    rounds = UpkeepRounds(catalog, KeptTables(files=PolicyFiles(paths), adopted=tuple(only)))
    look = rounds.look()
    if dry_run:
        return Upkept(run=rounds.run, actions=(), left=look)
    return rounds.carry_out(look)


@dataclass
class UpkeepRounds:
    """Looks and carries out in turn, until nothing is due that was not tried.

    `begins` is called with each intent before it is carried out, and `warn` with what failed.
    """

    catalog: Catalog
    kept: KeptTables
    begins: Callable[[Intent], object] = field(default=lambda _: None)
    warn: Callable[[str], object] = field(default=_LOG.warning)

    @cached_property
    def run(self) -> str:
        """The name of this call's work, by which it can be taken back."""
        return f"lakewright upkeep ({self.catalog.env.new_id()[:8]})"

    @cached_property
    def watch(self) -> TableWatch:
        """Of a table that no verb changed, what was read in one round holds for the next."""
        return TableWatch(self.kept, log=SurveyLog(Surveys(self.catalog)))

    def look(self) -> Look:
        """Decide on every kept table, with what the ledger knows."""
        return look_now(self.catalog, self.watch)

    def carry_out(self, look: Look) -> Upkept:
        """Carry out what is chosen, then what the next look chooses."""
        if self.kept.warehouse.mode is UpkeepMode.LIVE:
            collect_dropped_tables(self.catalog, self.warn)
        done: list[Action] = []
        tried: set[tuple[str, str, str]] = set()
        recorder = Recorder.of(self.catalog, warn=self.warn, make=True)
        recorder = replace(recorder, sinks=(*recorder.sinks, done.append))
        for _ in range(_MOST_ROUNDS):
            now_ms = self.catalog.env.now_ms()
            record_shadows(Ledger(self.catalog), look.shadows, run=self.run, now_ms=now_ms)
            if is_recording():
                with suppress(StorageError):
                    self.watch.record(self.catalog, look, now_ms=now_ms)
            chosen = [each for each in look.choice.chosen if _key(each) not in tried]
            if not chosen:
                break
            for intent in chosen:
                tried.add(_key(intent))
                self.begins(intent)
                self._carry_out(intent, recorder)
                self.watch.read_again(intent.table)
            look = self.look()
        self._alert(look)
        return Upkept(run=self.run, actions=tuple(done), left=look)

    def _alert(self, look: Look) -> None:
        """Send the alerts of a look, as the policy of the warehouse says."""
        policy = self.kept.warehouse
        begins_ms, ends_ms = day_of(self.catalog.env.now_ms(), policy.budget.timezone)
        Alerts().tell_look(
            self.catalog,
            policy.alerts,
            look,
            self.watch,
            self.watch.recorded(self.catalog).past(day_begins_ms=begins_ms),
            day_ends_ms=ends_ms,
            warn=self.warn,
        )

    def _carry_out(self, intent: Intent, recorder: Recorder) -> None:
        recorder = recorder.for_intent(intent)
        try:
            table = self.catalog.table(intent.table)
            # What is cut to a budget has a limit of its own.
            options = replace(
                options_by(self.kept.table(intent.table).policy, intent.verb), **intent.options
            )
            if intent.partitions is not None:
                columns = partition_columns(table)
                specs = tuple(decode_partition(key, columns) for key in intent.partitions)
                options = replace(options, partitions=specs)
            for verb in in_turn(intent.verb, table):
                work = Work(run=self.run, session=_session)
                recorder.carry_out(verb, table, options, work)
        except StorageError as error:
            # The other tables are kept all the same.
            self.warn(f"{intent.verb.replace('_', ' ')} of {intent.table}: {error}")


def look_now(catalog: Catalog, watch: TableWatch) -> Look:
    """Decide on every kept table, with what the ledger knows."""
    clock = Clock.at(catalog.env.now_ms())
    day_begins_ms, day_ends_ms = day_of(clock.now_ms, watch.tables.warehouse.budget.timezone)
    past = watch.recorded(catalog).past(day_begins_ms=day_begins_ms)
    return watch.look(catalog, past, clock, day_ends_ms=day_ends_ms)


def _key(intent: Intent) -> tuple[str, str, str]:
    return (intent.table, intent.verb, intent.state)


def _session() -> Any:
    from lakewright.storage.spark import build_session

    return build_session("lakewright upkeep")


# --- decisions as rows -------------------------------------------------------------------------


def states_of(look: Look, *, everything: bool) -> list[tuple[str, Intent | Declined]]:
    """Each decision with its state: due, in shadow, waiting, or why it is declined.

    What is in order is left out, unless `everything` is asked for.
    """
    chosen = {(each.table, each.verb): each for each in look.choice.chosen}
    shadows = {(shadow.table, shadow.verb) for shadow in look.shadows}
    waits = {(each.table, each.verb): each for each in look.choice.declined}
    rows: list[tuple[str, Intent | Declined]] = []
    for decision in (each for found in look.decisions.values() for each in found):
        key = (decision.table, decision.verb)
        if isinstance(decision, Intent):
            state = "due" if key in chosen else "shadow" if key in shadows else "deferred"
            rows.append((state, waits.get(key, chosen.get(key, decision))))
        elif decision.why_not.waits:
            rows.append(("deferred", decision))
        elif everything or decision.why_not in _ALWAYS_TOLD:
            rows.append((decision.why_not.value.replace("_", " "), decision))
    return rows


def plain_decision(state: str, decision: Intent | Declined) -> dict[str, object]:
    """A decision as a JSON value; its `state` says what comes of it."""
    found = {
        name: value.value if isinstance(value, Enum) else value
        for name, value in asdict(decision).items()
        # The state of the table in which it was decided is for runs, which are known again by it.
        if name not in ("state", "told", "subject")
    }
    if found.get("score") == float("inf"):
        # JSON has no such number.
        found["score"] = None
    return {"state": state, **found, "reason": decision.reason}
