"""The manifests that a change of a primary-key table's keys publishes, written before the swap.

There are three kinds: removals of the old files, the new files as bridged entries, and the new
files under the new keys. A round that writes partitions anew adds small manifests of each kind, so
it costs what changed:

* New files that it replaced are removed again in the manifests of their kind.
* Old files that others removed are added before all removals, so both cancel each other out: a
  snapshot removes no file twice.

A file that one of them removes is added before, and never again: clients that join all removals of
a state before they look at what it adds would miss it. If it came back, all are rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from lakewright.storage.errors import StorageError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.respec.bridged_entries import Staged, bridged_entries
from lakewright.storage.operations.respec.followed import rows_of, write_proved
from lakewright.storage.operations.running.delete_files import discard_files
from lakewright.storage.spec.commit import PreparedBase, PreparedDelta, RestatedBase
from lakewright.storage.spec.manifest import (
    EntryIdentity,
    FileKind,
    ManifestEntry,
    ManifestFileMeta,
)
from lakewright.storage.spec.partition import PartitionKeys


@dataclass
class SwapManifests:
    """What is written for a swap; `schema_id` is the schema that bridged entries name.

    `files` is the table under its present keys, and `now` under the new ones.
    """

    files: TableFiles
    now: TableFiles
    schema_id: int
    rows_before: int = 0
    rows: int = 0
    _removals: list[ManifestFileMeta] = field(default_factory=list)
    _bridged: list[ManifestFileMeta] = field(default_factory=list)
    _exact: list[ManifestFileMeta] = field(default_factory=list)
    _written: list[str] = field(default_factory=list)
    _cancelled: set[EntryIdentity] = field(default_factory=set)
    _names: set[str] = field(default_factory=set)
    _dropped: set[str] = field(default_factory=set)

    def can_follow(self, changed: Iterable[ManifestEntry]) -> bool:
        """Whether small manifests tell what changed: no file came back that had been removed."""
        return all(each.identity not in self._cancelled for each in changed)

    def can_add(self, staged: Iterable[Staged]) -> bool:
        """Whether no manifest removes one of these new files, which was staged once before."""
        return all(each.entry.file.file_name not in self._dropped for each in staged)

    def anew(self) -> SwapManifests:
        """Delete what is written, to write the whole again."""
        self.discard()
        return SwapManifests(self.files, self.now, self.schema_id)

    def add(
        self,
        changed: Sequence[ManifestEntry],
        staged: Sequence[Staged],
        dropped: Sequence[Staged] = (),
    ) -> None:
        """Follow a round: what others changed, and the new files that came and went for it.

        The data files and the manifests are durable afterwards.
        """
        came = [each.removed() for each in changed if each.kind is FileKind.ADD]
        gone = [each for each in changed if each.kind is FileKind.DELETE]
        row_keys, bridged = self._bridged_entries(staged)
        _, bridged_before = self._bridged_entries(dropped)
        before = len(self._written)
        cancelling = self._write(self.files, None, [_added(each) for each in gone])
        removing = self._write(self.files, None, came)
        self._removals = [*cancelling, *self._removals, *removing]
        self._bridged += self._write(
            self.files, row_keys, [*(each.removed() for each in bridged_before), *bridged]
        )
        exact = self._in_order(each.entry for each in staged)
        exact_before = [each.entry.removed() for each in dropped]
        self._exact += self._write(self.now, self.now.partitions.keys, [*exact_before, *exact])
        self._cancelled |= {each.identity for each in gone}
        names = {each.entry.file.file_name for each in dropped}
        self._dropped |= names
        self._names -= names
        self._names |= {each.file.file_name for each in exact}
        self.rows_before += sum(map(rows_of, changed))
        self.rows += sum(map(rows_of, [*exact_before, *exact]))
        data = {path for each in exact for path in self.now.entry_paths(each)}
        manifests = map(self.files.paths.manifest, self._written[before:])
        self.files.fs.make_durable([*sorted(data), *manifests], below=self.files.paths.root)

    def delta(self) -> PreparedDelta:
        """What the first snapshot of the swap changes: old files go, and bridged entries come."""
        return PreparedDelta(
            manifests=(*self._removals, *self._bridged),
            rows=self.rows - self.rows_before,
            added=frozenset(self._names),
        )

    @property
    def bridged(self) -> Sequence[ManifestFileMeta]:
        """The manifests of the bridged entries."""
        return self._bridged

    def exact(self, written: list[str]) -> PreparedBase:
        """A list of the manifests under the new keys; adds its name to `written`."""
        files = self.files
        name, size = files.manifests.write_list(
            self._exact, compression=files.options.manifest_compression, written=written
        )
        files.fs.make_durable([files.paths.manifest(name)], below=files.paths.root)
        return PreparedBase(list_name=name, list_size=size, rows=self.rows)

    def discard(self) -> None:
        """Delete the manifests, which no snapshot names."""
        with suppress(StorageError):
            discard_files(self.files.fs, map(self.files.paths.manifest, self._written))

    def _bridged_entries(
        self, staged: Sequence[Staged]
    ) -> tuple[PartitionKeys, tuple[ManifestEntry, ...]]:
        return bridged_entries(self.files, self.now, staged, self.schema_id)

    def _in_order(self, entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
        of_row = self.now.partitions.of_row
        return sorted(entries, key=lambda each: (of_row(each.partition).order, each.bucket))

    def _write(
        self, files: TableFiles, keys: PartitionKeys | None, entries: Sequence[ManifestEntry]
    ) -> list[ManifestFileMeta]:
        if not entries:
            return []
        return write_proved(files, RestatedBase(keys=keys, entries=entries), self._written)


def _added(entry: ManifestEntry) -> ManifestEntry:
    return replace(entry, kind=FileKind.ADD)
