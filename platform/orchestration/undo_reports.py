"""What was undone, on the pages of the tables' assets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

import dagster as dg

from lakewright.platform.ingest.rejects import Rejects
from lakewright.platform.orchestration.names import UpkeepNames
from lakewright.platform.orchestration.partition_events import forget_partitions
from lakewright.platform.orchestration.partition_news import figures_by_key, scheme_shown
from lakewright.platform.orchestration.rejects_reports import rejects_written
from lakewright.platform.orchestration.reports import whole_table_metadata
from lakewright.platform.tables.declarations import TableDeclaration, rejects_name
from lakewright.platform.tables.partition_keys import (
    InvalidPartitionKeyError,
    first_few,
    partition_identity,
)
from lakewright.platform.undo.parts import Undo, Undone
from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError


def check_ended(instance: dg.DagsterInstance, run: str) -> None:
    """Check that Dagster knows of no work of a run that is to be undone.

    Raises:
        InvalidRequestError: the run is in progress.
    """
    found = instance.get_run_by_id(run)
    if found is not None and not found.is_finished:
        raise InvalidRequestError(
            f"run {run} is in progress ({found.status.value.lower()}), and could repeat "
            "what is reverted: terminate it, or wait until it ended"
        )


def shows_table(instance: dg.DagsterInstance, table: Table, key: dg.AssetKey) -> bool:
    """Whether an asset of this key shows a table, as far as its last event tells."""
    event = instance.get_latest_materialization_event(key)
    materialization = None if event is None else event.asset_materialization
    if materialization is None:
        return False
    where = materialization.metadata.get("dagster/uri")
    return where is None or where.value == table.location


Tell = Callable[[dg.AssetObservation | dg.AssetMaterialization], object]


def tell_undone(
    instance: dg.DagsterInstance,
    catalog: Catalog,
    found: Undo,
    declarations: Mapping[str, TableDeclaration],
    names: UpkeepNames,
    *,
    tell: Tell,
    warn: Callable[[str], object],
) -> None:
    """Report each part to its asset; partitions that have no rows any more become missing."""
    of_rejects = {rejects_name(each): each for each in declarations}
    for part in found.parts:
        table, key = catalog.table(part.table), names.keys.of(part.table)
        empty = _forget_empty(instance, table, part, declarations.get(part.table), names, warn)
        told = f"; without rows now: {first_few(empty)}" if empty else ""
        what = f"run {found.run} undone: {part.summary}{told}"
        metadata = {
            "lakewright/verb": part.verb,
            "lakewright/undone_run": found.run,
            **({"lakewright/emptied_partitions": list(empty)} if empty else {}),
            **whole_table_metadata(table),
        }
        tell(dg.AssetObservation(key, metadata=metadata, description=what))
        if part.table in of_rejects:
            # The page shows how many rows are open.
            tell(rejects_written(Rejects(catalog=catalog, table=of_rejects[part.table]), key, what))


def _forget_empty(
    instance: dg.DagsterInstance,
    table: Table,
    part: Undone,
    declaration: TableDeclaration | None,
    names: UpkeepNames,
    warn: Callable[[str], object],
) -> list[str]:
    """The partitions that have no rows any more, which Dagster shows as missing afterwards."""
    scheme = scheme_shown(declaration, table)
    if scheme is None or not part.partitions:
        return []
    there = {partition_identity(partition.spec) for partition in table.at().partitions()}
    gone: list[str] = []
    for spec in part.partitions:
        if partition_identity(spec) not in there:
            with suppress(InvalidPartitionKeyError):
                gone.append(scheme.key_of(spec))
    # One key may stand for several partitions of the table.
    shown = set(figures_by_key(scheme, names.of(table.name), table.at().partitions()))
    empty = sorted({*gone} - shown)
    if empty and not forget_partitions(instance, names.keys.of(table.name), empty):
        warn(
            f"{first_few(empty)} of {table.name} are without rows, and Dagster's log of events "
            "cannot show that"
        )
    return empty
