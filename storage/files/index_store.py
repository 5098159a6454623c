"""Index files of one table: deletion vectors and hash indexes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.deletion_vectors import (
    decode_deletion_vector,
    deletion_vector_bytes,
    encode_deletion_vectors,
)
from lakewright.storage.codec.hash_index import decode_hash_index, encode_hash_index
from lakewright.storage.env import FileSystem
from lakewright.storage.errors import CorruptionError, FileMissing, UnavailableError
from lakewright.storage.files.paths import TablePaths
from lakewright.storage.spec.index import (
    DELETION_VECTORS_INDEX,
    HASH_INDEX,
    DeletionVectorRange,
    IndexFileMeta,
)


@dataclass(frozen=True, slots=True)
class IndexStore:
    """Reads index files that a snapshot names, and writes those of the next snapshot."""

    fs: FileSystem
    paths: TablePaths

    def read_deletion_vector(self, index_file: str, where: DeletionVectorRange) -> np.ndarray:
        """Positions of a data file's deleted rows, ascending; reads only this vector.

        Raises:
            CorruptionError: the index file is missing or damaged.
        """
        path = self.paths.index(index_file)
        with self._reading(path), self.fs.open_input(path) as source:
            try:
                source.seek(where.offset)
            except (pa.ArrowInvalid, OSError) as error:
                raise CorruptionError(
                    f"index file {path} has no byte {where.offset}, where the deletion vector of "
                    f"{where.data_file} should be: {error}",
                    path=path,
                ) from error
            data = source.read(deletion_vector_bytes(where))
        return decode_deletion_vector(data, where, name=path, start=where.offset)

    def read_deletion_vectors(
        self, index_file: str, ranges: Iterable[DeletionVectorRange]
    ) -> dict[str, np.ndarray]:
        """The same for many data files, by their names; the index file is read once.

        Raises:
            CorruptionError: the index file is missing or damaged.
        """
        data, path = self._read(index_file), self.paths.index(index_file)
        return {each.data_file: decode_deletion_vector(data, each, name=path) for each in ranges}

    def write_deletion_vectors(
        self, positions: Mapping[str, np.ndarray], *, write_id: str, bitmap64: bool = False
    ) -> IndexFileMeta:
        """Write deleted positions, by data file, as one index file."""
        data, ranges = encode_deletion_vectors(positions, bitmap64=bitmap64)
        name = f"index-{write_id}-0"
        self.fs.write_bytes(self.paths.index(name), data)
        return IndexFileMeta(
            index_type=DELETION_VECTORS_INDEX,
            file_name=name,
            file_size=len(data),
            row_count=len(ranges),
            deletion_vectors=ranges,
        )

    def read_hash_index(self, index: IndexFileMeta) -> np.ndarray:
        """The key hashes of a dynamic bucket.

        Raises:
            CorruptionError: the file is missing, or its size contradicts the index manifest.
        """
        name = self.paths.index(index.file_name)
        return decode_hash_index(self._read(index.file_name), name=name, expected=index.row_count)

    def write_hash_index(self, hashes: np.ndarray, *, name: str) -> IndexFileMeta:
        """Write the key hashes of a dynamic bucket, each once."""
        data = encode_hash_index(hashes)
        self.fs.write_bytes(self.paths.index(name), data)
        return IndexFileMeta(
            index_type=HASH_INDEX, file_name=name, file_size=len(data), row_count=len(hashes)
        )

    def _read(self, name: str) -> bytes:
        path = self.paths.index(name)
        with self._reading(path):
            return self.fs.read_bytes(path)

    @contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        """Translate errors of reading an index file."""
        try:
            yield
        except FileMissing as error:
            raise CorruptionError(
                f"index file {path} is missing though a snapshot names it; if that snapshot was "
                "just expired, read a later one",
                path=path,
            ) from error
        except OSError as error:
            raise UnavailableError(
                f"index file {path} cannot be read: {error}", path=path
            ) from error
