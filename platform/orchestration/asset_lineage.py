"""Assets beside the declared tables: what Dagster knows of them by their last materialization.

A materialization names the assets that its step read, and, if the step told it, the upstream
columns of each column. That holds for assets of every code location of the instance.
"""

from __future__ import annotations

from dataclasses import replace

import dagster as dg

from lakewright.platform.orchestration.names import AssetKeys
from lakewright.platform.tables.column_lineage import Lineage, UpstreamColumn, column_lineage
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.workspace import OtherAsset, Workspace

_LINEAGE = "dagster/column_lineage"


def with_other_assets(
    workspace: Workspace, instance: dg.DagsterInstance, keys: AssetKeys
) -> Workspace:
    """The workspace with all other assets that were ever materialized."""
    declared = {keys.of(declaration.table) for declaration in workspace.declarations}
    found = []
    for record in instance.get_asset_records():
        entry = record.asset_entry
        last = entry.last_materialization
        if entry.asset_key in declared or last is None or last.asset_materialization is None:
            continue
        found.append(_other_asset(last.asset_materialization, keys))
    return replace(workspace, other_assets=tuple(sorted(found, key=lambda each: each.name)))


def _other_asset(materialization: dg.AssetMaterialization, keys: AssetKeys) -> OtherAsset:
    provenance = dg.DataProvenance.from_tags(materialization.tags or {})
    upstream = () if provenance is None else provenance.input_data_versions
    lineage = _lineage(materialization, keys)
    named = {each.table for ups in lineage.values() for each in ups}
    return OtherAsset(
        name=keys.table(materialization.asset_key),
        upstream=tuple(sorted({*map(keys.table, upstream), *named})),
        lineage=lineage,
    )


def _lineage(materialization: dg.AssetMaterialization, keys: AssetKeys) -> Lineage:
    told = materialization.metadata.get(_LINEAGE)
    if not isinstance(told, dg.TableColumnLineageMetadataValue):
        return {}
    return {
        column: tuple(
            UpstreamColumn(keys.table(each.asset_key), each.column_name) for each in upstream
        )
        for column, upstream in told.value.deps_by_column.items()
    }


def lineage_metadata(
    declaration: TableDeclaration, keys: AssetKeys
) -> dict[str, dg.TableColumnLineage]:
    """The column lineage of a declaration, as Dagster shows it; empty without one."""
    lineage = column_lineage(declaration)
    if not lineage:
        return {}
    deps = {
        column: [
            dg.TableColumnDep(asset_key=keys.of(each.table), column_name=each.column)
            for each in upstream
        ]
        for column, upstream in lineage.items()
    }
    return {_LINEAGE: dg.TableColumnLineage(deps_by_column=deps)}
