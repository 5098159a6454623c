"""What verbs on whole partitions report alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lakewright.platform.upkeep.measures import Benefit, Cost, Measures
from lakewright.platform.upkeep.procedure import NamedPartition, Rows
from lakewright.platform.upkeep.words import counted, size_text
from lakewright.storage import Snapshot


class Held(Protocol):
    """A partition and what it holds."""

    @property
    def partition(self) -> dict[str, object]: ...

    @property
    def files(self) -> tuple[str, ...]: ...

    @property
    def rows(self) -> int: ...

    @property
    def bytes(self) -> int: ...


def held_facts(held: Sequence[Held]) -> dict[str, object]:
    """The figures of partitions."""
    return {
        "partitions": len(held),
        "files": sum(len(each.files) for each in held),
        "rows": sum(each.rows for each in held),
        "size_bytes": sum(each.bytes for each in held),
    }


def held_text(held: Sequence[Held]) -> str:
    """`2 partitions with 9 rows in 3 files, 3.7 KiB`."""
    rows = counted(sum(each.rows for each in held), "row")
    files = counted(sum(len(each.files) for each in held), "file")
    size = size_text(sum(each.bytes for each in held))
    return f"{counted(len(held), 'partition')} with {rows} in {files}, {size}"


def held_rows(held: Sequence[Held]) -> Rows:
    """A row of detail for each partition."""
    return [
        {
            "partition": NamedPartition(each.partition),
            "files": len(each.files),
            "rows": each.rows,
            "bytes": each.bytes,
        }
        for each in held
    ]


def dropped_measures(held: Sequence[Held], snapshots: Sequence[Snapshot] = ()) -> Measures:
    """What readers no longer open; an expiry of the snapshots before frees the storage."""
    files = sum(len(each.files) for each in held)
    return Measures(
        cost=Cost(files=files),
        benefit=Benefit(files_fewer=files, bytes_fewer=sum(each.bytes for each in held)),
        snapshots=tuple(snapshot.id for snapshot in snapshots),
    )
