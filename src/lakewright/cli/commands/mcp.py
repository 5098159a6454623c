"""`lakewright mcp`: answers agents about the warehouse over the Model Context Protocol."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.upkeep.gate import workspace_of
from lakewright.cli.upkeep.policies import policies_of, policy_options
from lakewright.storage.extras import needed_for


@command(
    "mcp",
    of_table=False,
    of_form=False,
    notes="""
Speaks the Model Context Protocol on standard input and output, until the input ends. It needs the
extra `mcp`: pip install 'lakewright[mcp]'. The tools are health, why, policy, verbs, plan, ledger
and savings. None of them changes anything: the warehouse is opened so that every write is refused.
""",
    examples="""
lakewright mcp ./warehouse --policy warehouse.yaml
lakewright mcp s3://lake/warehouse
""",
)
@click.argument("uri", required=False)
@policy_options()
def mcp(call: Call, *, uri: str | None, policy: tuple[Path, ...], tables: tuple[Path, ...]) -> None:
    """Answer agents about the warehouse; nothing can be changed."""
    from lakewright.cli.mcp.warehouse_tools import WarehouseTools

    with needed_for("lakewright mcp"):
        from lakewright.cli.mcp.server import server_of

    call = call if uri is None else replace(call, warehouse=uri)
    workspace = workspace_of(tables, ())
    # Wrong files are told at once, and not as the answer to each question.
    policies_of(policy, workspace)
    server = server_of(WarehouseTools(call.catalog().read_only(), policy, workspace))
    try:
        server.run()
    except BaseExceptionGroup as group:
        # The agent has ended while an answer was on its way.
        if group.split(BrokenPipeError)[1] is None:
            raise BrokenPipeError from group
        raise
