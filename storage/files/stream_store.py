"""Records of the streams that write into a table: <table>/.lakewright/streams/stream-<id>."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from lakewright.storage.codec.stream_json import decode_record, encode_record
from lakewright.storage.env import FileSystem
from lakewright.storage.errors import FileMissing
from lakewright.storage.files.paths import TablePaths
from lakewright.storage.spec.stream import StreamRecord

_PREFIX = "stream-"


@dataclass(frozen=True, slots=True)
class StreamStore:
    """Reads records, and replaces each as a whole."""

    fs: FileSystem
    paths: TablePaths

    def read(self, stream: str) -> StreamRecord | None:
        """The record of a stream; None if it has written nothing."""
        path = self.paths.stream(stream)
        try:
            return decode_record(self.fs.read_bytes(path), name=path)
        except FileMissing:
            return None

    def all(self) -> tuple[StreamRecord, ...]:
        """The records of all streams, the one that wrote last first."""
        found = []
        for status in self.fs.list_dir(self.paths.stream_dir):
            if status.name.startswith(_PREFIX):
                # Another process may have removed it since the listing.
                with suppress(FileMissing):
                    data = self.fs.read_bytes(status.path)
                    found.append(decode_record(data, name=status.path))
        return tuple(sorted(found, key=lambda record: (-record.time_ms, record.stream)))

    def put(self, record: StreamRecord) -> None:
        self.fs.replace(self.paths.stream(record.stream), encode_record(record))
