"""Index files of one table: deletion vectors, and what else buckets know about their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lakewright.storage.codec.deletion_vectors import (
    decode_deletion_vector,
    encode_deletion_vectors,
)
from lakewright.storage.env import FileSystem
from lakewright.storage.errors import CorruptionError, FileMissing
from lakewright.storage.files.paths import TablePaths
from lakewright.storage.spec.index import (
    DELETION_VECTORS_INDEX,
    DeletionVectorRange,
    IndexFileMeta,
)


@dataclass(frozen=True, slots=True)
class IndexStore:
    """Reads index files that a snapshot names, and writes those that the next one will name."""

    fs: FileSystem
    paths: TablePaths

    def read_deletion_vector(self, index_file: str, where: DeletionVectorRange) -> np.ndarray:
        """Positions of a data file's rows that are gone, ascending.

        Raises:
            CorruptionError: the index file is missing or damaged.
        """
        return decode_deletion_vector(
            self._read(index_file), where, name=self.paths.index(index_file)
        )

    def write_deletion_vectors(
        self, positions: Mapping[str, np.ndarray], *, write_id: str
    ) -> IndexFileMeta:
        """Write the positions that are gone, by data file, as one index file."""
        data, ranges = encode_deletion_vectors(positions)
        name = f"index-{write_id}-0"
        self.fs.write_bytes(self.paths.index(name), data)
        return IndexFileMeta(
            index_type=DELETION_VECTORS_INDEX,
            file_name=name,
            file_size=len(data),
            row_count=len(ranges),
            deletion_vectors=ranges,
        )

    def _read(self, name: str) -> bytes:
        path = self.paths.index(name)
        try:
            return self.fs.read_bytes(path)
        except FileMissing as error:
            raise CorruptionError(
                f"index file {path} is missing though a snapshot names it; if that snapshot was "
                "just expired, read a later one",
                path=path,
            ) from error
