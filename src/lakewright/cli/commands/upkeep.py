"""`lakewright upkeep`: decides for every table of the warehouse, and carries out what is due."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from lakewright.cli.exit_codes import CONFLICT
from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer, Record
from lakewright.cli.output.ledger_text import short_run
from lakewright.cli.output.progress import shown_steps
from lakewright.cli.output.tables import Block, TextColumn, TextTable
from lakewright.cli.output.text import Cell
from lakewright.cli.upkeep.gate import workspace_of
from lakewright.cli.upkeep.policies import (
    known_tables,
    policies_in_force,
    policy_options,
)
from lakewright.platform.decide.kept_tables import KeptTables, check_patterns
from lakewright.platform.decide.look import Look
from lakewright.platform.decide.upkeep import UpkeepRounds, Upkept, plain_decision, states_of
from lakewright.platform.documents.variables import POLICY_VARIABLE
from lakewright.platform.ledger.intents import Declined, Intent, WhyNot
from lakewright.platform.ledger.kept_verbs import PUBLISH_ICEBERG
from lakewright.platform.policies.check_files import unused_policies
from lakewright.platform.upkeep.words import counted, duration_text, size_text
from lakewright.storage.errors import InvalidRequestError


@command(
    "upkeep",
    of_table=False,
    notes="""
Reads the metadata of every table, decides by the policies what is due, and carries it out, the most
useful first, within the budget of the day. With --dry-run it only shows what is due and why, and
what is deferred, and why. Tables whose policy says `mode: shadow` are not touched: what would be
done is recorded in the ledger.
This command does once what the upkeep sensor in Dagster does all the time.
""",
    examples="""
lakewright upkeep --policy policy.yaml --dry-run
lakewright upkeep --policy policies --only "sales.*"
""",
)
@click.option("--dry-run", is_flag=True, help="Show what is due and what is deferred; do nothing.")
@policy_options()
@click.option(
    "--only",
    metavar="PATTERN",
    multiple=True,
    help="Only tables that match, such as sales.*; may be repeated (default: all).",
)
@click.option("--all", "everything", is_flag=True, help="Show healthy tables, too.")
def upkeep(
    call: Call,
    *,
    policy: tuple[Path, ...],
    tables: tuple[Path, ...],
    only: tuple[str, ...],
    everything: bool,
) -> Answer:
    """Carry out the upkeep that is due in the whole warehouse."""
    if not policy and not tables and not call.dry_run:
        raise InvalidRequestError(
            "no policy says what upkeep may do: name files with --policy or "
            f"${POLICY_VARIABLE}; `lakewright adopt --policy FILE` proposes one"
        )
    workspace = workspace_of(tables, ())
    files = policies_in_force(policy, workspace)
    policies = files.current().policies
    if only:
        check_patterns(only, known_tables(call))
    kept = KeptTables(files=files, adopted=only or ("*",))
    warnings: list[str] = []
    rounds = UpkeepRounds(call.catalog(), kept, warn=warnings.append)
    look = rounds.look()
    if not only:
        # A mistyped name may be that of a table that was to be skipped.
        for unused in unused_policies(policies, look.decisions.keys() | policies.declared_keys):
            sys.stderr.write(f"lakewright: warning: {unused}\n")
    if call.dry_run:
        return _told(look, everything=everything)
    with shown_steps() as steps:
        rounds.begins = lambda each: steps.begin(f"{each.verb.replace('_', ' ')} of {each.table}")
        done = rounds.carry_out(look)
    for warning in warnings:
        sys.stderr.write(f"lakewright: warning: {warning}\n")
    return _done(done, call.program, shadows=len(look.shadows))


# --- what is shown -------------------------------------------------------------------------------


_ORDER = {"due": 0, "shadow": 1, "deferred": 2}
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
    """What is due and deferred, and why, of all tables."""
    rows = sorted(
        states_of(look, everything=everything),
        key=lambda row: (_ORDER.get(row[0], len(_ORDER)), row[1].table, row[1].verb),
    )

    def text() -> Sequence[Block]:
        looked = f"looked at {counted(len(look.decisions), 'table')}"
        if not rows:
            return [f"{looked}: nothing is due"]
        cells: list[list[Cell]] = [
            [state, each.table, each.verb.replace("_", " "), _size(each), reason]
            for state, each, reason in _folded(rows)
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


def _folded(
    rows: Sequence[tuple[str, Intent | Declined]],
) -> Iterator[tuple[str, Intent | Declined, str]]:
    """The rows with their reasons; partitions of a table that wait for the same thing are one."""
    alike: dict[tuple[str, str, str, WhyNot | None], list[Intent | Declined]] = {}
    for state, each in rows:
        why_not = each.why_not if isinstance(each, Declined) else None
        alike.setdefault((state, each.table, each.verb, why_not), []).append(each)
    for (state, *_), found in alike.items():
        more = f"; and {counted(len(found) - 1, 'more partition')}" if len(found) > 1 else ""
        yield state, found[0], f"{found[0].reason}{more}"


def _done(done: Upkept, program: str, *, shadows: int) -> Answer:
    """What was carried out, what came of it, and what else is due but not done."""
    actions, left = done.actions, done.left
    run = short_run(done.run)

    def text() -> Sequence[Block]:
        if not actions:
            if shadows:
                told = f"{counted(shadows, 'verb')} in shadow: recorded, and nothing done"
                return [f"{told}; see lakewright ledger"]
            return ["nothing was due", *_left(left)]
        cells: list[list[Cell]] = [
            [
                action.table,
                action.verb.replace("_", " "),
                action.verdict.value.replace("_", " "),
                duration_text(action.cost.milliseconds),
                action.summary or action.error or "",
            ]
            for action in actions
        ]
        changed = any(action.verb != PUBLISH_ICEBERG for action in actions)
        undo = [f"{program} undo {run} reverts what it can"] if changed else []
        return [TextTable(_DONE_COLUMNS, cells), "", *_left(left), *undo]

    def records() -> list[Record]:
        return [
            {
                "table": action.table,
                "verb": action.verb,
                "verdict": action.verdict.value,
                "reason": action.reason,
                "summary": action.summary,
                "error": action.error,
                "cost": asdict(action.cost),
                "benefit": asdict(action.benefit),
            }
            for action in actions
        ]

    return Answer(text=text, value=records, records=records, code=CONFLICT if done.failed else 0)


def _left(look: Look) -> list[str]:
    """How many verbs are deferred or declined, by state, and which command prints their reasons."""
    states = Counter(state for state, _ in states_of(look, everything=False))
    told = [f"{count} {state}" for state, count in states.items() if state not in ("due", "shadow")]
    return [f"not done: {', '.join(told)} (see --dry-run)"] if told else []


def _size(decision: Intent | Declined) -> str:
    return size_text(decision.cost.bytes) if isinstance(decision, Intent) else ""
