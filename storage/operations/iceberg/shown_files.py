"""The data files and deletion vectors of a snapshot that Iceberg readers are to see.

Of an append table these are all. Of a primary-key table with deletion vectors they are the files
above level 0, of which its own readers see all rows. Of any other primary-key table they are the
files of the deepest level, which need no merge: the rows of the last full compaction.

1. If a snapshot provably follows the one before, under the same schema, its delta says what
   changed.
2. Otherwise its whole state is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.live_files import deletions_by_bucket
from lakewright.storage.operations.state.table_state import ANY_KEYS, TableState, state_at
from lakewright.storage.spec.index import DeletionVectorRange
from lakewright.storage.spec.manifest import FileKind, ManifestEntry
from lakewright.storage.spec.partition import Partition, Place
from lakewright.storage.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A data file, with its location and the partition that it is in."""

    location: str
    entry: ManifestEntry
    partition: Partition


@dataclass(frozen=True, slots=True)
class ShownVector:
    """The deletion vector of a shown data file, in an index file."""

    of: ShownFile
    index_file: str
    where: DeletionVectorRange

    @property
    def name(self) -> str:
        """What tells the vector from all others: index files are written once."""
        return vector_name(self.index_file, self.where)


def vector_name(index_file: str, where: DeletionVectorRange) -> str:
    """The name of a vector by its place."""
    return f"{index_file}-{where.offset}"


@dataclass(frozen=True, slots=True)
class Changes:
    """What a snapshot shows that the one before does not, and what it does not show any more."""

    added: Mapping[str, ShownFile]
    removed: Mapping[str, ShownFile]


@dataclass(frozen=True)
class ShownState:
    """What is shown of one snapshot; `location_root` is the table's place as manifests name it."""

    files: TableFiles
    snapshot: Snapshot
    location_root: str
    _by_partition: dict[bytes, dict[Place, dict[str, ShownFile]]] = field(default_factory=dict)

    @classmethod
    def of(cls, files: TableFiles, snapshot: Snapshot, location_root: str) -> ShownState:
        """The state under the schema of the snapshot."""
        return cls(files.at_schema(snapshot.schema_id), snapshot, location_root)

    @cached_property
    def state(self) -> TableState:
        return state_at(self.files, self.snapshot, takes=ANY_KEYS)

    @cached_property
    def shows(self) -> Callable[[ManifestEntry], bool]:
        """Whether the rows of an entry's file are shown."""
        options = self.files.options
        if not self.files.schema.has_primary_key:
            return lambda entry: entry.bucket >= 0
        least = 1 if options.deletion_vectors_enabled else options.max_level
        return lambda entry: entry.bucket >= 0 and entry.file.level >= least

    def all_files(self) -> dict[str, ShownFile]:
        """Every shown data file by its location."""
        return self._shown(entry for entry in self.state.entries if self.shows(entry))

    def delta(self) -> Changes:
        """What the commit of the snapshot changed."""
        added: dict[str, ShownFile] = {}
        removed: dict[str, ShownFile] = {}
        metas = self.files.manifests.read_delta_list(self.snapshot)
        for entry in self.files.manifests.entries(metas):
            if not self.shows(entry):
                continue
            file = self._file(entry)
            before = added if entry.kind is FileKind.DELETE else removed
            # A file that moves to another level stays as it is.
            if before.pop(file.location, None) is None:
                (removed if entry.kind is FileKind.DELETE else added)[file.location] = file
        return Changes(added, removed)

    def vectors(
        self, shown: Mapping[str, ShownFile] | None, known: Mapping[str, str]
    ) -> tuple[set[str], list[ShownVector]]:
        """The names of the vectors that stay, and the vectors that are new.

        `shown` are all shown files, if they were read. `known` has the locations of the data files
        of vectors by their names, as the snapshot before has them.
        """
        stay: set[str] = set()
        new: list[ShownVector] = []
        by_place: dict[Place, dict[str, ShownFile]] | None = None
        if shown is not None:
            by_place = {}
            for file in shown.values():
                by_place.setdefault(file.entry.place, {})[file.entry.file.file_name] = file
        for place, vectors in deletions_by_bucket(self.state.indexes).items():
            for index_file, where in vectors:
                name = vector_name(index_file, where)
                if name in known and known[name].endswith(f"/{where.data_file}"):
                    stay.add(name)
                    continue
                there = self._of_partition(place) if by_place is None else by_place
                of = there.get(place, {}).get(where.data_file)
                if of is not None:
                    new.append(ShownVector(of, index_file, where))
        return stay, new

    def _of_partition(self, place: Place) -> dict[Place, dict[str, ShownFile]]:
        found = self._by_partition.get(place.partition)
        if found is None:
            found = self._by_partition[place.partition] = {}
            entries = self.state.entries_of([place.partition])
            for file in self._shown(each for each in entries if self.shows(each)).values():
                found.setdefault(file.entry.place, {})[file.entry.file.file_name] = file
        return found

    def _shown(self, entries: Iterable[ManifestEntry]) -> dict[str, ShownFile]:
        return {file.location: file for file in map(self._file, entries)}

    def _file(self, entry: ManifestEntry) -> ShownFile:
        files = self.files
        if files.is_foreign(entry.file):
            location = str(entry.file.external_path)
        else:
            below = files.data_file_path(entry.place, entry.file).removeprefix(files.paths.root)
            location = self.location_root + below
        return ShownFile(location, entry, files.partitions.of_entry(entry))
