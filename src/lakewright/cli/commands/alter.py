"""`lakewright alter`: columns, types and options of a table; one schema file is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from lakewright.cli.grammar.call import Call, check_one_of
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer
from lakewright.cli.upkeep.gate import GATE_NOTES, chosen, gate_options, workspace_of
from lakewright.cli.upkeep.verbs import run_verb
from lakewright.platform.upkeep.alter import AlterOptions, altering
from lakewright.platform.upkeep.findings import verdict_code
from lakewright.platform.upkeep.gate_options import GateOptions
from lakewright.platform.upkeep.verb import option_fields

_NOTES = f"""
Each option of a change may be repeated. Kinds apply in the order above: a column is dropped
before another is added under its name, and --type and what follows name columns as they are
called after the renames. A path such as r.c names member c of row r; arrays have
`element`, maps have `value`; names with dots stand in backticks.
{GATE_NOTES}"""


def _texts(run: Callable[..., Answer | None]) -> Callable[..., Answer | None]:
    """An option of texts for each kind of change."""
    judged = {each.name for each in option_fields(GateOptions)}
    for each in reversed(option_fields(AlterOptions)):
        if each.name not in judged:
            flag = "--" + each.name.replace("_", "-")
            run = click.option(flag, each.name, metavar="TEXT", multiple=True, help=each.text)(run)
    return run


@command(
    "alter",
    plans=True,
    notes=_NOTES,
    examples="""
lakewright alter nyc.flights --add "cancelled BOOLEAN DEFAULT false AFTER dep_delay" --dry-run
lakewright alter nyc.flights --rename dep_delay:delay --type delay:BIGINT --drop tailnum
lakewright alter nyc.flights --type distance:INT --dry-run --scan --format json
lakewright alter nyc.flights --set snapshot.time-retained=7d --save-plan plan.json
""",
)
@_texts
@gate_options
def alter(
    call: Call,
    *,
    tables: tuple[Path, ...],
    sql: tuple[Path, ...],
    policy: tuple[Path, ...],
    **given: Any,
) -> Answer | None:
    """Change the schema: columns, members of rows, types, options."""
    # A plan holds findings of the time when it was made; its run judges the change again.
    check_one_of(plan=call.plan, dry_run=call.dry_run)
    verb = altering(workspace_of(tables, sql, policy))
    return run_verb(verb, call, call.table(), AlterOptions(**chosen(**given)), code_of=verdict_code)
