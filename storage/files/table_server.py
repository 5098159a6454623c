"""What a server does for one table, where a REST catalog makes its snapshots and schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDelta:
    """What a commit adds to a partition; negative where it takes away."""

    spec: Mapping[str, str]
    rows: int = 0
    size_bytes: int = 0
    files: int = 0
    last_created_ms: int = 0
    buckets: int = -1


class TableServer(Protocol):
    """The server of one table, and of no branch; it pickles, and holds no secret.

    It writes the files of snapshots and schemas into the table, and no client does. So older
    ones are read there.
    """

    def latest(self) -> bytes | None:
        """The current snapshot; None for a table without commits."""
        ...

    def commit(
        self, snapshot: Snapshot, base: Snapshot | None, deltas: Sequence[PartitionDelta]
    ) -> bool:
        """Make the snapshot visible on top of its base; False if another commit came first.

        Raises:
            NotWritten: the server refuses, or cannot be reached; no snapshot exists.
            UnavailableError: it failed, and may have made the snapshot.
        """
        ...

    def alter(self, former: TableSchema, schema: TableSchema) -> bool:
        """Let the server make a schema of the former one; False if that is the latest no more.

        Raises:
            UnsupportedError: no request tells of such a change.
            UnavailableError: it failed, and may have made the schema.
        """
        ...
