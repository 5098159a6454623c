"""One table of a REST catalog: its latest snapshot, commits and changes of its schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakewright.storage.codec.json_values import as_object, as_whole
from lakewright.storage.codec.rest_json import changes_to_rest
from lakewright.storage.codec.snapshot_json import encode_snapshot
from lakewright.storage.errors import (
    AccessError,
    AlreadyExistsError,
    InvalidRequestError,
    NotFoundError,
    NotWritten,
    SnapshotNotFound,
    UnavailableError,
    UnsupportedError,
)
from lakewright.storage.files.catalog_names import READ_ONLY
from lakewright.storage.files.rest_client import RestServer
from lakewright.storage.files.table_server import PartitionDelta
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import Snapshot


@dataclass(frozen=True)
class RestTable:
    """Implements `TableServer`; `id` is the server's for this very table, whatever its name."""

    server: RestServer
    database: str
    table: str
    id: str
    can_write: bool = True

    @property
    def name(self) -> str:
        return f"{self.database}.{self.table}"

    def found(self) -> dict[str, Any]:
        """What the server says of the table."""
        return self.server.get(*self._path)

    def latest(self) -> bytes | None:
        try:
            answer = self.server.get(*self._path, "snapshot")
        except SnapshotNotFound:
            return None
        try:
            return json.dumps(as_object(as_object(answer["snapshot"])["snapshot"])).encode()
        except (KeyError, ValueError) as error:
            raise UnavailableError(
                f"the REST catalog at {self.server.uri} names no snapshot of {self.name} in its "
                f"answer: {error}"
            ) from error

    def commit(
        self, snapshot: Snapshot, base: Snapshot | None, deltas: Sequence[PartitionDelta]
    ) -> bool:
        self._check_writable(f"commit to {self.name}")
        body = {
            "tableId": self.id,
            "baseSnapshotUuid": None if base is None else base.uuid,
            "snapshot": json.loads(encode_snapshot(snapshot)),
            "statistics": [
                {
                    "spec": dict(each.spec),
                    "recordCount": each.rows,
                    "fileSizeInBytes": each.size_bytes,
                    "fileCount": each.files,
                    "lastFileCreationTime": each.last_created_ms,
                    "totalBuckets": each.buckets,
                }
                for each in deltas
            ],
        }
        try:
            # A second request meets another base, or the snapshot's own file.
            answer = self.server.post(*self._path, "commit", body=body, again=True)
        except (
            AccessError,
            AlreadyExistsError,
            InvalidRequestError,
            NotFoundError,
            UnsupportedError,
        ) as error:
            raise NotWritten(
                f"snapshot {snapshot.id} of {self.name} was not made: {error.message}"
            ) from error
        return answer.get("success") is True

    def alter(self, former: TableSchema, schema: TableSchema) -> bool:
        self._check_writable(f"alter {self.name}")
        changes = changes_to_rest(former, schema)
        if self._schema_id() != former.id:
            return False
        try:
            self.server.post(*self._path, body={"changes": changes})
        except UnavailableError as error:
            raise UnavailableError(
                f"schema {schema.id} of {self.name} may have been made or not: {error.message}; "
                "open the table and look"
            ) from error
        return True

    def _schema_id(self) -> int:
        return as_whole(self.found().get("schemaId"))

    @property
    def _path(self) -> tuple[str, ...]:
        return ("databases", self.database, "tables", self.table)

    def _check_writable(self, what: str) -> None:
        if not self.can_write:
            raise InvalidRequestError(READ_ONLY.format(what))
