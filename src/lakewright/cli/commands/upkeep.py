"""`lakewright upkeep`: decides for every table of the warehouse, and carries out what is due."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from lakewright.cli.exit_codes import CONFLICT
from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer, Record
from lakewright.cli.output.progress import shown_steps
from lakewright.cli.output.tables import Block, TextColumn, TextTable
from lakewright.cli.output.text import Cell
from lakewright.cli.upkeep.gate import workspace_of
from lakewright.cli.upkeep.looking import look_now, plain_decision, states_of
from lakewright.cli.upkeep.policies import (
    known_tables,
    policies_of,
    policy_options,
)
from lakewright.platform.declare.check_files import unused_policies
from lakewright.platform.declare.partition_keys import decode_partition
from lakewright.platform.declare.policy_watch import PolicyFiles
from lakewright.platform.declare.variables import POLICY_VARIABLE
from lakewright.platform.upkeep.health import partition_columns
from lakewright.platform.upkeep.measures import Measures
from lakewright.platform.upkeep.verb import Work
from lakewright.platform.upkeep.words import counted, duration_text, size_text
from lakewright.platform.warehouse.action import Action, Verdict
from lakewright.platform.warehouse.intents import Declined, Intent
from lakewright.platform.warehouse.keepers import KEEPERS
from lakewright.platform.warehouse.kept_tables import KeptTables, check_patterns
from lakewright.platform.warehouse.ledger import Ledger
from lakewright.platform.warehouse.look import Look, Watch
from lakewright.platform.warehouse.recording import Recorder, is_recording
from lakewright.platform.warehouse.shadows import record_shadows
from lakewright.platform.warehouse.surveys import SurveyLog, Surveys
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRequestError, StorageError

# A call goes on until nothing is due; each round carries out one verb for each table.
_MOST_ROUNDS = 8
_RUN = "lakewright upkeep"


@command(
    "upkeep",
    of_table=False,
    notes="""
Looks at the metadata of every table, asks the policies what is due, and carries that out, the most
useful first, within the budget of the day. With --dry-run it only tells what is due and why, and
what waits and for what. Tables whose policy says `mode: shadow` are not touched: what would be done
is recorded in the ledger.
This command does once what the upkeep sensor in Dagster does all the time.
""",
    examples="""
lakewright upkeep --policy policy.yaml --dry-run
lakewright upkeep --policy policies --only "sales.*"
""",
)
@click.option("--dry-run", is_flag=True, help="Tell what is due and what waits; do nothing.")
@policy_options
@click.option(
    "--only",
    metavar="PATTERN",
    multiple=True,
    help="Only tables that match, such as sales.*; may be repeated (default: all).",
)
@click.option("--all", "everything", is_flag=True, help="Tell what is in order, too.")
def upkeep(
    call: Call,
    *,
    policy: tuple[Path, ...],
    tables: tuple[Path, ...],
    only: tuple[str, ...],
    everything: bool,
) -> Answer:
    """Carry out the upkeep that is due in the whole warehouse."""
    # Cron schedules are read as Dagster reads them.

    if not policy and not tables and not call.dry_run:
        raise InvalidRequestError(
            "no policy says what upkeep may do: name files with --policy or "
            f"${POLICY_VARIABLE}; `lakewright adopt --policy FILE` proposes one"
        )
    workspace = workspace_of(tables, ())
    # What is wrong with the files is told as by other commands.
    policies = policies_of(policy, workspace)
    files = PolicyFiles(policy, workspace=workspace)
    if only:
        check_patterns(only, known_tables(call))
    kept = KeptTables(files=files, adopted=only or ("*",))
    rounds = _Rounds(call.catalog(), kept)
    look = rounds.look()
    if not only:
        # A mistyped name may be that of a table that was to be left alone.
        for unused in unused_policies(policies, look.decisions.keys() | policies.declared_keys):
            sys.stderr.write(f"lakewright: warning: {unused}\n")
    if call.dry_run:
        return _told(look, everything=everything)
    done, left = rounds.carry_out(look)
    return _done(done, left, run=rounds.run, shadows=len(look.shadows))


@dataclass
class _Rounds:
    """Looks and carries out in turn, until nothing is due that was not tried."""

    catalog: Catalog
    kept: KeptTables

    @cached_property
    def run(self) -> str:
        """The name of this call's work, by which it can be taken back."""
        return f"{_RUN} ({self.catalog.env.new_id()[:8]})"

    @cached_property
    def watch(self) -> Watch:
        """Of a table that no verb changed, what was read in one round holds for the next."""
        return Watch(self.kept, log=SurveyLog(Surveys(self.catalog)))

    def look(self) -> Look:
        return look_now(self.catalog, self.watch)

    def carry_out(self, look: Look) -> tuple[list[Action], Look]:
        """Carry out what is chosen, then what the next look chooses.

        Returns what was done, and the last look.
        """
        done: list[Action] = []
        tried: set[tuple[str, str, str]] = set()
        warnings: list[str] = []
        recorder = Recorder.of(self.catalog, warn=warnings.append, make=True)
        recorder = replace(recorder, sinks=(*recorder.sinks, done.append))
        with shown_steps() as steps:
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
                    steps.begin(f"{intent.verb.replace('_', ' ')} of {intent.table}")
                    self._carry_out(intent, recorder, warnings)
                    self.watch.read_again(intent.table)
                look = self.look()
        for warning in warnings:
            sys.stderr.write(f"lakewright: warning: {warning}\n")
        return done, look

    def _carry_out(self, intent: Intent, recorder: Recorder, warnings: list[str]) -> None:
        keeper = KEEPERS[intent.verb]
        predicted = Measures(cost=intent.cost, benefit=intent.benefit)
        recorder = replace(
            recorder,
            reason=intent.reason,
            state=intent.state,
            policy=intent.policy,
            predicted=predicted,
        )
        try:
            table = self.catalog.table(intent.table)
            # What is cut to a budget has a limit of its own.
            options = replace(
                keeper.options(self.kept.table(intent.table).policy), **intent.options
            )
            if intent.partitions is not None:
                columns = partition_columns(table)
                specs = tuple(decode_partition(key, columns) for key in intent.partitions)
                options = replace(options, partitions=specs)
            for verb in keeper.verbs(table):
                work = Work(run=self.run, session=_session, warn=warnings.append)
                recorder.carry_out(verb, table, options, work)
        except StorageError as error:
            # The other tables are kept all the same.
            warnings.append(f"{intent.verb.replace('_', ' ')} of {intent.table}: {error}")


