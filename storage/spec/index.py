"""Index files: data about rows beside the data files.

HASH lists the key hashes of a dynamic bucket, DELETION_VECTORS the deleted rows of data files.
Source: Paimon specification, chapter Table Index.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lakewright.storage.errors import UnsupportedError
from lakewright.storage.spec.manifest import FileKind
from lakewright.storage.spec.partition import Place

INDEX_MANIFEST_VERSION = 1

HASH_INDEX = "HASH"
DELETION_VECTORS_INDEX = "DELETION_VECTORS"
KNOWN_INDEXES = frozenset({HASH_INDEX, DELETION_VECTORS_INDEX})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorRange:
    """The place of one data file's deletion vector in an index file.

    `offset` is the position of the length field before the vector, `length` the bytes
    between that field and the checksum; `cardinality` is None if an old writer left it out.
    """

    data_file: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFileMeta:
    """One index file; `row_count` is its number of hashes, or of data files with deletions."""

    index_type: str
    file_name: str
    file_size: int
    row_count: int
    deletion_vectors: tuple[DeletionVectorRange, ...] | None = None
    external_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """An index file of a bucket, as an index manifest lists it."""

    partition: bytes
    bucket: int
    file: IndexFileMeta
    kind: FileKind = FileKind.ADD

    @property
    def place(self) -> Place:
        """Partition and bucket."""
        return Place(self.partition, self.bucket)

    @property
    def slot(self) -> tuple[Place, str]:
        """Where a bucket of its own has one index file of a type at most."""
        return self.place, self.file.index_type

    def removed(self) -> IndexEntry:
        """The DELETE entry of this file."""
        return replace(self, kind=FileKind.DELETE)


def check_known_indexes(entries: Iterable[IndexEntry], *, table: str) -> None:
    """Refuse to commit beside an index of a kind that is not known here.

    A commit that does not maintain an index leaves it wrong for readers that use it.

    Raises:
        UnsupportedError: names the kind and the file.
    """
    for entry in entries:
        if entry.file.index_type not in KNOWN_INDEXES:
            raise UnsupportedError(
                f"{table} has index file {entry.file.file_name} of kind {entry.file.index_type}, "
                f"and this release knows {' and '.join(sorted(KNOWN_INDEXES))}; the table can be "
                "read, and nothing was written; upgrade lakewright"
            )
