"""`lakewright alter`: columns, types and options of a table; one schema file is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer
from lakewright.cli.upkeep.verbs import run_verb
from lakewright.platform.upkeep.alter import ALTER, AlterOptions
from lakewright.platform.upkeep.verb import option_fields

_NOTES = """
Each option may be repeated. Kinds apply in the order above: a column is dropped before
another is added under its name, and --type and what follows name columns as they are
called after the renames. A path such as r.c names member c of row r; arrays have
`element`, maps have `value`; names with dots stand in backticks.
"""


def _texts(run: Callable[..., Answer | None]) -> Callable[..., Answer | None]:
    """An option of texts for each kind of change."""
    for each in reversed(option_fields(AlterOptions)):
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
lakewright alter nyc.flights --set snapshot.time-retained=7d --save-plan plan.json
""",
)
@_texts
def alter(call: Call, **texts: Any) -> Answer | None:
    """Change the schema: columns, members of rows, types, options."""
    return run_verb(ALTER, call, call.table(), AlterOptions(**texts))
