"""`lakewright connectors`: what there is, who brings it, and its options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer
from lakewright.cli.output.tables import Block, TextColumn, TextTable

if TYPE_CHECKING:
    from lakewright.connectors.listing import Listed


@command(
    "connectors",
    of_table=False,
    examples="lakewright connectors\nlakewright connectors jdbc",
)
@click.argument("name", metavar="[NAME]", required=False)
def connectors(_: Call, *, name: str | None) -> Answer:
    """List the connectors of external tables, or the options of one."""
    from lakewright.connectors.registry import CONNECTORS

    return answer(CONNECTORS, name)


def answer(group: str, name: str | None) -> Answer:
    """What there is in a group, or the options of one of it."""
    from lakewright.connectors.listing import listed, one

    if name is not None:
        found = one(group, name)
        return Answer(text=lambda: _options(found), value=lambda: _record(found))
    every = listed(group)
    return Answer(text=lambda: _table(every), value=lambda: [_record(each) for each in every])


def _table(every: list[Listed]) -> list[Block]:
    columns = [TextColumn(each) for each in ("name", "does", "brought by", "what it is")]
    rows = [
        [each.identifier, ", ".join(each.roles) or "-", each.distribution, each.description]
        for each in every
    ]
    return [TextTable(columns, [list(row) for row in rows])]


def _options(found: Listed) -> list[Block]:
    columns = [TextColumn(each) for each in ("option", "kind", "default", "what it says")]
    rows = [
        [
            each.name,
            each.kind.value,
            "required" if is_required else "-" if each.default is None else str(each.default),
            each.description,
        ]
        for each, is_required in found.options
    ]
    head = f"{found.identifier}: {', '.join(found.roles)}; {found.description}"
    return [head, TextTable(columns, [list(row) for row in rows])] if rows else [head]


def _record(found: Listed) -> dict[str, Any]:
    return {
        "name": found.identifier,
        "roles": list(found.roles),
        "distribution": found.distribution,
        "description": found.description,
        "options": [
            {
                "name": each.name,
                "kind": each.kind.value,
                "required": is_required,
                "default": each.default,
                "description": each.description,
            }
            for each, is_required in found.options
        ],
    }
