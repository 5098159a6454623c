"""From a table's merge options to the function that merges its rows."""

from __future__ import annotations

from collections.abc import Sequence

from lakewright.storage.lsm.merge_engines.aggregation import Aggregation
from lakewright.storage.lsm.merge_engines.contract import MergeFunction
from lakewright.storage.lsm.merge_engines.counting import CountRows
from lakewright.storage.lsm.merge_engines.partial_update import PartialUpdate
from lakewright.storage.lsm.merge_engines.selecting import Deduplicate, FirstRow
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.merge_spec import MergeEngine, MergeSpec


def merge_function(spec: MergeSpec, fields: Sequence[DataField]) -> MergeFunction:
    """The function that merges rows with the columns `fields`.

    `fields` may be fewer than the table has: those of `spec.with_needed` suffice.
    """
    match spec.engine:
        case MergeEngine.DEDUPLICATE:
            return Deduplicate(spec.ignore_delete)
        case MergeEngine.FIRST_ROW:
            return FirstRow(spec)
        case MergeEngine.VALUE_COUNT:
            return CountRows()
        case MergeEngine.AGGREGATION:
            return Aggregation(spec)
        case MergeEngine.PARTIAL_UPDATE:
            names = tuple(field.name for field in fields if field.name not in spec.primary_keys)
            return PartialUpdate(spec, names)
