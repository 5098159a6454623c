"""What an evaluation of health shows beside the decisions, read from the table and its records."""

from __future__ import annotations

from collections.abc import Sequence

from lakewright.platform.decide.upkeep_state import UpkeepState
from lakewright.platform.ledger.past import recent_actions
from lakewright.platform.orchestration.health_reports import MOST_SNAPSHOTS_READ, Background
from lakewright.platform.upkeep.retention import read_outlook
from lakewright.storage import Catalog
from lakewright.storage.errors import StorageError
from lakewright.storage.operations.retention.retention_outlook import RetentionOutlook

# A look of the sensor has 60 s for up to 100 evaluations. 300 snapshots of which nearly all would
# go take 0.35 s of CPU and 5,000 reads of small files.
MOST_SNAPSHOTS_AT_A_LOOK = 300


def read_background(catalog: Catalog, state: UpkeepState) -> Background:
    """For an executed check, which has time."""
    return _read(catalog, state, MOST_SNAPSHOTS_READ)


def read_at_a_look(catalog: Catalog, state: UpkeepState) -> Background:
    """For the sensor; what other retention times would free is read on a disk only.

    A store that answers in 20 ms would take 100 s for 5,000 reads.
    """
    snapshots = MOST_SNAPSHOTS_AT_A_LOOK if catalog.fs.scheme == "file" else 0
    return _read(catalog, state, snapshots)


def _read(catalog: Catalog, state: UpkeepState, most_snapshots: int) -> Background:
    name = state.survey.table
    outlook: Sequence[RetentionOutlook] = ()
    try:
        if state.survey.problem is None and state.survey.history.snapshots <= most_snapshots:
            outlook = read_outlook(catalog.table(name), most_snapshots=most_snapshots)
    except StorageError:
        # An expiry or a drop came between; the evaluation of the state is worth more.
        pass
    return Background(outlook=outlook, actions=recent_actions(catalog, name))
