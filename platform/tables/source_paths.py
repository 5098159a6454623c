"""What is wrong with the path of a declared source, before a run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import suppress

from lakewright.platform.documents.wrong_places import did_you_mean
from lakewright.platform.tables.partition_keys import PartitionColumn
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.file_reader.path_pattern import PathPattern, read_moment, unclear_places
from lakewright.storage.spec.data_types import AtomicType, TypeRoot

# A moment whose parts all differ shows a layout that leaves one of them out.
_PROBE = dt.datetime(2013, 12, 30, 23, 45)


def check_path(text: str, columns: Sequence[PartitionColumn]) -> Iterator[str]:
    """What is wrong with a path, for a table with these partition columns."""
    path = PathPattern.parse(text)
    known = {column.name: column for column in columns}
    for name in path.column_names:
        if name not in known:
            near = did_you_mean(name, known) if known else "the table has no partition_keys"
            yield f"{{{name}}} is not a partition key; {near}"
    for name, layout in path.layouts.items():
        if name in known:
            yield from _check_layout(layout, known[name])
    for place in unclear_places(path):
        yield (
            f"{place} is beside a wildcard, so where its value ends is unclear; put a character "
            f"between them, or say how long the value is by a layout such as {{day:%Y%m%d}}"
        )
    for name, places in _places(path).items():
        given = [layout for layout in places if layout is not None]
        if given and len(given) < len(places):
            yield f"{{{name}}} has a layout in one place and none in another; give it in both"


def _places(path: PathPattern) -> dict[str, list[str | None]]:
    found: dict[str, list[str | None]] = {}
    for part in path.parts:
        for name, layout in part.columns:
            found.setdefault(name, []).append(layout)
    return found


def _check_layout(layout: str, column: PartitionColumn) -> Iterator[str]:
    root = column.type.root if isinstance(column.type, AtomicType) else None
    if root is not TypeRoot.DATE and root is not TypeRoot.TIMESTAMP and not (root and root.is_text):
        yield (
            f"{{{column.name}:{layout}}} is a layout of dates, and {column.name} is {column.type}; "
            "leave the layout out"
        )
        return
    read: dt.datetime | None = None
    with suppress(InvalidRequestError):
        read = read_moment(_PROBE.strftime(layout), layout)
    if read is None or read.date() != _PROBE.date():
        yield (
            f"{layout!r} is not a strptime layout that gives a day; write such as "
            f"{{{column.name}:%Y/%m/%d}}"
        )
    elif root is not TypeRoot.TIMESTAMP and read != dt.datetime(2013, 12, 30):
        yield f"{layout!r} gives a time of day, which {column.name} {column.type} does not hold"
