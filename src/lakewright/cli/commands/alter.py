"""`lakewright alter`: columns, types and options of a table; one schema file is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakewright.cli.grammar.call import Call, check_one_of
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer
from lakewright.cli.upkeep.gate import GATE_NOTES, workspace_of, workspace_options
from lakewright.cli.upkeep.parameters import options_of, read_options
from lakewright.cli.upkeep.verbs import run_verb
from lakewright.platform.upkeep.alter import AlterOptions, altering

_NOTES = f"""
Each option of a change may be repeated. Kinds apply in the order above: a column is dropped
before another is added under its name, and --type and what follows name columns as they are
called after the renames. A path such as r.c names member c of row r; arrays have
`element`, maps have `value`; names with dots stand in backticks.
{GATE_NOTES}"""


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
@options_of(AlterOptions)
@workspace_options
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
    verb, table = altering(workspace_of(tables, sql, policy)), call.table()
    return run_verb(verb, call, table, read_options(AlterOptions, given, table))
