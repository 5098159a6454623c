"""The rejects of a table as an asset under the table's own: the bad rows that runs left out."""

from __future__ import annotations

import dagster as dg

from lakewright.platform.ingest.rejects import REJECTS_COLUMNS
from lakewright.platform.orchestration.names import UpkeepNames
from lakewright.platform.orchestration.rejects_reports import rejects_key
from lakewright.platform.orchestration.reports import (
    STORAGE_KIND,
    column_schema,
)
from lakewright.platform.orchestration.upkeep_links import upkeep_links
from lakewright.platform.policies.policies import ResolvedPolicy
from lakewright.platform.tables.declarations import TableDeclaration, rejects_name
from lakewright.storage.spec.data_types import parse_data_type


def rejects_spec(
    declaration: TableDeclaration,
    spec: dg.AssetSpec,
    resolved: ResolvedPolicy,
    names: UpkeepNames,
    *,
    location: str | None = None,
) -> dg.AssetSpec:
    """The asset of the rejects of a declared table, whose own spec is given."""
    table = declaration.table
    references = {k: v for k, v in spec.metadata.items() if k == "dagster/code_references"}
    by = f"`{resolved.layers[-1].file}`" if resolved.layers else "the defaults of policies"
    return dg.AssetSpec(
        key=rejects_key(spec.key),
        deps=[dg.AssetDep(spec.key)],
        description=(
            f"Rows that runs of `{table}` left out (`on_bad_row: quarantine`), each with its "
            f"reason and state. `lakewright replay-rejects {table}` reads the open ones again and "
            f"appends those that fit.\n\nKept by {by}, mode {resolved.policy.mode.value}, as "
            "`lakewright upkeep` keeps it."
        ),
        group_name=spec.group_name,
        owners=list(spec.owners),
        kinds={STORAGE_KIND},
        metadata={
            "dagster/table_name": rejects_name(table),
            "dagster/storage_kind": STORAGE_KIND,
            "dagster/column_schema": column_schema(
                (
                    (name, parse_data_type(kind), comment)
                    for name, (kind, comment) in REJECTS_COLUMNS.items()
                ),
                primary_keys=("id",),
            ),
            **upkeep_links(names, location),
            **references,
        },
    )
