"""Records of the streams that write into a table: <table>/.lakewright/streams/stream-<id>.<batch>.

Each batch has a file of its own, and the greatest batch counts: a driver that wakes up late cannot
put an earlier batch in the place of a later one.
"""

from __future__ import annotations

import posixpath
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lakewright.storage.codec.stream_json import decode_record, encode_record
from lakewright.storage.env import FileSystem
from lakewright.storage.errors import FileMissing
from lakewright.storage.files.paths import TablePaths
from lakewright.storage.spec.stream import StreamRecord

_PREFIX = "stream-"
# Names of one store, of which Hadoop has several clients.
_SAME_STORES = {"s3a": "s3", "s3n": "s3"}


@dataclass(frozen=True, slots=True)
class StreamStore:
    """Reads records, and replaces each as a whole."""

    fs: FileSystem
    paths: TablePaths

    def read(self, stream: str, *, committed: bool = False) -> StreamRecord | None:
        """The record of a stream's last batch, or its last committed one; None without one."""
        found = (each for each in self._files(stream).values() if each.committed or not committed)
        return max(found, key=lambda record: record.batch, default=None)

    def all(self) -> tuple[StreamRecord, ...]:
        """The records of all streams, the one that wrote last first."""
        last: dict[str, StreamRecord] = {}
        for record in sorted(self._files().values(), key=lambda record: record.batch):
            last[record.stream] = record
        return tuple(sorted(last.values(), key=lambda record: (-record.time_ms, record.stream)))

    def put(self, record: StreamRecord) -> None:
        """Set the record of a batch."""
        self.fs.replace(self.paths.stream(record.stream, record.batch), encode_record(record))

    def files_before(self, stream: str, batch: int) -> list[str]:
        """The files of a stream's batches before one."""
        found = self._files(stream).items()
        return [path for path, record in found if record.batch < batch]

    def files_behind(self, stream: str, batch: int) -> list[str]:
        """The files of a stream's batches after one."""
        found = self._files(stream).items()
        return [path for path, record in found if record.batch > batch]

    def _files(self, stream: str | None = None) -> dict[str, StreamRecord]:
        found = {}
        for status in self.fs.list_dir(self.paths.stream_dir):
            if status.name.startswith(_PREFIX):
                # Another process may have removed it since the listing.
                with suppress(FileMissing):
                    data = self.fs.read_bytes(status.path)
                    record = decode_record(data, name=status.path)
                    if stream in (None, record.stream):
                        found[status.path] = record
        return found


def place_of(checkpoint: str) -> str:
    """The place of a checkpoint, in one spelling: a table knows a stream by it."""
    scheme, mark, rest = checkpoint.partition("://")
    if not is_remote(checkpoint):
        local = Path(rest if mark else checkpoint.removeprefix("file:"))
        return str(local.expanduser().resolve())
    store, _, path = rest.partition("/")
    scheme = _SAME_STORES.get(scheme.lower(), scheme.lower())
    return f"{scheme}://{store}{posixpath.normpath('/' + path.lstrip('/'))}"


def is_remote(place: str) -> bool:
    """Whether a place is in another store than the local disk."""
    scheme, mark, _ = place.partition("://")
    return bool(mark) and scheme.lower() != "file"
