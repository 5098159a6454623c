"""`lakewright export-contract`: a table as a data contract."""

from __future__ import annotations

import sys

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.platform.tables.odcs import contract_of


@command(
    "export-contract",
    of_form=False,
    notes="""
The contract is YAML of the Open Data Contract Standard, version 3.1. `lakewright diff TABLE FILE`
compares a table with a contract. Both need the extra `contracts`: pip install
'lakewright[contracts]'.
""",
    examples="lakewright export-contract nyc.flights",
)
def export_contract(call: Call) -> None:
    """Print a table as a data contract."""
    import yaml

    table = call.table_of_any_type()
    contract = contract_of(table.name, table.uuid, table.schema)
    yaml.safe_dump(contract, sys.stdout, sort_keys=False, allow_unicode=True, width=100)
