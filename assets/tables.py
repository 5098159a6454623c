"""Tables as assets: one declaration becomes one asset with its partitions and checks."""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

from lakewright.assets.checks import check_results, check_specs, results_of_earlier_try
from lakewright.assets.hooks import AssetHooks, PlainHooks, TableRun
from lakewright.assets.ingest_run import IngestRun, WriteConfig, partial_rejection, rejection
from lakewright.assets.stored_rows_check import stored_rows_after_failure
from lakewright.assets.streams import build_stream_asset
from lakewright.platform.documents.yaml_files import WrittenText
from lakewright.platform.ingest.drain_stream import is_drained_in_spark
from lakewright.platform.ingest.publication import AlreadyPublished, Published, Rejected
from lakewright.platform.ingest.sources import source_text
from lakewright.platform.ledger.kept_verbs import VALIDATE_SCHEMA
from lakewright.platform.orchestration.asset_lineage import lineage_metadata
from lakewright.platform.orchestration.asset_partitions import partition_mapping, partitions_def
from lakewright.platform.orchestration.check_events import evaluated_before
from lakewright.platform.orchestration.failures import failures_for_dagster
from lakewright.platform.orchestration.names import (
    AssetKeys,
    TableNames,
    UpkeepNames,
    usual_key,
)
from lakewright.platform.orchestration.refresh import (
    automation_condition,
    backfill_policy,
    freshness_policy,
)
from lakewright.platform.orchestration.reports import (
    STORAGE_KIND,
    code_reference,
    column_schema,
)
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import SparkResource, WarehouseResource
from lakewright.platform.orchestration.schema_reports import EVOLVE, evaluate_schema
from lakewright.platform.orchestration.stream_reports import source_key
from lakewright.platform.orchestration.upkeep_links import upkeep_links
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.open_declared import check_rows_fit
from lakewright.platform.tables.query_declarations import follows_partitions
from lakewright.platform.tables.workspace import Workspace
from lakewright.platform.upkeep.engines import prefers_spark
from lakewright.storage.spec.data_types import parse_data_type


def build_asset(
    declaration: TableDeclaration,
    spec: dg.AssetSpec,
    names: TableNames,
    *,
    file: str | None = None,
    resources: ResourceKeys | None = None,
    hooks: AssetHooks | None = None,
) -> dg.AssetsDefinition:
    """The asset of a declaration in a file; a table without a source has other writers.

    `spec` is that of `derived_spec`, as the hooks have made it. What it depends on gets the keys
    that the hooks gave to other tables.
    """
    keys, hooks = resources or ResourceKeys(), hooks or PlainHooks()
    spec = _with_keys(spec, declaration, names.keys)
    if not declaration.is_written_here:
        return dg.AssetsDefinition(specs=[spec])
    if declaration.is_stream:
        return build_stream_asset(declaration, names, spec, keys, hooks, file=file)

    @dg.multi_asset(
        name=names.identifier,
        specs=[spec],
        check_specs=check_specs(declaration, names),
        backfill_policy=backfill_policy(declaration.backfill) if spec.partitions_def else None,
        pool=names.writers_pool,
        required_resource_keys={keys.warehouse, keys.spark},
        op_tags={"lakewright/engine": declaration.write.engine.value},
    )
    def table_asset(context: dg.AssetExecutionContext, config: WriteConfig) -> Iterator[Any]:
        warehouse: WarehouseResource = getattr(context.resources, keys.warehouse)
        spark: SparkResource = getattr(context.resources, keys.spark)
        ingest = IngestRun(declaration, names, context, config, warehouse, spark)
        yield from hooks.execute(
            context, TableRun(declaration=declaration, events=lambda: _events(ingest, file))
        )

    return table_asset


def _events(ingest: IngestRun, file: str | None) -> Iterator[Any]:
    try:
        yield from _events_of_write(ingest, file)
    except Exception as error:
        yield from stored_rows_after_failure(
            ingest.declaration,
            ingest.names,
            ingest.context,
            ingest.warehouse,
            ingest.spark,
            error,
        )
        yield from evaluated_before(ingest.context, ingest.names.asset_key)
        raise


def _events_of_write(ingest: IngestRun, file: str | None) -> Iterator[Any]:
    declaration, names = ingest.declaration, ingest.names
    with failures_for_dagster():
        table, drift = ingest.open()
        refused = ingest.is_refused(table, drift)
    yield evaluate_schema(declaration, names, drift, file=file).event(names, blocking=refused)
    with failures_for_dagster():
        if refused:
            check_rows_fit(drift)
        outcome, now = ingest.run(table), drift
        if declaration.grows:
            table, now = ingest.open()
    if now.schema_id != drift.schema_id:
        yield evaluate_schema(declaration, names, now, file=file).event(names)
    judged, histories = ingest.judged_rows(outcome), ingest.check_history
    if isinstance(outcome, Rejected):
        yield from check_results(outcome, declaration, names, judged, histories)
        raise rejection(declaration, outcome)
    if isinstance(outcome, Published) and outcome.rejected:
        yield from ingest.others(table, outcome)
        yield from check_results(outcome, declaration, names, judged, histories)
        raise partial_rejection(declaration, outcome)
    ingest.report_partitions(table, outcome)
    yield dg.MaterializeResult(asset_key=names.asset_key, metadata=ingest.metadata(table, outcome))
    if isinstance(outcome, AlreadyPublished):
        yield from results_of_earlier_try(declaration, names, judged, histories)
    else:
        yield from check_results(outcome, declaration, names, judged, histories)


