"""Index files: what a snapshot knows about rows besides the data files.

HASH lists the key hashes of a dynamic bucket, DELETION_VECTORS the rows of data
files that are gone. Source: Paimon specification, chapter Table Index.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakewright.storage.spec.manifest import FileKind
from lakewright.storage.spec.partition import Place

INDEX_MANIFEST_VERSION = 1

HASH_INDEX = "HASH"
DELETION_VECTORS_INDEX = "DELETION_VECTORS"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorRange:
    """Where in an index file the deletion vector of one data file lies.

    `offset` is the position of the length field before the vector, `length` the bytes
    between that field and the checksum; `cardinality` is None where an old writer left it out.
    """

    data_file: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFileMeta:
    """One index file; `row_count` counts hashes, or data files with deletions."""

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
        """The entry that takes this file out again."""
        return replace(self, kind=FileKind.DELETE)
