"""Alerts: what a person should know of a warehouse, told once for as long as it lasts.

What lasts stands in the table `lakewright.alerts`, a row each, so that a sensor, a command and a
process that starts anew know what was told. Where no policy says where alerts go, there is none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakewright.platform.decide.debt import poor_state
from lakewright.platform.decide.kept_tables import IN_FORCE
from lakewright.platform.decide.look import Look, TableWatch
from lakewright.platform.decide.send_alert import send_alert
from lakewright.platform.decide.surveys import ALERTS
from lakewright.platform.documents.yaml_files import Problem
from lakewright.platform.ledger.intents import Declined, WhyNot
from lakewright.platform.ledger.known_work import Past
from lakewright.platform.ledger.recording import is_recording
from lakewright.platform.tables.upkeep_policies import AlertEvent, AlertPolicy
from lakewright.platform.upkeep.words import counted
from lakewright.storage import Catalog
from lakewright.storage.errors import StorageError
from lakewright.storage.secret_texts import without_secrets
from lakewright.storage.spec.rows import ROW_KIND_COLUMN

_COLUMNS = {
    "table_name": "STRING NOT NULL",
    "event": "STRING NOT NULL",
    "what": "STRING NOT NULL",
    "told_ms": "BIGINT",
    "text": "STRING",
}
_KEYS = ["table_name", "event", "what"]
_COMMENT = "the alerts that were sent and whose condition still holds"
_MOST_TOLD, _LONGEST = 20, 500
# What could not be sent is sent after this.
_AGAIN_MS = 600_000
_BUDGETS = (WhyNot.OUT_OF_BYTES, WhyNot.OUT_OF_TIME)
# The verb is due, works or is tried again: whether it comes through is seen later.
_UNDECIDED = (WhyNot.IN_FLIGHT, WhyNot.CAPPED, WhyNot.ASKED_BEFORE, *_BUDGETS)
# Kinds of files that an alert may say are wrong.
POLICIES, DECLARATIONS = "policies", "declarations"
# A verb that had no effect so often in one state counts as stuck.
_STUCK = 3

# Table, event, and what of it: a verb, a day, or a digest.
Key = tuple[str, AlertEvent, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert; equal ones by `key` are one state that lasts. `table` is empty for all tables."""

    table: str
    event: AlertEvent
    text: str
    what: str = ""

    @property
    def key(self) -> Key:
        return self.table, self.event, self.what


@dataclass(slots=True)
class Alerts:
    """Sends alerts that are new; a failure to do so is a warning.

    It remembers what stands, so one value serves many looks at one warehouse.
    """

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _told_ms: dict[Key, int] | None = None
    _again_ms: int = 0

    def tell_look(
        self,
        catalog: Catalog,
        policy: AlertPolicy,
        look: Look,
        watch: TableWatch,
        past: Past,
        *,
        day_ends_ms: int,
        problems: Sequence[Problem] = (),
        warn: Callable[[str], object],
    ) -> None:
        """Tell what one look shows of the tables that it looked at.

        `problems` are those of the policy files.
        """
        failing = _failing(look, watch, past)
        standing = [
            *_poor(look, watch),
            *failing,
            *_spent(look, day_ends_ms),
            *wrong_files(POLICIES, problems, IN_FORCE),
        ]
        stands = {each.key for each in standing}
        open_verbs = {
            (each.table, each.verb)
            for found in look.decisions.values()
            for each in found
            if not isinstance(each, Declined) or each.why_not in _UNDECIDED
        }

        def is_over(key: Key, _: int) -> bool:
            table, event, what = key
            if event is AlertEvent.BUDGET:
                return what != str(day_ends_ms)
            if not table:
                return what == POLICIES and not problems
            if key in stands or event is AlertEvent.REJECTED or (table, what) in open_verbs:
                return False
            return table in look.decisions or not catalog.table_exists(table)

        self.tell(catalog, policy, standing, is_over, warn=warn)

    def tell(
        self,
        catalog: Catalog,
        policy: AlertPolicy,
        standing: Sequence[Alert],
        is_over: Callable[[Key, int], bool],
        *,
        warn: Callable[[str], object],
    ) -> None:
        """Send what stands and was not told, or ended since; `is_over` says that.

        It is asked with the key and the moment of what was told. Nothing is sent while
        LAKEWRIGHT_LEDGER=off keeps what was told from the warehouse.
        """
        if policy.webhook is None and policy.mail_server is None:
            return
        if not is_recording():
            # Without memory, each look would send all anew.
            return
        try:
            self._tell(catalog, policy, standing, is_over, warn)
        except StorageError as error:
            warn(f"alerts cannot be sent: {without_secrets(str(error))}")

    def _tell(
        self,
        catalog: Catalog,
        policy: AlertPolicy,
        standing: Sequence[Alert],
        is_over: Callable[[Key, int], bool],
        warn: Callable[[str], object],
    ) -> None:
        now_ms = catalog.env.now_ms()
        told_ms = self._told_ms = self._read(catalog) if self._told_ms is None else self._told_ms
        over = {key for key, at_ms in told_ms.items() if is_over(key, at_ms)}
        lasts = told_ms.keys() - over
        new = [each for each in standing if each.key not in lasts and each.event in policy.events]
        sent = False
        if new and now_ms >= self._again_ms:
            title = f"Lakewright: {counted(len(new), 'alert')} of {without_secrets(catalog.uri)}"
            sent, problems = send_alert(policy, title, _text(new), self.environment)
            for problem in problems:
                warn(problem)
            self._again_ms = 0 if sent else now_ms + _AGAIN_MS
        new = new if sent else []
        gone = over - {each.key for each in new}
        if new or gone:
            self._write(catalog, new, gone, now_ms)

    def _read(self, catalog: Catalog) -> dict[Key, int]:
        if not catalog.table_exists(ALERTS):
            return {}
        events = set(AlertEvent)
        return {
            (row["table_name"], AlertEvent(row["event"]), row["what"]): row["told_ms"] or 0
            for row in catalog.table(ALERTS).read().to_pylist()
            if row["event"] in events
        }

    def _write(
        self, catalog: Catalog, new: Sequence[Alert], gone: Iterable[Key], now_ms: int
    ) -> None:
        """Put down what was told, and strike out what is over, in one commit."""
        assert self._told_ms is not None
        table = catalog.create_table(
            ALERTS,
            _COLUMNS,
            primary_keys=_KEYS,
            options={"bucket": "1"},
            comment=_COMMENT,
            if_not_exists=True,
        )
        rows = [
            *((*each.key, now_ms, each.text, "+I") for each in new),
            *((*key, now_ms, "", "-D") for key in gone),
        ]
        schema = table.arrow_schema.append(pa.field(ROW_KIND_COLUMN, pa.string()))
        named = [dict(zip([*_COLUMNS, ROW_KIND_COLUMN], row, strict=True)) for row in rows]
        table.write(pa.Table.from_pylist(named, schema=schema))
        self._told_ms |= {each.key: now_ms for each in new}
        for key in gone:
            del self._told_ms[key]