def derived_spec(
    declaration: TableDeclaration,
    workspace: Workspace,
    upkeep: UpkeepNames,
    adopted: Mapping[str, dg.AssetSpec],
    *,
    location: str | None = None,
) -> dg.AssetSpec:
    """The spec of a declared table, with the keys that are made of the tables' names.

    The workspace has the declarations of the tables that it is made of, whose partitions its own
    depend on, and tells where each is written; of undeclared ones, `adopted` has the specs. With
    the code location's name, jobs are links.
    """
    keys = AssetKeys()
    metadata: dict[str, Any] = {
        "dagster/table_name": declaration.table,
        "dagster/storage_kind": STORAGE_KIND,
        "lakewright/small_files_policy": declaration.maintenance.compaction.small_files,
        **upkeep_links(upkeep, location, (VALIDATE_SCHEMA, EVOLVE)),
        **lineage_metadata(declaration, keys),
        **_code_references(workspace.written.get(declaration.table)),
    }
    if declaration.columns:
        metadata["dagster/column_schema"] = column_schema(
            (
                (column.name, parse_data_type(column.type), column.comment)
                for column in declaration.columns
            ),
            partition_keys=declaration.partition_keys,
            primary_keys=declaration.primary_key,
        )
    kinds = {STORAGE_KIND, *declaration.kinds}
    if declaration.source is not None:
        metadata["lakewright/source"] = source_text(declaration.source)
        metadata["lakewright/write_mode"] = declaration.write_kind.value
        engine = declaration.write.engine
        in_spark = (
            is_drained_in_spark(declaration) if declaration.is_stream else prefers_spark(engine)
        )
        kinds.add("spark" if in_spark else "arrow")
    source = source_key(declaration, TableNames(declaration.table))
    freshness = declaration.freshness
    if freshness is not None and freshness.within and declaration.continuous_ms is not None:
        # Dagster would call the table of an idle source stale; the check `lag` asks the source.
        freshness = None
    # A sensor asks for streams: Dagster's conditions know runs for partitions only.
    automation = None if declaration.is_stream else declaration.automation
    return dg.AssetSpec(
        key=keys.of(declaration.table),
        deps=[
            *(
                _dependency(upstream, declaration, workspace, adopted)
                for upstream in declaration.upstream
            ),
            *([] if source is None else [dg.AssetDep(source)]),
        ],
        description=declaration.description or declaration.comment or None,
        owners=declaration.owners,
        automation_condition=None if automation is None else automation_condition(automation),
        freshness_policy=None if freshness is None else freshness_policy(freshness),
        group_name=declaration.group or TableNames(declaration.database).identifier,
        tags=dict(declaration.tags),
        kinds=kinds,
        metadata=metadata,
        partitions_def=_partitions(declaration),
        # A run that finds nothing new changes nothing.
        skippable=declaration.is_stream,
    )


def _with_keys(spec: dg.AssetSpec, declaration: TableDeclaration, keys: AssetKeys) -> dg.AssetSpec:
    """The spec with the keys of the tables that it is made of, in place of their usual ones."""
    moved = {
        usual_key(each): keys.of(each)
        for each in declaration.upstream
        if keys.of(each) != usual_key(each)
    }
    if not moved:
        return spec
    deps = [
        dg.AssetDep(moved[each.asset_key], partition_mapping=each.partition_mapping)
        if each.asset_key in moved
        else each
        for each in spec.deps
    ]
    metadata = dict(spec.metadata)
    metadata |= {
        name: told for name, told in lineage_metadata(declaration, keys).items() if name in metadata
    }
    return spec.replace_attributes(deps=deps, metadata=metadata)


def _code_references(written: WrittenText | None) -> dict[str, Any]:
    """The line where a declaration begins."""
    if written is None:
        return {}
    return dict(code_reference(written.file, written.line_of(("table",))))


def _partitions(declaration: TableDeclaration) -> dg.PartitionsDefinition[str] | None:
    if not declaration.columns:
        return None
    return partitions_def(declaration.scheme, TableNames(declaration.table))


def _dependency(
    upstream: str,
    declaration: TableDeclaration,
    workspace: Workspace,
    adopted: Mapping[str, dg.AssetSpec],
) -> dg.AssetDep:
    declared, other = workspace.declaration(upstream), adopted.get(upstream)
    above = None
    if declared is not None:
        above = _partitions(declared)
    elif other is not None:
        above = other.partitions_def
    below = _partitions(declaration)
    mapping = partition_mapping(above, below)
    has_both = above is not None and below is not None
    if declared is not None and has_both and not follows_partitions(declaration, declared):
        # A query that does not carry the partition column may read any partition of a table.
        mapping = dg.AllPartitionMapping()
    return dg.AssetDep(usual_key(upstream), partition_mapping=mapping)
