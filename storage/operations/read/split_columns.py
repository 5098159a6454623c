"""The files of several splits as columns, so that a plan of many files makes no object for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.manifest_columns import ObjectEntries
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.state.live_columns import LiveColumns, PlannedFiles
from lakewright.storage.spec.manifest import DataFileMeta, FileKind, ManifestEntry

_NAME, _PLACE = "_FILE._FILE_NAME", "_FILE._EXTERNAL_PATH"


class FilesOfFolder(NamedTuple):
    """Files of one folder; another such value may have others of it."""

    folder: str
    names: Sequence[str]

    @property
    def paths(self) -> list[str]:
        """The path of each file."""
        return [f"{self.folder}/{name}" for name in self.names]


@dataclass(frozen=True)
class SplitColumns:
    """Files by their positions: split n has those from `bounds[n]` to `bounds[n + 1]`."""

    splits: Sequence[DataSplit]
    live: LiveColumns
    rows: np.ndarray
    bounds: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def split_of(self) -> np.ndarray:
        """The split of each file."""
        found: np.ndarray = np.repeat(np.arange(len(self.splits)), np.diff(self.bounds))
        return found

    @property
    def sizes(self) -> np.ndarray:
        """The sizes of all files, as manifests have them."""
        return self.live.numbers("_FILE._FILE_SIZE", self.rows)

    def are_parquet(self, at: np.ndarray) -> np.ndarray:
        """Whether the names of files end in `.parquet`; few others are of Parquet files."""
        return self.live.are_parquet(self.rows[at])

    def names(self, at: np.ndarray) -> list[str]:
        """The names of some files."""
        return self._texts(_NAME, at)

    def names_match(self, pattern: str, at: np.ndarray) -> np.ndarray:
        """Whether the names of some files have a pattern."""
        names = self.live.texts(_NAME, self.rows[at])
        matched = pc.match_substring_regex(names, pattern)
        found: np.ndarray = matched.to_numpy(zero_copy_only=False)
        return found

    def places(self, at: np.ndarray) -> dict[int, str]:
        """The URIs of those files that a manifest places by one, by their indexes in `at`."""
        placed = np.flatnonzero(self.live.are_filled(_PLACE, self.rows[at]))
        return dict(zip(placed.tolist(), self._texts(_PLACE, at[placed]), strict=True))

    def kinds(self, at: np.ndarray) -> Iterator[tuple[DataFileMeta, np.ndarray]]:
        """Files of equal schemas and columns: one of them, and the indexes of all in `at`.

        Several groups may be of one schema and columns.
        """
        for part, rows, there in self.live.by_part(self.rows[at]):
            alike = np.stack([part.numbers("_FILE._SCHEMA_ID", rows), part.layouts(rows)])
            if (alike[:, 1:] == alike[:, :-1]).all():
                yield part.entry(int(rows[0])).file, there
                continue
            _, first, group = np.unique(alike, axis=1, return_index=True, return_inverse=True)
            for number, row in enumerate(rows[first].tolist()):
                yield part.entry(row).file, there[group.ravel() == number]

    def folders(self, files: TableFiles, at: np.ndarray) -> list[FilesOfFolder]:
        """Where some files lie, in their order, as `TableFiles.readable_path` has it.

        Raises:
            UnsupportedError: as there.
        """
        names, places = self.names(at), self.places(at)
        splits, schemas = self.split_of[at], self.live.numbers("_FILE._SCHEMA_ID", self.rows[at])
        starts = np.ones(len(at), bool)
        starts[1:] = (splits[1:] != splits[:-1]) | (schemas[1:] != schemas[:-1])
        for index in places:
            starts[index : index + 2] = True
        begins = np.flatnonzero(starts)
        found: list[FilesOfFolder] = []
        for split, schema_id, (begin, end) in zip(
            splits[begins].tolist(),
            schemas[begins].tolist(),
            pairwise([*begins.tolist(), len(at)]),
            strict=True,
        ):
            if begin in places:
                folder, _, name = files.path_of_uri(places[begin]).rpartition("/")
                found.append(FilesOfFolder(folder, [name]))
            else:
                folder = files.bucket_dir(self.splits[split].place, schema_id)
                found.append(FilesOfFolder(folder, names[begin:end]))
        return found

    def splits_of(self, at: np.ndarray) -> Iterator[tuple[DataSplit, PlannedFiles]]:
        """Each split that some files in ascending order are of, with those of its files."""
        rows, bounds = self.rows[at], np.searchsorted(at, self.bounds).tolist()
        for split, (begin, end) in zip(self.splits, pairwise(bounds), strict=True):
            if begin < end:
                yield split, PlannedFiles(self.live, rows, begin, end)

    def _texts(self, name: str, at: np.ndarray) -> list[str]:
        found: list[str] = self.live.texts(name, self.rows[at]).cast(pa.large_string()).to_pylist()
        return found


def split_columns(splits: Sequence[DataSplit]) -> SplitColumns:
    """The files of splits, of a plan or of any others."""
    bounds = np.cumsum([0, *(len(split.files) for split in splits)])
    planned = [split.files for split in splits if isinstance(split.files, PlannedFiles)]
    if len(planned) == len(splits) and len({id(each.live) for each in planned}) == 1:
        rows = np.concatenate([each.rows for each in planned])
        return SplitColumns(splits, planned[0].live, rows, bounds)
    entries = tuple(
        ManifestEntry(
            kind=FileKind.ADD,
            partition=split.partition,
            bucket=split.bucket,
            total_buckets=-1,
            file=file,
        )
        for split in splits
        for file in split.files
    )
    rows = np.arange(len(entries))
    return SplitColumns(splits, LiveColumns((ObjectEntries(entries),), rows), rows, bounds)
