"""From a table's merge options to the function that merges its rows."""

from __future__ import annotations

from collections.abc import Sequence

from lakewright.storage.errors import UnsupportedError
from lakewright.storage.lsm.merge_engines.contract import MergeFunction
from lakewright.storage.lsm.merge_engines.selecting import Deduplicate, FirstRow
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.merge_spec import MergeEngine, MergeSpec


def merge_function(
    spec: MergeSpec, fields: Sequence[DataField], key_names: Sequence[str] = ()
) -> MergeFunction:
    """The function that merges rows with the columns `fields`.

    `fields` may be fewer than the table has: those of `spec.with_needed` suffice. `key_names`
    are columns of the primary key; `spec.primary_keys` where none are given.
    """
    match spec.engine:
        case MergeEngine.DEDUPLICATE:
            return Deduplicate(spec.ignore_delete)
        case MergeEngine.FIRST_ROW:
            return FirstRow(spec)
        case engine:
            raise UnsupportedError(f"{spec.table}: merge-engine={engine.value} {fields}{key_names}")
