"""Streams as assets: each run takes what is new, batch by batch, and ends."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import dagster as dg

from lakewright.assets.checks import check_results, check_specs
from lakewright.assets.following import Following
from lakewright.assets.hooks import AssetHooks, TableRun
from lakewright.assets.ingest_run import IngestRun, WriteConfig
from lakewright.platform.ingest.drain_stream import StreamDrain, is_drained_in_spark
from lakewright.platform.ingest.expectations import ExpectationOutcome, ValidationReport
from lakewright.platform.ingest.publication import Published, Rejected, totals_of
from lakewright.platform.orchestration.check_events import evaluated_before
from lakewright.platform.orchestration.failures import failures_for_dagster
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.reports import rejected_metadata
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import SparkResource, WarehouseResource
from lakewright.platform.orchestration.runs import runs_that_write
from lakewright.platform.orchestration.schema_reports import evaluate_schema
from lakewright.platform.orchestration.stream_reports import lag_specs
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.open_declared import check_rows_fit
from lakewright.platform.upkeep.words import counted
from lakewright.storage.spec.partition_words import describe_partition
from lakewright.storage.spec.stream import CommittedBatch

# So many partitions that are done stand in an event.
_MOST_DONE = 100


def build_stream_asset(
    declaration: TableDeclaration,
    names: TableNames,
    spec: dg.AssetSpec,
    keys: ResourceKeys,
    hooks: AssetHooks,
    *,
    file: str | None = None,
) -> dg.AssetsDefinition:
    """The asset of a table whose source is a stream.

    A run writes whatever is new, whichever partitions it is asked for. If nothing is, it reports an
    observation, so that nothing is made anew of the table.
    """

    def events(context: dg.AssetExecutionContext) -> Iterator[Any]:
        warehouse: WarehouseResource = getattr(context.resources, keys.warehouse)
        spark: SparkResource = getattr(context.resources, keys.spark)
        ingest = IngestRun(declaration, names, context, WriteConfig(), warehouse, spark)
        with failures_for_dagster():
            table, drift = ingest.open()
        refused = bool(drift.reasons)
        yield evaluate_schema(declaration, names, drift, file=file).event(names, blocking=refused)

        def tell(batch: CommittedBatch) -> None:
            """Tell the partitions of a batch at once: a run that dies later is not asked again."""
            context.log.info("%s: %s", declaration.table, _told(batch))
            if declaration.partition_keys:
                for each in ingest.found(table, totals_of(batch.partitions)):
                    context.log_event(each)

        drain = StreamDrain(
            declaration=declaration,
            table=table,
            session=spark.session,
            find_table=warehouse.catalog().table,
            catalog=warehouse.catalog(),
            tell=tell,
        )
        following = Following(context=context, drain=drain)
        try:
            with failures_for_dagster():
                if refused:
                    check_rows_fit(drift)
                outcome = following.run()
        except BaseException:
            if drain.batches:
                context.log_event(_so_far(ingest, following))
            raise
        if isinstance(outcome, Rejected):
            if drain.batches:
                context.log_event(_so_far(ingest, following))
            judged = ingest.judged_rows(outcome)
            yield from check_results(outcome, declaration, names, judged, ingest.check_history)
            raise _rejection(declaration, drain, outcome)
        tags, metadata = following.observe_source(names), _metadata(ingest, following, outcome)
        if drain.batches or context.has_partition_key or context.has_partition_key_range:
            yield dg.MaterializeResult(asset_key=names.asset_key, metadata=metadata, tags=tags)
        else:
            context.log_event(dg.AssetObservation(names.asset_key, metadata=metadata))
        outcome = replace(outcome, report=_of_all(declaration, outcome.report))
        judged = ingest.judged_rows(outcome)
        yield from check_results(outcome, declaration, names, judged, ingest.check_history)
        yield from following.lag_results()

    def told(context: dg.AssetExecutionContext) -> Iterator[Any]:
        try:
            yield from events(context)
        except Exception:
            yield from evaluated_before(context, names.asset_key)
            raise

    @dg.multi_asset(
        name=names.identifier,
        specs=[spec],
        check_specs=[*check_specs(declaration, names), *lag_specs(declaration, names)],
        backfill_policy=dg.BackfillPolicy.single_run() if spec.partitions_def else None,
        # With one place for the writers of a table, two runs of its stream never meet.
        pool=names.writers_pool,
        required_resource_keys={keys.warehouse, keys.spark},
        op_tags={"lakewright/engine": "spark" if is_drained_in_spark(declaration) else "local"},
    )
    def stream_asset(context: dg.AssetExecutionContext) -> Iterator[Any]:
        run = TableRun(declaration=declaration, events=lambda: told(context))
        yield from hooks.execute(context, run)

    return stream_asset


def _skipped(ingest: IngestRun, why: str) -> str:
    """Why a run leaves what is new to another process, which is named if it is known here."""
    context, names = ingest.context, ingest.names
    runs = runs_that_write(context.instance, names, [dg.DagsterRunStatus.STARTED])
    others = [f"run {run.run_id}" for run in runs if run.run_id != context.run.run_id]
    other = " and ".join(others) or "a process that this Dagster does not know"
    told = f"{other} runs the stream into {names.table}, and writes what this run leaves"
    context.log.warning("%s: %s", told, why)
    return told


def _so_far(ingest: IngestRun, following: Following) -> dg.AssetMaterialization:
    """The batches that a run committed before it failed."""
    metadata = _metadata(ingest, following, following.drain.published)
    return dg.AssetMaterialization(ingest.names.asset_key, metadata=metadata)


def _metadata(ingest: IngestRun, following: Following, outcome: Published) -> dict[str, Any]:
    drain = following.drain
    metadata = {**ingest.metadata(drain.table, outcome), **following.metadata()}
    metadata["lakewright/batches"] = len(drain.batches)
    if drain.columns_not_read:
        metadata["columns not read"] = ", ".join(drain.columns_not_read)
    if following.elsewhere:
        metadata["skipped"] = _skipped(ingest, following.elsewhere)
    if not drain.batches:
        return metadata
    last = drain.batches[-1]
    metadata["lakewright/stream"] = last.stream
    metadata["lakewright/last_batch"] = last.number
    if last.watermark is not None:
        metadata["lakewright/watermark"] = dg.MetadataValue.timestamp(last.watermark / 1000)
    done = dict.fromkeys(describe_partition(each) for one in drain.batches for each in one.done)
    metadata["lakewright/partitions_done"] = len(done)
    if done:
        metadata["partitions done"] = dg.MetadataValue.json([*done][:_MOST_DONE])
    return metadata


def _told(batch: CommittedBatch) -> str:
    rows = counted(batch.row_count, "row")
    partitions = counted(len(batch.partitions), "partition")
    return f"batch {batch.number}: {rows} in {partitions}, snapshot {batch.snapshot.id}"


def _of_all(declaration: TableDeclaration, report: ValidationReport) -> ValidationReport:
    """A result for each expectation; without a new batch nothing speaks against one."""
    judged = {outcome.check_name: outcome for outcome in report.outcomes}
    outcomes = [
        judged.get(expectation.check_name)
        or ExpectationOutcome(
            check_name=expectation.check_name,
            expectation=expectation.text,
            severity=expectation.severity,
            met=True,
            observed="no new rows",
            unexpected_by_partition={},
        )
        for expectation in declaration.expectations
    ]
    return replace(report, outcomes=tuple(outcomes))


def _rejection(declaration: TableDeclaration, drain: StreamDrain, outcome: Rejected) -> dg.Failure:
    """The failure of a run whose next batch does not meet a critical expectation."""
    reasons = "; ".join(each.summary for each in outcome.report.blocking)
    rows = outcome.report.row_count
    before = "no batch before it"
    if drain.batches:
        batches = counted(len(drain.batches), "batch")
        before = f"{batches} before it with {counted(drain.row_count, 'row')}"
    return dg.Failure(
        description=(
            f"the stream into {declaration.table} stopped at a batch of {counted(rows, 'row')} "
            f"with failing rows: {reasons}; the batch was not committed, its files "
            f"are deleted, and {before} is published; the next run repeats the batch: correct its "
            "rows at the source, or the expectation"
        ),
        metadata={
            **rejected_metadata(declaration.table, reasons),
            "lakewright/rows_rejected": rows,
            "lakewright/batches": len(drain.batches),
            "lakewright/rows_written": drain.row_count,
        },
        allow_retries=False,
    )
