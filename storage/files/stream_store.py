"""How streams into a table began: <table>/.lakewright/streams/stream-<id>.

Where they stand is in the snapshots. These files tell a stream whose snapshots another client has
expired, or a rollback has taken away, from one that is new.
"""

from __future__ import annotations

import posixpath
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lakewright.storage.codec.stream_json import decode_start, encode_start
from lakewright.storage.env import FileSystem
from lakewright.storage.errors import FileMissing
from lakewright.storage.files.paths import TablePaths
from lakewright.storage.spec.stream import StreamStart

_PREFIX = "stream-"
# Names of one store, of which Hadoop has several clients.
_SAME_STORES = {"s3a": "s3", "s3n": "s3"}


@dataclass(frozen=True, slots=True)
class StreamStore:
    """Reads and writes the starts of streams, each as a whole."""

    fs: FileSystem
    paths: TablePaths

    def read(self, stream: str) -> StreamStart | None:
        """The start of a stream; None if it is not known."""
        path = self.paths.stream(stream)
        try:
            return decode_start(self.fs.read_bytes(path), name=path)
        except FileMissing:
            return None

    def all(self) -> tuple[StreamStart, ...]:
        """The starts of all streams."""
        found = []
        for status in self.fs.list_dir(self.paths.stream_dir):
            if status.name.startswith(_PREFIX):
                # Another process may have removed it since the listing.
                with suppress(FileMissing):
                    found.append(decode_start(self.fs.read_bytes(status.path), name=status.path))
        return tuple(found)

    def put(self, start: StreamStart) -> None:
        """Set the start of a stream."""
        self.fs.replace(self.paths.stream(start.stream), encode_start(start))


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
