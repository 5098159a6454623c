"""`lakewright top`: a live view of the upkeep of a warehouse."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer, Record
from lakewright.cli.output.live import show_live
from lakewright.cli.output.tables import Block, Heading, TextColumn, TextTable
from lakewright.cli.output.terminal import is_terminal
from lakewright.cli.output.text import Cell
from lakewright.cli.upkeep.gate import workspace_of
from lakewright.cli.upkeep.policies import policies_of, policy_options

if TYPE_CHECKING:
    from lakewright.platform.decide.overview import Overview, TableLine
    from lakewright.platform.ledger.action import Action

_EVERY_S = 5.0
_STEPS = 16
_MOST_TABLES = 30
_MOST_ACTIONS = 8
_MOST_TEXT = 100


@command(
    "top",
    of_table=False,
    notes="""
Tables stand in order of debt, the number of files that upkeep could take away. "due" is what the
policies ask for now, "deferred" what is due and kept back, each with its reason; for debt without
due work it shows what the debt consists of. It is drawn again every few seconds; q or Ctrl-C ends
it. Without a terminal, one frame is printed. It writes nothing.
""",
    examples="""
lakewright top --policy policy.yaml
lakewright top s3://lake/warehouse --once --format json
""",
)
@click.argument("uri", required=False)
@policy_options()
@click.option("--once", is_flag=True, help="Print one frame, and end.")
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=1),
    default=_EVERY_S,
    show_default=True,
    metavar="SECONDS",
    help="Shortest time between two frames.",
)
def top(
    call: Call,
    *,
    uri: str | None,
    policy: tuple[Path, ...],
    tables: tuple[Path, ...],
    once: bool,
    every_s: float,
) -> Answer | None:
    """Watch a warehouse: tables by debt, what is due and why, who works, what was done."""
    from lakewright.platform.decide.kept_tables import KeptTables
    from lakewright.platform.decide.overview import Overviews
    from lakewright.platform.policies.policy_watch import PolicyFiles

    call = call if uri is None else replace(call, warehouse=uri)
    workspace = workspace_of(tables, ())
    policies_of(policy, workspace)
    files = PolicyFiles(policy, workspace=workspace)
    overviews = Overviews(call.catalog(), KeptTables(files=files, adopted=("*",)))
    if once or call.form != "table" or not is_terminal(sys.stdout):
        seen = overviews.look()
        return Answer(
            text=lambda: _frame(seen, where=overviews.catalog.uri),
            value=lambda: _value(seen),
            records=lambda: [_line_record(table) for table in seen.tables],
        )
    show_live(
        lambda: _frame(overviews.look(), where=overviews.catalog.uri),
        overviews.catalog.env,
        every_ms=round(every_s * 1000),
    )
    return None


# --- what is shown ------------------------------------------------------------------------------


_TABLES = [
    TextColumn("table"),
    TextColumn("debt", right=True),
    TextColumn("week"),
    TextColumn("to read", right=True),
    TextColumn("what is due, and why"),
]
_ACTIONS = [
    TextColumn("began (UTC)"),
    TextColumn("table"),
    TextColumn("verb"),
    TextColumn("took", right=True),
    TextColumn("what"),
]


def _frame(seen: Overview, *, where: str) -> Sequence[Block]:
    from lakewright.platform.upkeep.words import counted, duration_text, size_text, time_text

    due = sum(len(table.due) for table in seen.tables)
    waits = sum(len(table.waits) for table in seen.tables)
    debt = sum(table.debt.files for table in seen.tables)
    spent = f"{size_text(seen.spent.bytes)} and {duration_text(seen.spent.milliseconds)} today"
    counts = (
        f"{counted(len(seen.tables), 'table')}, debt of {counted(debt, 'file')}, {due:,} due, "
        f"{waits:,} deferred, {spent}"
    )
    blocks: list[Block] = [
        Heading(f"{where}  {time_text(seen.at_ms)}  looked for {duration_text(seen.took_ms)}"),
        counts,
        "",
    ]
    rows = [_cells(table) for table in seen.tables[:_MOST_TABLES]]
    blocks.append(TextTable(_TABLES, rows) if rows else "no table")
    if len(seen.tables) > _MOST_TABLES:
        blocks.append(f"and {counted(len(seen.tables) - _MOST_TABLES, 'more table')}")
    working = [f"{table.table}: {one}" for table in seen.tables for one in table.working]
    if working:
        blocks += ["", Heading("At work"), *working]
    if seen.actions:
        blocks += ["", Heading("The last actions of 24 hours")]
        blocks.append(
            TextTable(_ACTIONS, [_done(action) for action in seen.actions[:_MOST_ACTIONS]])
        )
    return blocks


def _cells(line: TableLine) -> list[Cell]:
    from lakewright.platform.decide.trend import sparkline
    from lakewright.platform.ledger.kept_verbs import EVERY_VERB
    from lakewright.platform.upkeep.words import size_text

    state, why = "", ""
    if line.problem is not None:
        state, why = "unreadable", line.problem
    elif line.due:
        verbs = ", ".join(each.verb.replace("_", " ") for each in line.due)
        state, why = f"due: {verbs}", line.due[0].reason
    elif line.waits:
        first = line.waits[0]
        state = f"deferred: {first.verb.replace('_', ' ')}, {first.why_not.value.replace('_', ' ')}"
        why = first.reason
    elif line.debt.files and line.left:
        left = line.left[0]
        verb = left.verb.replace("_", " ")
        state = left.why_not.value.replace("_", " ")
        state += "" if left.verb == EVERY_VERB else f": {verb}"
        why = left.told
    elif line.debt.files:
        # A debt is counted against no policy, so it says what it is made of.
        state, why = "not due", "; ".join(line.findings)
    mode = f" ({line.mode})" if line.mode != "live" else ""
    return [
        line.table,
        f"{line.debt.files:,}",
        "" if line.trend is None else sparkline(line.trend.debt(_STEPS)),
        size_text(line.debt.bytes) if line.debt.bytes else "",
        _cut(f"{state}{mode}: {why}" if why else state),
    ]


def _done(action: Action) -> list[Cell]:
    from lakewright.platform.upkeep.words import duration_text, time_text

    return [
        # All of them began within a day.
        time_text(action.started_ms).removesuffix(" UTC").split()[1],
        action.table,
        f"{action.verb}: {action.verdict.value}".replace("_", " "),
        duration_text(action.cost.milliseconds),
        _cut(action.summary or action.error or ""),
    ]


def _cut(text: str) -> str:
    """The beginning of a text, so that rows stay rows in a narrow terminal; JSON has all of it."""
    return shorten(text, _MOST_TEXT, placeholder=" …")


def _value(seen: Overview) -> Record:
    return {
        "at_ms": seen.at_ms,
        "took_ms": seen.took_ms,
        "summary": seen.summary,
        "spent": asdict(seen.spent),
        "tables": [_line_value(table) for table in seen.tables],
        "actions": [
            {
                **{name: getattr(action, name) for name in ("table", "verb", "run", "started_ms")},
                "verdict": action.verdict.value,
                "summary": action.summary,
                "cost": asdict(action.cost),
                "benefit": asdict(action.benefit),
            }
            for action in seen.actions
        ],
    }


def _line_value(line: TableLine) -> dict[str, object]:
    from lakewright.platform.decide.upkeep import plain_decision

    return {
        **_line_record(line),
        "due": [plain_decision("due", each) for each in line.due],
        "waits": [plain_decision("deferred", wait) for wait in line.waits],
        "working": list(line.working),
        "trend": [] if line.trend is None else line.trend.debt(_STEPS),
    }


def _line_record(line: TableLine) -> dict[str, object]:
    return {
        "table": line.table,
        "mode": line.mode,
        "debt_files": line.debt.files,
        "debt_bytes": line.debt.bytes,
        "problem": line.problem,
        "due": ", ".join(each.verb for each in line.due),
        "waits": ", ".join(wait.verb for wait in line.waits),
    }
