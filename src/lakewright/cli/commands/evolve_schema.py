"""`lakewright evolve-schema`: a table as its declaration has it; one schema file is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lakewright.cli.grammar.call import Call, check_one_of
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer
from lakewright.cli.upkeep.gate import GATE_NOTES, chosen, gate_options, workspace_of
from lakewright.cli.upkeep.verbs import run_verb
from lakewright.platform.declare.declarations import OnDestructive
from lakewright.platform.declare.variables import TABLES_VARIABLE
from lakewright.platform.upkeep.evolve import EvolveOptions, evolution_to
from lakewright.platform.upkeep.findings import verdict_code
from lakewright.storage.errors import InvalidRequestError


@command(
    "evolve-schema",
    plans=True,
    notes=f"""
The job evolve_schema does the same. Changes by which stored values may be lost follow
schema.on_destructive of the declaration: plan leaves them to a person, and says the calls of
`lakewright alter` that make them. A change of the partition keys is left to `lakewright respec`.
{GATE_NOTES}""",
    examples="""
lakewright evolve-schema nyc.flights --tables tables --dry-run
lakewright evolve-schema nyc.flights --tables tables --on-destructive allow --format json
""",
)
@click.option(
    "--on-destructive",
    type=click.Choice([each.value for each in OnDestructive]),
    help="What becomes of changes by which stored values may be lost (default: the declaration's).",
)
@gate_options
def evolve_schema(
    call: Call,
    *,
    on_destructive: str | None,
    tables: tuple[Path, ...],
    sql: tuple[Path, ...],
    policy: tuple[Path, ...],
    **given: Any,
) -> Answer | None:
    """Change the schema of a table to its declaration."""
    # A plan holds findings of the time when it was made; its run judges the change again.
    check_one_of(plan=call.plan, dry_run=call.dry_run)
    workspace = workspace_of(tables, sql, policy)
    table = call.table()
    declaration = workspace.declaration(table.name)
    if declaration is None or not declaration.columns:
        raise InvalidRequestError(
            f"no declaration of {table.name} with columns was found; name its file with --tables "
            f"or ${TABLES_VARIABLE}, or name the changes with `lakewright alter {table.name}`",
            table=table.name,
        )
    policy_of = declaration.schema_policy.on_destructive
    return run_verb(
        evolution_to(declaration, workspace),
        call,
        table,
        EvolveOptions(
            on_destructive=policy_of if on_destructive is None else OnDestructive(on_destructive),
            **chosen(**given),
        ),
        code_of=lambda plan: verdict_code(plan.now),
    )
