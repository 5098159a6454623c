"""`lakewright replay`: what another policy would have done, beside what was done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.values import age_ms
from lakewright.cli.output.answers import Answer, Record
from lakewright.cli.output.progress import shown_steps
from lakewright.cli.output.tables import Block, Heading, TextColumn, TextTable
from lakewright.cli.upkeep.gate import workspace_of
from lakewright.cli.upkeep.policies import known_tables, policies_of, policy_options

if TYPE_CHECKING:
    from lakewright.platform.decide.replay import Compared, Replay

_WEEK = "7d"
_MOST_DIFFERENCES = 20


@command(
    "replay",
    of_table=False,
    notes="""
The decisions of the given policy are simulated over the states that tables were recorded in (by the
upkeep sensor and `lakewright upkeep`), and before the first of them over the snapshots that tables
still keep. "then" is what the ledger says was done, "now" what the given policy would have done.
`mode: shadow` does not count. docs/how-to/upkeep.md says what is exact, and what is estimated.
""",
    examples="""
lakewright replay --policy new.yaml
lakewright replay --policy new.yaml --since 30d --only "sales.*" --format json
""",
)
@policy_options
@click.option(
    "--since",
    "since_ms",
    type=age_ms,
    metavar="AGE",
    default=_WEEK,
    show_default=True,
    help="Replay the time since then.",
)
@click.option(
    "--only",
    metavar="PATTERN",
    multiple=True,
    help="Only tables that match, such as sales.*; may be repeated (default: all).",
)
@click.option("--all", "everything", is_flag=True, help="Print every decision that differs.")
def replay(
    call: Call,
    *,
    policy: tuple[Path, ...],
    tables: tuple[Path, ...],
    since_ms: int,
    only: tuple[str, ...],
    everything: bool,
) -> Answer:
    """Replay another policy over the recorded history: what it would have cost and gained."""
    from lakewright.platform.decide.kept_tables import check_patterns, names_of_tables
    from lakewright.platform.decide.recorded_history import read_history
    from lakewright.platform.decide.replay import replay as replayed
    from lakewright.platform.decide.surveys import OWN_TABLES
    from lakewright.platform.documents.variables import POLICY_VARIABLE
    from lakewright.storage.errors import InvalidRequestError

    if not policy and not tables:
        raise InvalidRequestError(
            f"no policy to replay: name its files with --policy or ${POLICY_VARIABLE}"
        )
    policies = policies_of(policy, workspace_of(tables, ()))
    if only:
        check_patterns(only, known_tables(call))
    catalog = call.catalog()
    names = [each for each in names_of_tables(catalog, only or ("*",)) if each not in OWN_TABLES]
    with shown_steps() as steps:
        steps.begin("reading the history")
        history = read_history(
            catalog,
            names,
            since_ms=max(catalog.env.now_ms() - since_ms, 0),
            respec_of=lambda name: policies.of(name).policy.respec,
        )
        steps.begin("replaying")
        found = replayed(
            history,
            lambda name: policies.of(name).policy,
            policies.budgets_of,
            timezone=policies.warehouse.budget.timezone,
            declared_keys=policies.declared_keys,
        )
    return Answer(
        text=lambda: _text(found, rebuilt=sum(history.rebuilt.values()), everything=everything),
        value=lambda: _value(found),
        records=lambda: [_record(each) for each in (*found.rows(), found.total())],
    )


def _text(found: Replay, *, rebuilt: int, everything: bool) -> Sequence[Block]:
    from lakewright.platform.decide import replay_text as text

    rows = found.rows()
    blocks: list[Block] = [text.span_text(found)]
    if rows:
        cells = [text.compared_cells(each) for each in (*rows, found.total())]
        blocks += [_table(text.COMPARED, cells, numbers=text.COMPARED[2:])]
    else:
        blocks += ["neither did anything"]
    files = text.changed_files(found)
    if files:
        blocks += ["", Heading("Files of a table, on average over the time")]
        cells = [text.file_cells(each) for each in files]
        blocks += [_table(text.OPEN_FILES, cells, numbers=text.OPEN_FILES[1:])]
    if found.differences:
        most = len(found.differences) if everything else _MOST_DIFFERENCES
        blocks += ["", Heading("Decisions that differ")]
        cells = [text.difference_cells(each) for each in found.differences[:most]]
        blocks += [_table(text.DIFFERENCES, cells)]
        more = len(found.differences) - most
        blocks += [f"and {more:,} more; --all prints them"] if more > 0 else []
    return [*blocks, "", *text.notes(found, rebuilt=rebuilt)]


def _table(
    names: Sequence[str], cells: Sequence[Sequence[str]], numbers: Sequence[str] = ()
) -> TextTable:
    return TextTable([TextColumn(each, right=each in numbers) for each in names], cells)


def _record(each: Compared) -> Record:
    """Flat, so that CSV has the same columns."""
    record: dict[str, object] = {}
    for name, value in asdict(each).items():
        if isinstance(value, dict):
            record |= {f"{name}_{part}": one for part, one in value.items()}
        else:
            record[name] = value
    return record


def _value(found: Replay) -> Record:
    return {
        "begins_ms": found.begins_ms,
        "ends_ms": found.ends_ms,
        "rows": [asdict(each) for each in found.rows()],
        "total": asdict(found.total()),
        "open_files": [asdict(each) for each in found.open_files],
        "differences": [asdict(each) for each in found.differences],
        "without_history": list(found.without_history),
        "shadows": found.shadows,
    }
