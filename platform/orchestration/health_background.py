"""What an evaluation of health shows beside the decisions, read from the table and its records."""

from __future__ import annotations

from collections.abc import Sequence

from lakewright.platform.orchestration.health_reports import (
    MOST_FILES_DRAWN,
    MOST_SNAPSHOTS_READ,
    Background,
)
from lakewright.platform.upkeep.retention import read_outlook
from lakewright.platform.warehouse.past import recent_actions
from lakewright.platform.warehouse.table_state import TableState
from lakewright.platform.warehouse.trend import read_trend
from lakewright.storage import Catalog
from lakewright.storage.errors import StorageError
from lakewright.storage.operations.retention.retention_outlook import RetentionOutlook

# A look of the sensor has 60 s for up to 100 evaluations. 300 snapshots of which nearly all would
# go take 0.35 s of CPU and 5,000 reads of small files; 1,000 files take 40 ms and 20 reads.
MOST_SNAPSHOTS_AT_A_LOOK, MOST_FILES_AT_A_LOOK = 300, 1_000


def read_background(catalog: Catalog, state: TableState) -> Background:
    """For an executed check, which has time."""
    return _read(catalog, state, MOST_SNAPSHOTS_READ, MOST_FILES_DRAWN)


def read_at_a_look(catalog: Catalog, state: TableState) -> Background:
    """For the sensor; what other retention times would free is read on a disk only.

    A store that answers in 20 ms would take 100 s for 5,000 reads.
    """
    snapshots = MOST_SNAPSHOTS_AT_A_LOOK if catalog.fs.scheme == "file" else 0
    return _read(catalog, state, snapshots, MOST_FILES_AT_A_LOOK)


def _read(catalog: Catalog, state: TableState, most_snapshots: int, most_files: int) -> Background:
    name = state.survey.table
    outlook: Sequence[RetentionOutlook] = ()
    files: Sequence[tuple[int, int]] = ()
    try:
        if state.survey.problem is None:
            table = catalog.table(name)
            if state.survey.history.snapshots <= most_snapshots:
                outlook = read_outlook(table, most_snapshots=most_snapshots)
            if state.survey.files.files <= most_files:
                found = (each.file for each in table.at().files())
                files = [(each.level, each.file_size) for each in found]
    except StorageError:
        # An expiry or a drop came between; the evaluation of the state is worth more.
        pass
    return Background(
        trend=read_trend(catalog, name),
        outlook=outlook,
        files=files,
        actions=recent_actions(catalog, name),
    )
