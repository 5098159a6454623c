"""`lakewright evolve-schema`: a table as its declaration has it; one schema file is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakewright.cli.grammar.call import Call, check_one_of
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer
from lakewright.cli.upkeep.gate import GATE_NOTES, workspace_of, workspace_options
from lakewright.cli.upkeep.parameters import options_of, read_options
from lakewright.cli.upkeep.verbs import run_verb
from lakewright.platform.documents.variables import TABLES_VARIABLE
from lakewright.platform.upkeep.alter import TEXTS
from lakewright.platform.upkeep.evolve import EvolveOptions, evolution_to
from lakewright.storage.errors import InvalidRequestError


@command(
    "evolve-schema",
    plans=True,
    notes=f"""
The verb evolve_schema of the job upkeep does the same. Changes that may lose stored values follow
schema.on_destructive of the declaration: plan leaves them to a person, and says the calls of
`lakewright alter` that make them. A change of the partition keys is left to `lakewright respec`.
While such changes wait, the exit code is 1, also after a run.
{GATE_NOTES}""",
    examples="""
lakewright evolve-schema nyc.flights --tables tables --dry-run
lakewright evolve-schema nyc.flights --tables tables --on-destructive allow --format json
""",
)
@options_of(EvolveOptions, without=TEXTS)
@workspace_options
def evolve_schema(
    call: Call,
    *,
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
            f"or ${TABLES_VARIABLE}, or name the changes with `lakewright alter {table.name}`"
        )
    verb = evolution_to(declaration, workspace)
    return run_verb(verb, call, table, read_options(EvolveOptions, given, table))
