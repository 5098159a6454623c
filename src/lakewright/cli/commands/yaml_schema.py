"""`lakewright yaml-schema`: the JSON Schema of declarations or policies."""

from __future__ import annotations

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import print_json
from lakewright.platform.documents.document_kinds import DocumentKind

_KINDS = {"declarations": DocumentKind.DECLARATIONS, "policies": DocumentKind.POLICY}


@command(
    "yaml-schema",
    of_table=False,
    of_form=False,
    notes="""
An editor completes and checks keys if a file begins with the line
  # yaml-language-server: $schema=policies.schema.json
`lakewright check` finds more: values that contradict each other, schedules, time zones.
""",
    examples="""
lakewright yaml-schema policies > policies.schema.json
lakewright yaml-schema declarations > tables.schema.json
""",
)
@click.argument("kind", metavar="declarations|policies", type=click.Choice(list(_KINDS)))
def yaml_schema(_: Call, *, kind: str) -> None:
    """Print the JSON Schema of files of declarations or policies, for editors."""
    from lakewright.platform.policies.json_schema import json_schema_of

    print_json(json_schema_of(_KINDS[kind]))