def wrong_files(what: str, problems: Sequence[Problem], then: str) -> Iterable[Alert]:
    """The alert that files are wrong, and what becomes of it."""
    if problems:
        more = f"; and {len(problems) - 1} more" if len(problems) > 1 else ""
        text = f"{what} are wrong: {problems[0]}{more}; {then}"
        yield Alert(table="", event=AlertEvent.FAILED, what=what, text=text)


def _poor(look: Look, watch: TableWatch) -> Iterable[Alert]:
    for table in look.decisions:
        state = watch.state(table)
        if state is not None and (poor := poor_state(state.survey)) is not None:
            yield Alert(table=table, event=AlertEvent.POOR, text=f"poor state: {poor}")


def _failing(look: Look, watch: TableWatch, past: Past) -> Iterable[Alert]:
    """Tables that cannot be read, and verbs that fail, or come to nothing again and again."""
    for table, decisions in look.decisions.items():
        state = watch.state(table)
        if state is not None and state.survey.problem is not None:
            text = f"cannot be read: {state.survey.problem}"
            yield Alert(table=table, event=AlertEvent.FAILED, text=text)
        for decision in decisions:
            if not isinstance(decision, Declined) or decision.why_not is not WhyNot.ASKED_BEFORE:
                continue
            tried = past.tries.get((table, decision.verb))
            if tried is None or not ((tried.error and not tried.beaten) or tried.times >= _STUCK):
                continue
            text = decision.reason.removeprefix(f"{table}, ").removeprefix(f"{table}: ")
            yield Alert(
                table=table,
                event=AlertEvent.FAILED,
                what=decision.verb,
                text=f"{decision.verb.replace('_', ' ')} does not come through: {text}",
            )


def _spent(look: Look, day_ends_ms: int) -> Iterable[Alert]:
    waiting = [each for each in look.choice.declined if each.why_not in _BUDGETS]
    if waiting:
        first = waiting[0]
        reason = f"{first.table}: {first.reason.removeprefix(f'{first.table}: ')}"
        text = f"{counted(len(waiting), 'verb')} over a budget of the day: {reason}"
        yield Alert(table="", event=AlertEvent.BUDGET, what=str(day_ends_ms), text=text)


def _text(alerts: Sequence[Alert]) -> str:
    lines = [
        without_secrets(" ".join(f"{alert.table} {alert.text}".split()))[:_LONGEST]
        for alert in alerts[:_MOST_TOLD]
    ]
    if len(alerts) > _MOST_TOLD:
        lines.append(f"and {len(alerts) - _MOST_TOLD:,} more; `lakewright report` shows all")
    return "\n".join(lines)
