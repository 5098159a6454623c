"""`lakewright backfill`: write many partitions of a table from its source, in one run."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakewright.cli.exit_codes import CONFLICT
from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.options import FROM_1
from lakewright.cli.grammar.values import names
from lakewright.cli.output.answers import Answer
from lakewright.cli.output.tables import Block, TextColumn, TextTable
from lakewright.cli.upkeep.project_paths import tables_option
from lakewright.platform.documents.variables import TABLES_VARIABLE
from lakewright.platform.ingest.inferred_columns import with_columns_of_source
from lakewright.platform.tables.declarations import WriteKind
from lakewright.platform.tables.project_modules import find_modules
from lakewright.platform.tables.workspace import read_right
from lakewright.platform.upkeep.where_notes import WHERE_NOTES
from lakewright.storage.errors import InvalidRequestError, NotFoundError

if TYPE_CHECKING:
    import dagster as dg

    from lakewright.platform.tables.declarations import TableDeclaration

_HOME = "DAGSTER_HOME"


@command(
    "backfill",
    notes=f"""
It is the job `backfill` of Dagster, run by this process. With ${_HOME} its run, and each partition
that it writes, show in that Dagster; without it, only the table knows.
Keys are those of the asset: 2013-01-03 of a partition by time, a value of a static one,
region=eu/hour=7 of several columns whose values are found in the data (of one column, the value),
and 2013-01-03|eu of two that are crossed. Partitions found in the data are known once a run has
written them: without a choice of partitions, all of the source of such a table is written, and so
is a table without partitions; of a stream, what is new.
{WHERE_NOTES}

Exit codes:
  0    all chosen partitions are published; rows that were left out as bad are counted
  2    nothing is published: the request is wrong, or rows of a table without partitions do not fit
  5    some partitions, or all, are not published, each with its reason
Others are those of `lakewright --help`.
""",
    examples="""
