"""`lakewright report`: the state and the upkeep of a warehouse as one HTML page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer, said
from lakewright.cli.upkeep.gate import workspace_of
from lakewright.cli.upkeep.policies import policies_in_force, policy_options
from lakewright.platform.upkeep.words import size_text
from lakewright.storage.errors import InvalidRequestError


@command(
    "report",
    of_table=False,
    notes="""
The page has the state of the tables, debt over time, what upkeep cost and saved beside what was
predicted, what is deferred and why, and a section for each table. It needs no other file and no
network, so it can be sent and kept. Its plots need the extra `report`. It changes nothing in the
warehouse.
""",
    examples="""
lakewright report --policy policy.yaml
lakewright report s3://lake/warehouse --output monday.html
""",
)
@click.argument("uri", required=False)
@policy_options()
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("report.html"),
    show_default=True,
    help="The file to write.",
)
def report(
    call: Call,
    *,
    uri: str | None,
    policy: tuple[Path, ...],
    tables: tuple[Path, ...],
    output: Path,
) -> Answer:
    """Write the state and the upkeep of a warehouse as one HTML page."""
    from lakewright.platform.decide.kept_tables import KeptTables
    from lakewright.platform.decide.report import warehouse_report

    call = call if uri is None else replace(call, warehouse=uri)
    workspace = workspace_of(tables, ())
    files = policies_in_force(policy, workspace)
    kept = KeptTables(files=files, adopted=("*",))
    made = warehouse_report(call.catalog().read_only(), kept)
    page = made.encode("utf-8", "replace")
    try:
        output.write_bytes(page)
    except OSError as error:
        raise InvalidRequestError(f"{output} cannot be written: {error.strerror}") from error
    return said(f"wrote {output}, {size_text(len(page))}", file=str(output), bytes=len(page))