def _key(intent: Intent) -> tuple[str, str, str]:
    return (intent.table, intent.verb, intent.state)


def _session() -> Any:
    from lakewright.storage.spark import build_session

    return build_session(_RUN)


# --- what is shown -------------------------------------------------------------------------------


_ORDER = {"due": 0, "shadow": 1, "waits": 2}
_COLUMNS = [
    TextColumn("state"),
    TextColumn("table"),
    TextColumn("verb"),
    TextColumn("reads"),
    TextColumn("reason"),
]
_DONE_COLUMNS = [
    TextColumn("table"),
    TextColumn("verb"),
    TextColumn("result"),
    TextColumn("time"),
    TextColumn("what"),
]


def _told(look: Look, *, everything: bool) -> Answer:
    """What is due, what waits and for what, of all tables."""
    rows = sorted(
        states_of(look, everything=everything),
        key=lambda row: (_ORDER.get(row[0], len(_ORDER)), row[1].table, row[1].verb),
    )

    def text() -> Sequence[Block]:
        looked = f"looked at {counted(len(look.decisions), 'table')}"
        if not rows:
            return [f"{looked}: nothing is due"]
        cells: list[list[Cell]] = [
            [state, each.table, each.verb.replace("_", " "), _size(each), each.reason]
            for state, each in rows
        ]
        size = size_text(sum(each.cost.bytes for each in look.choice.chosen))
        chosen, shadows = (
            counted(len(each), "verb") for each in (look.choice.chosen, look.shadows)
        )
        return [
            TextTable(_COLUMNS, cells),
            "",
            f"{looked}: {chosen} to carry out, {size} to read; {shadows} in shadow",
            "dry run: nothing was written",
        ]

    def records() -> list[Record]:
        return [plain_decision(state, each) for state, each in rows]

    return Answer(text=text, value=records, records=records)


def _done(actions: Sequence[Action], left: Look, *, run: str, shadows: int) -> Answer:
    """What was carried out, what came of it, and what else is due but not done."""
    failed = [each for each in actions if each.verdict in (Verdict.FAILED, Verdict.BEATEN)]

    def text() -> Sequence[Block]:
        if not actions:
            if shadows:
                told = f"{counted(shadows, 'verb')} in shadow: recorded, and nothing done"
                return [f"{told}; see lakewright history"]
            return ["nothing was due", *_left(left)]
        cells: list[list[Cell]] = [
            [
                each.table,
                each.verb.replace("_", " "),
                each.verdict.value.replace("_", " "),
                duration_text(each.cost.milliseconds),
                each.summary or each.error or "",
            ]
            for each in actions
        ]
        return [TextTable(_DONE_COLUMNS, cells), "", *_left(left), f"run: {run}"]

    def records() -> list[Record]:
        return [
            {
                "table": each.table,
                "verb": each.verb,
                "verdict": each.verdict.value,
                "reason": each.reason,
                "summary": each.summary,
                "error": each.error,
                "cost": asdict(each.cost),
                "benefit": asdict(each.benefit),
            }
            for each in actions
        ]

    return Answer(text=text, value=records, records=records, code=CONFLICT if failed else 0)


def _left(look: Look) -> list[str]:
    """How many verbs wait or are declined, by state, and where their reasons are told."""
    states = Counter(state for state, _ in states_of(look, everything=False))
    told = [f"{count} {state}" for state, count in states.items() if state not in ("due", "shadow")]
    return [f"not done: {', '.join(told)} (--dry-run tells why)"] if told else []


def _size(decision: Intent | Declined) -> str:
    return size_text(decision.cost.bytes) if isinstance(decision, Intent) else ""
