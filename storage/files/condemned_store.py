"""Records of what verbs condemned, for all branches of a table.

<table>/.lakewright/condemned/<id>.json      the record, written after its lists
<table>/.lakewright/condemned/<id>.<n>.list  names of condemned files
<table>/.lakewright/condemned/<id>.claim     who decides: `collect` or `undo`, created if absent
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lakewright.storage.codec.condemned_json import (
    decode_condemned,
    decode_names,
    encode_condemned,
    encode_names,
)
from lakewright.storage.env import FileStatus, FileSystem
from lakewright.storage.errors import FileMissing
from lakewright.storage.files.paths import TablePaths
from lakewright.storage.spec.condemned import Condemned, CondemnedFile

# A record's lists are read one at a time.
_NAMES_A_LIST = 10_000


@dataclass(slots=True)
class RecordFiles:
    """The files of one record, as they are listed; without `head` the record is not complete."""

    id: str
    head: FileStatus | None = None
    lists: list[FileStatus] = field(default_factory=list)
    claim: FileStatus | None = None

    @property
    def paths(self) -> list[str]:
        """In the order of their deletion: without its head, a record keeps nothing."""
        return [each.path for each in ([self.head] if self.head else []) + self.beside_head]

    @property
    def beside_head(self) -> list[FileStatus]:
        """The lists and the claim."""
        return [*self.lists, *([self.claim] if self.claim else [])]


@dataclass(frozen=True, slots=True)
class CondemnedStore:
    """Reads and writes records."""

    fs: FileSystem
    paths: TablePaths

    def listed(self) -> dict[str, RecordFiles]:
        """What there is of each record, by id, oldest first."""
        found: dict[str, RecordFiles] = {}
        listed = self.fs.list_dir(self.paths.condemned_dir)
        for status in sorted(listed, key=lambda each: each.name):
            record_id, _, kind = status.name.partition(".")
            if not record_id:
                # An unfinished file.
                continue
            record = found.setdefault(record_id, RecordFiles(record_id))
            if kind == "json":
                record.head = status
            elif kind == "claim":
                record.claim = status
            else:
                record.lists.append(status)
        return found

    def put(self, record_id: str, record: Condemned, names: Sequence[CondemnedFile]) -> None:
        """Write a record, its lists first."""
        for first in range(0, len(names), _NAMES_A_LIST):
            path = self.paths.condemned(f"{record_id}.{first // _NAMES_A_LIST:06}.list")
            self.fs.replace(path, encode_names(names[first : first + _NAMES_A_LIST]))
        self.replace(record_id, record)

    def replace(self, record_id: str, record: Condemned) -> None:
        """Write a record anew, which makes it as young as a new one."""
        self.fs.replace(self.paths.condemned(f"{record_id}.json"), encode_condemned(record))

    def read(self, record_id: str) -> Condemned | None:
        """A record; None if it is gone.

        Raises:
            CorruptionError: it is damaged.
            UnsupportedError: a later version of lakewright wrote it.
        """
        path = self.paths.condemned(f"{record_id}.json")
        with suppress(FileMissing):
            return decode_condemned(self.fs.read_bytes(path), name=path)
        return None

    def names(self, status: FileStatus) -> tuple[CondemnedFile, ...]:
        """The names of a list; none if it is gone. The errors are those of `read`."""
        with suppress(FileMissing):
            return decode_names(self.fs.read_bytes(status.path), name=status.path)
        return ()

    def all_names(self) -> Iterator[CondemnedFile]:
        """The names in all complete records; the errors are those of `read`."""
        for record in self.listed().values():
            for status in record.lists if record.head else ():
                yield from self.names(status)

    def claim(self, record_id: str, what: bytes) -> bool:
        """Decide what becomes of a record; False if another process decided otherwise."""
        path = self.paths.condemned(f"{record_id}.claim")
        # Its last reader deletes it with the record.
        with suppress(FileMissing):
            return self.fs.put_if_absent(path, what) or self.fs.read_bytes(path) == what
        return False
