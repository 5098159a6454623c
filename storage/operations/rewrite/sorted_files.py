"""Files that a sorting wrote say so by their names, which live as long as the files do.

All files of one sorting of a partition have one stem. A partition whose live files all have it is
in order: whatever else was written to it, by any client, has another name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence

from lakewright.storage.lsm.sort_layout import SortOrder
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.file_names import first_name
from lakewright.storage.spec.manifest import DataFileMeta

_STEM = re.compile(r"(?P<stem>.+-by-(?P<order>[0-9a-f]{8}))-\d+-\d+\.")


def sorted_write_id(write_id: str, order: SortOrder, by: Sequence[DataField]) -> str:
    """The id, for file names, of a sorting by some columns."""
    return f"{write_id}-by-{_digest(order, by)}"


def are_sorted(files: Sequence[DataFileMeta], order: SortOrder, by: Sequence[DataField]) -> bool:
    """Whether one sorting by these columns wrote all of a partition's files."""
    found = [_STEM.match(first_name(file.file_name)) for file in files]
    stems = {None if each is None else each["stem"] for each in found}
    orders = {None if each is None else each["order"] for each in found}
    return len(stems) == 1 and orders == {_digest(order, by)}


def _digest(order: SortOrder, by: Sequence[DataField]) -> str:
    # A column keeps its id when it gets another name, and its values another order with their type.
    told = json.dumps([order.value, *([each.id, str(each.type)] for each in by)])
    return hashlib.sha256(told.encode()).hexdigest()[:8]