lakewright backfill nyc.flights --tables tables --missing --dry-run
lakewright backfill nyc.flights --tables tables --partitions 2013-01-03,2013-02-07
lakewright backfill web.visits --tables tables --partitions region=eu/hour=7
lakewright backfill nyc.flights --tables tables --where "dt >= '2013-06-01'" --batch 30
lakewright backfill nyc.flights --tables tables --failed
""",
)
@click.option(
    "--partitions", metavar="KEY,KEY", type=names, help="These partitions, by keys as above."
)
@click.option(
    "--where", metavar="EXPR", help="Only partitions that match this filter on their keys."
)
@click.option("--missing", is_flag=True, help="Only partitions that the table lacks.")
@click.option("--failed", is_flag=True, help=f"Only those that failed last, as ${_HOME} knows.")
@click.option(
    "--batch",
    metavar="N",
    type=FROM_1,
    help="How many to read and publish at a time (default: as `backfill` is declared).",
)
@click.option(
    "--mode",
    type=click.Choice([each.value for each in WriteKind]),
    help="What happens to existing rows (default: as declared).",
)
@click.option("--allow-empty", is_flag=True, help="Accept partitions without rows.")
@tables_option("The declarations")
@click.option("--dry-run", is_flag=True, help="Print the partitions; write nothing.")
def backfill(
    call: Call,
    *,
    partitions: list[str] | None,
    where: str | None,
    missing: bool,
    failed: bool,
    batch: int | None,
    mode: str | None,
    allow_empty: bool,
    tables: tuple[Path, ...],
) -> Answer:
    """Write partitions of a table from its source, wherever they lie."""
    from lakewright.assets.backfill import can_be_backfilled, partitions_per_batch
    from lakewright.assets.ingest_run import fitting_kind
    from lakewright.platform.orchestration.partition_choice import (
        PartitionChoice,
        chosen_partitions,
    )
    from lakewright.storage import Catalog

    find_modules(tables)
    declaration = _declared(call.table_name, tables)
    if not can_be_backfilled(declaration):
        chooses = partitions or where or missing or failed or batch
        if chooses or not (declaration.is_written_here and declaration.columns):
            raise InvalidRequestError(
                f"{declaration.table} is not written by partition: it has no source, no columns, "
                "or no partition keys in its declaration, or its source is a stream; without a "
                "choice of partitions, all that its source gives is written"
            )
        if call.dry_run:
            return _planned((), 0, writes_all=True)
        write: dict[str, object] = {"mode": mode} if mode else {}
        with _instance() as instance:
            return _run_whole(call, declaration, tables, instance, write)
    fitting_kind(declaration, None if mode is None else WriteKind(mode))
    if failed and not os.environ.get(_HOME):
        raise InvalidRequestError(
            f"--failed asks Dagster which partitions failed; set {_HOME} to its folder"
        )
    keys = tuple(partitions or ())
    choice = PartitionChoice(keys=keys, where=where, missing=missing, failed=failed)
    writes_all = choice.is_empty and declaration.scheme.is_found_in_data
    with _instance() as instance:
        catalog = Catalog.open(call.warehouse)
        chosen = () if writes_all else chosen_partitions(choice, declaration, catalog, instance)
        size = partitions_per_batch(declaration, batch) or len(chosen)
        if call.dry_run or not (chosen or writes_all):
            return _planned(chosen, size, writes_all=writes_all)
        config: dict[str, object] = {"partitions": list(chosen)}
        config |= {} if writes_all else {"batch": size}
        config |= {"mode": mode} if mode else {}
        config |= {"allow_empty": True} if allow_empty else {}
        return _run(call, declaration, tables, instance, config)


def _declared(table: str, tables: Sequence[Path]) -> TableDeclaration:
    workspace = read_right(tables, infer=with_columns_of_source)
    if not tables:
        raise NotFoundError(
            f"{table} is not declared; name its file or folder with --tables or ${TABLES_VARIABLE}"
        )
    found = workspace.declared(table, tables)
    for each in workspace.problems:
        sys.stderr.write(f"lakewright: warning: another declaration is wrong: {each}\n")
    return found


@contextmanager
def _instance() -> Iterator[dg.DagsterInstance]:
    """The Dagster that the variable names, or one that forgets."""
    import dagster as dg

    home = os.environ.get(_HOME)
    if home:
        if not Path(home).is_absolute() or not Path(home).is_dir():
            raise InvalidRequestError(
                f"${_HOME} is {home}, and no folder is there; make it, give its whole path, or "
                f"unset ${_HOME} to write without a Dagster that remembers"
            )
        with dg.DagsterInstance.get() as instance:
            yield instance
    else:
        with dg.DagsterInstance.ephemeral() as instance:
            yield instance


def _run(
    call: Call,
    declaration: TableDeclaration,
    tables: Sequence[Path],
    instance: dg.DagsterInstance,
    config: dict[str, object],
) -> Answer:
    import dagster as dg

    from lakewright.assets.backfill import OUTCOME
    from lakewright.definitions import build_definitions
    from lakewright.platform.orchestration.resources import WarehouseResource
    from lakewright.platform.orchestration.run_process import PROCESS_TAG, process_identity

    warehouse = WarehouseResource(uri=call.warehouse)
    with warnings.catch_warnings():
        # Marks of Dagster's own, which a caller of the command can do nothing about.
        warnings.simplefilter("ignore", dg.BetaWarning)
        job = build_definitions(tables, warehouse=warehouse).resolve_job_def("backfill")
        result = job.execute_in_process(
            instance=instance,
            # Else a command that was killed would leave a run that never ends, and a busy table.
            tags={PROCESS_TAG: process_identity(os.getpid())},
            run_config={
                "ops": {"backfill": {"config": {"tables": {declaration.table: config}}}},
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
            },
            raise_on_error=False,
        )
    metadata: dict[str, object] = {}
    error = ""
    for event in result.all_events:
        if event.event_type is dg.DagsterEventType.STEP_FAILURE:
            data = event.step_failure_data
            failure = data.user_failure_data
            error = "" if data.error is None else data.error.message
            if failure is not None:
                error, metadata = str(failure.description), dict(failure.metadata)
        elif event.event_type is dg.DagsterEventType.STEP_OUTPUT:
            metadata = dict(event.step_output_data.metadata)
    found, outcome = metadata.get(declaration.table), metadata.get(OUTCOME)
    if not isinstance(found, dg.TableMetadataValue) or not isinstance(
        outcome, dg.TextMetadataValue
    ):
        raise InvalidRequestError(error)
    records = [dict(record.data) for record in found.records]
    told = outcome.text or ""
    if not result.success:
        told += f"; {_way_on()}"
    return Answer(
        text=lambda: [TextTable(_COLUMNS, _lines(records)), told, f"run: {result.run_id}"],
        value=lambda: {
            "run": result.run_id,
            "failure": None if result.success else told,
            "partitions": records,
        },
        records=lambda: records,
        code=0 if result.success else CONFLICT,
    )


def _run_whole(
    call: Call,
    declaration: TableDeclaration,
    tables: Sequence[Path],
    instance: dg.DagsterInstance,
    write: dict[str, object],
) -> Answer:
    """Run the asset of a table that has no partitions, or whose source is a stream."""
    import dagster as dg

    from lakewright.definitions import build_definitions
    from lakewright.platform.orchestration.names import TableNames
    from lakewright.platform.orchestration.resources import WarehouseResource
    from lakewright.platform.orchestration.run_process import PROCESS_TAG, process_identity
    from lakewright.platform.upkeep.words import counted

    names = TableNames(declaration.table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        found = build_definitions(tables, warehouse=WarehouseResource(uri=call.warehouse))
        own = [each for each in found.assets or () if isinstance(each, dg.AssetsDefinition)]
        config = {"ops": {names.identifier: {"config": write}}} if write else {}
        result = dg.materialize(
            own,
            resources=found.resources,
            selection=[names.asset_key],
            instance=instance,
            tags={PROCESS_TAG: process_identity(os.getpid())},
            run_config={
                **config,
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
            },
            raise_on_error=False,
        )
    if not result.success:
        raise InvalidRequestError(_failure_of(result))
    written = [
        event.materialization.metadata
        for event in result.get_asset_materialization_events()
        if event.asset_key == names.asset_key
    ]
    rows = sum(_number(each.get("lakewright/rows_written")) for each in written)
    left_out = sum(_number(each.get("lakewright/rows_left_out")) for each in written)
    missing = [str(each["missing_columns"].value) for each in written if "missing_columns" in each]
    told = f"{counted(rows, 'row')} written into {declaration.table}"
    if left_out:
        told = f"{told}; {counted(left_out, 'bad row')} left out"
    told = told if written else "nothing new was there"
    return Answer(
        text=lambda: [told, *missing, f"run: {result.run_id}"],
        value=lambda: {"run": result.run_id, "rows": rows, "rows_left_out": left_out},
    )


def _failure_of(result: dg.ExecuteInProcessResult) -> str:
    import dagster as dg

    for event in result.all_events:
        if event.event_type is dg.DagsterEventType.STEP_FAILURE:
            data = event.step_failure_data
            if data.user_failure_data is not None and data.user_failure_data.description:
                return str(data.user_failure_data.description)
            return "" if data.error is None else data.error.message
    return f"run {result.run_id} failed"


def _number(value: object) -> int:
    held = getattr(value, "value", None)
    return held if isinstance(held, int) else 0


def _way_on() -> str:
    """How a caller writes only the partitions that were not published."""
    if os.environ.get(_HOME):
        return "run again with --failed to write only these"
    return (
        "run again with --partitions to write only these, or with --missing to write those that "
        f"the table lacks; --failed needs {_HOME}"
    )


def _lines(records: Sequence[Mapping[str, object]]) -> list[list[str]]:
    """A line for each partition; a reason stands beside the first that it is of."""
    first: dict[str, str] = {}
    lines = []
    for record in records:
        key, told = str(record["partition"]), str(record["result"])
        known = first.setdefault(told, key)
        if told and record["rows"] is None and known != key:
            told = f"failed with {known}"
        lines.append([key, _rows(record), told])
    return lines


_COLUMNS = [TextColumn("partition"), TextColumn("rows", right=True), TextColumn("result")]


def _rows(record: Mapping[str, object]) -> str:
    return "" if record["rows"] is None else f"{record['rows']:,}"


def _planned(chosen: Sequence[str], size: int, *, writes_all: bool) -> Answer:
    from lakewright.platform.upkeep.words import counted

    def text() -> list[Block]:
        if writes_all:
            return ["all of the source; dry run: nothing was written"]
        if not chosen:
            return ["no partition is chosen: there is nothing to write"]
        told = f"{counted(len(chosen), 'partition')}, {size:,} at a time"
        return [*chosen, f"{told}; dry run: nothing was written"]

    return Answer(
        text=text,
        value=lambda: {"partitions": list(chosen), "batch": size},
        records=lambda: [{"partition": key} for key in chosen],
    )
