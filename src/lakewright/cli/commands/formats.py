"""`lakewright formats`: what there is, who brings it, and its options."""

from __future__ import annotations

import click

from lakewright.cli.commands.connectors import answer
from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer


@command("formats", of_table=False, examples="lakewright formats\nlakewright formats csv")
@click.argument("name", metavar="[NAME]", required=False)
def formats(_: Call, *, name: str | None) -> Answer:
    """List the formats of connectors, or the options of one."""
    from lakewright.connectors.registry import FORMAT_GROUP

    return answer(FORMAT_GROUP, name)
