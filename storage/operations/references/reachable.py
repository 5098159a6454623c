"""The files that roots keep; every deletion computes them first.

A root is a snapshot, a tag or a changelog, on main or on a branch:

* A snapshot keeps its state, manifests and lists, changelog, index files and statistics.
* A tag keeps the same without the changelog, which is deleted when its snapshot expires.
* A long-lived changelog keeps its changelog files; without a changelog producer it keeps the
  files that its commit added.

Branches share the folders of data, manifests and index files. So a process that deletes a root
reads the roots of all branches. If a root that stays cannot be read, nothing is deleted, since
the files that it keeps are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.errors import SchemaNotFound, UnreadableManifest
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.numbered import Numbered
from lakewright.storage.operations.references.roots import Root, RootKind
from lakewright.storage.operations.running.plan import UnreachableFile
from lakewright.storage.operations.state.branch_files import is_whole_branch
from lakewright.storage.operations.state.lineage import Chain
from lakewright.storage.spec.bridge_record import BridgeRecord
from lakewright.storage.spec.index import IndexEntry
from lakewright.storage.spec.manifest import (
    EntryIdentity,
    FileKind,
    FileSource,
    ManifestEntry,
    ManifestFileMeta,
)
from lakewright.storage.spec.snapshot import Snapshot

_T = TypeVar("_T")
# A manifest of some hundred entries.
_LARGE_BYTES = 1 << 16
# About 100 MB of them.
_MOST_ENTRIES = 250_000


# --- what they keep ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Entry:
    """The parts of a manifest entry that this module needs."""

    kind: FileKind
    identity: EntryIdentity
    source: FileSource | None
    size_bytes: int
    paths: tuple[str, ...]


@dataclass(slots=True)
class _LastRead:
    """The entries of the manifests that were read last; roots that follow each other share them."""

    by_name: dict[str, tuple[_Entry, ...]] = field(default_factory=dict)
    size: int = 0

    def get(self, name: str) -> tuple[_Entry, ...] | None:
        return self.by_name.get(name)

    def keep(self, name: str, entries: tuple[_Entry, ...]) -> None:
        self.by_name[name] = entries
        self.size += len(entries)
        while self.size > _MOST_ENTRIES and len(self.by_name) > 1:
            self.size -= len(self.by_name.pop(next(iter(self.by_name))))


@dataclass(frozen=True)
class Reach:
    """Computes the files that roots keep; reads a manifest once for roots that share it.

    An earlier attempt may have deleted manifests of a root that is being deleted. With `present`,
    the paths of the existing manifests, missing ones count as empty. With `forgiving`, missing and
    unreadable ones count as empty, and `unreadable` names the unreadable ones. Otherwise both are
    errors. With `wanted`, only these data files are remembered, or those of these names.
    """

    present: Collection[str] | None = None
    forgiving: bool = False
    wanted: Collection[str] | Numbered | None = None
    # Paths of files that exist but are unreadable; sizes in bytes of the files that roots name.
    unreadable: set[str] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)
    # Names of files outside of the table. A table that was moved has them inside.
    elsewhere: set[str] = field(default_factory=set)
    _manifests: _LastRead = field(default_factory=_LastRead)
    _tables: dict[tuple[str, int], TableFiles] = field(default_factory=dict)
    _folders: dict[tuple[str, int, int, bytes, int], str] = field(default_factory=dict)

    def state(self, root: Root) -> dict[str, int]:
        """Data files live in the state of a snapshot, with their sizes in bytes."""
        live: dict[EntryIdentity, _Entry] = {}
        snapshot = root.snapshot
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            for entry in self._entries(root, name):
                if entry.kind is FileKind.ADD:
                    live[entry.identity] = entry
                else:
                    live.pop(entry.identity, None)
        return {path: entry.size_bytes for entry in live.values() for path in entry.paths}

    def added(self, root: Root) -> dict[str, int]:
        """Data files that the commit of a snapshot added, or moved to another level."""
        return _paths(each for each in self._net(root) if each.kind is FileKind.ADD)

    def removed(self, root: Root) -> dict[str, int]:
        """Data files that the commit of a snapshot removed for good."""
        entries = self._net(root)
        # Moving a file to another level removes and adds the same file.
        added = _paths(entry for entry in entries if entry.kind is FileKind.ADD)
        removed = _paths(entry for entry in entries if entry.kind is FileKind.DELETE)
        return {path: size for path, size in removed.items() if path not in added}

    def _net(self, root: Root) -> list[_Entry]:
        """The entries of a snapshot's commit; a file that it adds and then removes is in none.

        A change of partition keys tells so that others removed a file, which it would remove.
        """
        found: dict[EntryIdentity, _Entry] = {}
        for entry in self._entries(root, root.snapshot.delta_manifest_list):
            before = found.pop(entry.identity, None)
            if before is None or before.kind is entry.kind or entry.kind is FileKind.ADD:
                found[entry.identity] = entry
        return list(found.values())

    def changelog(self, root: Root) -> dict[str, int]:
        """Changelog files of a commit; for a changelog without a producer its added data files."""
        lists = self._lists(root)
        snapshot = root.snapshot
        found: dict[str, int] = {}
        if snapshot.changelog_manifest_list in lists:
            entries = self._entries(root, snapshot.changelog_manifest_list)
            found |= _paths(entry for entry in entries if entry.kind is FileKind.ADD)
        if root.kind is RootKind.CHANGELOG and snapshot.delta_manifest_list in lists:
            found |= _paths(
                entry
                for entry in self._entries(root, snapshot.delta_manifest_list)
                if entry.kind is FileKind.ADD and entry.source is not FileSource.COMPACT
            )
        return found

    def data(self, root: Root) -> dict[str, int]:
        """Every file in a bucket's folder that a root keeps."""
        match root.kind:
            case RootKind.SNAPSHOT:
                return {**self.state(root), **self.changelog(root)}
            case RootKind.TAG:
                return self.state(root)
            case RootKind.CHANGELOG:
                return self.changelog(root)

    def data_of_all(self, roots: Iterable[Root]) -> dict[str, int]:
        """Every file in a bucket's folder that several roots keep."""
        found: dict[str, int] = {}
        for data in self.data_in_parts(roots):
            found |= data
        return found

    def data_in_parts(self, roots: Iterable[Root]) -> Iterator[dict[str, int]]:
        """For each root, the files in buckets' folders that it keeps and no root before it.

        In a chain of snapshots, each on top of the one before, only the first state is folded. For
        the others only their added files are read. A tag of a snapshot among them keeps no more.
        """
        before: Root | None = None
        chain: Chain | None = None
        states: set[tuple[str, str, str | None]] = set()
        for root in roots:
            if root.kind is not RootKind.SNAPSHOT:
                if root.kind is not RootKind.TAG or _state_of(root.snapshot) not in states:
                    yield self.data(root)
                continue
            states.add(_state_of(root.snapshot))
            if chain is None or before is None or before.branch != root.branch:
                chain = Chain(root.files.manifests)
            goes_on = chain.goes_on(root.snapshot)
            if goes_on and before is not None and before.snapshot.id + 1 == root.snapshot.id:
                yield self.added(root) | self.changelog(root)
            else:
                yield self.data(root)
            before = root

    def metadata(self, root: Root) -> set[str]:
        """Paths of the lists, manifests, index and statistics files that a root keeps."""
        return self.metadata_of_all([root])

    def metadata_of_all(self, roots: Iterable[Root]) -> set[str]:
        """Paths of the lists, manifests, index and statistics files that several roots keep."""
        found: set[str] = set()
        # Most lists repeat the one before: only what they add is looked at.
        folder = ""
        before: tuple[ManifestFileMeta, ...] = ()
        for root in roots:
            paths = root.files.paths
            if paths.manifest_dir != folder:
                folder, before = paths.manifest_dir, ()
            for name in self._lists(root):
                found.add(paths.manifest(name))
                metas = self._listed(root, name)
                begun = len(before) if metas[: len(before)] == before else 0
                for meta in metas[begun:]:
                    path = paths.manifest(meta.file_name)
                    found.add(path)
                    self.sizes[path] = meta.file_size
                before = metas if len(metas) >= len(before) else before
            found |= self._beside_lists(root)
        return found

    def _beside_lists(self, root: Root) -> set[str]:
        """Paths of the index and statistics files that a root keeps."""
        paths, snapshot = root.files.paths, root.snapshot
        found: set[str] = set()
        if root.kind is RootKind.CHANGELOG:
            return found
        if snapshot.index_manifest is not None:
            found.add(paths.manifest(snapshot.index_manifest))
            for entry in self._indexes(root, snapshot.index_manifest):
                if entry.file.external_path is None:
                    path = paths.index(entry.file.file_name)
                    found.add(path)
                    self.sizes[path] = entry.file.file_size
        if snapshot.statistics is not None:
            found.add(paths.statistics(snapshot.statistics))
        return found

    def is_elsewhere(self, path: str) -> bool:
        """Whether a root that was read names a file of that name outside of the table.

        After a table was moved, such a name may mean a file that lies in it.
        """
        return path.rpartition("/")[2] in self.elsewhere

    def _lists(self, root: Root) -> list[str]:
        """Names of the manifest lists that a root keeps."""
        snapshot = root.snapshot
        state = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
        # Other writers restore a snapshot from its tag, or copy it to a branch, and delete its
        # changelog with the original.
        record = BridgeRecord.of(snapshot)
        if record is not None:
            # Manifests that the change of partition keys ends with.
            state.append(record.prepared.list_name)
        changelog = [
            name
            for name in (snapshot.changelog_manifest_list,)
            if name is not None and self._exists(root.files.paths.manifest(name), root.files)
        ]
        match root.kind:
            case RootKind.SNAPSHOT:
                return [*state, *changelog]
            case RootKind.TAG:
                return state
            case RootKind.CHANGELOG if self.has_producer(root):
                return changelog
            case RootKind.CHANGELOG:
                # Other writers keep the base list too, but no reader needs it. So it counts for
                # deletion, and not for keeping.
                state = state if self.present is not None else state[1:]
                left = [
                    name
                    for name in state
                    if self._exists(root.files.paths.manifest(name), root.files)
                ]
                return [*left, *changelog]

    def _entries(self, root: Root, list_name: str) -> Iterator[_Entry]:
        for meta in self._listed(root, list_name):
            name = meta.file_name
            entries = self._manifests.get(name)
            if entries is None:
                if not self._is_present(root.files.paths.manifest(name)):
                    continue
                entries = self._forgiven(root, partial(self._read, root, meta))
                self._manifests.keep(name, entries)
            yield from entries

    def _read(self, root: Root, meta: ManifestFileMeta) -> tuple[_Entry, ...]:
        manifests = root.files.manifests
        if self._wanted_array is None or meta.file_size < _LARGE_BYTES:
            entries = manifests.read_listed(meta)
            return tuple(self._entry(root, entry) for entry in entries if self._is_wanted(entry))
        # Of a large manifest only the wanted entries become objects.
        columns = manifests.read_columns(meta)
        names = columns.texts("_FILE._FILE_NAME")
        if isinstance(self._wanted_array, Numbered):
            named = self._wanted_array.mark_bytes(names)
        else:
            named = pc.is_in(names, self._wanted_array).to_numpy(zero_copy_only=False)
        is_plain = columns.are_plain(np.arange(len(columns)))
        chosen = np.flatnonzero(named | ~is_plain)
        found = map(columns.entry, chosen.tolist())
        return tuple(self._entry(root, each) for each in found if self._is_wanted(each))

    def _is_wanted(self, entry: ManifestEntry) -> bool:
        names = self._wanted_names
        file = entry.file
        if names is None or file.file_name in names:
            return True
        return any(extra_file in names for extra_file in file.extra_files)

    @cached_property
    def _wanted_names(self) -> frozenset[str] | Numbered | None:
        if self.wanted is None or isinstance(self.wanted, Numbered):
            return self.wanted
        return frozenset(path.rsplit("/", 1)[-1] for path in self.wanted)

    @cached_property
    def _wanted_array(self) -> pa.LargeBinaryArray | Numbered | None:
        names = self._wanted_names
        if names is None or isinstance(names, Numbered):
            return names
        return pa.array([*map(str.encode, names)], pa.large_binary())

    def _forgiven(self, root: Root, read: Callable[[], tuple[_T, ...]]) -> tuple[_T, ...]:
        """The result of a read; empty if the read fails and `forgiving` is set."""
        try:
            return read()
        except UnreadableManifest as error:
            if not self.forgiving and root.branch:
                raise _of_branch(root, error) from error
            if not self.forgiving:
                raise
            if not error.details.get("missing"):
                self.unreadable.add(str(error.details["path"]))
            return ()

    def _entry(self, root: Root, entry: ManifestEntry) -> _Entry:
        seen = self._seen(root)
        schema_id = entry.file.schema_id
        place = (root.branch, seen.schema.id, schema_id, entry.partition, entry.bucket)
        folder = self._folders.get(place)
        if folder is None:
            folder = self._folders[place] = seen.bucket_dir(entry.place, schema_id)
        path = f"{folder}/{entry.file.file_name}"
        if entry.file.external_path is not None and not seen.is_foreign(entry.file):
            path = seen.data_file_path(entry.place, entry.file)
            folder = path.rpartition("/")[0]
        paths = (path, *(f"{folder}/{name}" for name in entry.file.extra_files))
        if seen.is_foreign(entry.file):
            self.elsewhere.update((entry.file.file_name, *entry.file.extra_files))
        return _Entry(
            kind=entry.kind,
            identity=entry.identity,
            source=entry.file.file_source,
            size_bytes=entry.file.file_size,
            # A file outside of the table is not this table's to keep or to delete.
            paths=() if seen.is_foreign(entry.file) else paths,
        )

    def _listed(self, root: Root, name: str) -> tuple[ManifestFileMeta, ...]:
        path = root.files.paths.manifest(name)
        if not self._is_present(path):
            return ()
        snapshot = root.snapshot
        size = {
            snapshot.base_manifest_list: snapshot.base_manifest_list_size,
            snapshot.delta_manifest_list: snapshot.delta_manifest_list_size,
            snapshot.changelog_manifest_list: snapshot.changelog_manifest_list_size,
        }.get(name)

        def read() -> tuple[ManifestFileMeta, ...]:
            found = root.files.manifests.read_list(name, size=size)
            if size is not None:
                self.sizes[path] = size
            return found

        return self._forgiven(root, read)

    def _indexes(self, root: Root, name: str) -> tuple[IndexEntry, ...]:
        if not self._is_present(root.files.paths.manifest(name)):
            return ()
        return self._forgiven(root, partial(root.files.manifests.read_index_manifest, name))

    def _is_present(self, path: str) -> bool:
        return self.present is None or path in self.present

    def _exists(self, path: str, files: TableFiles) -> bool:
        return path in self.present if self.present is not None else files.fs.exists(path)

    def _seen(self, root: Root) -> TableFiles:
        """The table with the schema of a snapshot, by which its partitions are decoded."""
        key = (root.branch, root.snapshot.schema_id)
        seen = self._tables.get(key)
        if seen is None:
            seen = self._tables[key] = _at_schema(root)
        return seen

    def has_producer(self, root: Root) -> bool:
        """Whether the commit wrote changelog files; otherwise its added files are the changelog."""
        options = self._seen(root).schema.options
        return options.get("changelog-producer", "none").strip().lower() != "none"


def _of_branch(root: Root, error: UnreadableManifest) -> UnreadableManifest:
    """The same error with the branch, and with the way out if the rows are lost."""
    table = root.files.name.partition("$branch_")[0]
    return UnreadableManifest(
        f"{error.message}; {root.kind.value} {root.label} of branch {root.branch} names it, and "
        "Java's expiry of main deletes what branches name: if the branch is not needed any more, "
        f"`lakewright branch delete {table} {root.branch}` lets the others go on",
        **error.details,
    )


def _at_schema(root: Root) -> TableFiles:
    try:
        return root.files.at_schema(root.snapshot.schema_id)
    except SchemaNotFound:
        if not root.branch or is_whole_branch(root.files, root.branch):
            raise
        # The branch is partly deleted. Main's schema serves, since partition keys never change.
        return root.files


def _state_of(snapshot: Snapshot) -> tuple[str, str, str | None]:
    """What two snapshots or tags of the same state have in common."""
    return snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.index_manifest


def _paths(entries: Iterable[_Entry]) -> dict[str, int]:
    return {path: entry.size_bytes for entry in entries for path in entry.paths}


# --- what goes --------------------------------------------------------------------------------


def only_kept_by(
    files: TableFiles, going: Sequence[Root], staying: Sequence[Root]
) -> tuple[UnreachableFile, ...]:
    """Files that no root keeps after some roots are deleted, in the order to delete them."""
    sizes = metadata_sizes(files)
    lost = Reach(present=sizes.keys())
    data = lost.data_of_all(going)
    for root in going:
        if root.kind is RootKind.CHANGELOG:
            # Older changelogs alone may have kept the files that its commit removed.
            data |= lost.removed(root)
    metadata = {path for root in going for path in lost.metadata(root)}
    return unreachable(files, data, metadata, staying, sizes)


def unreachable(
    files: TableFiles,
    data: Mapping[str, int],
    metadata: Collection[str],
    staying: Sequence[Root],
    sizes: Mapping[str, int],
) -> tuple[UnreachableFile, ...]:
    """The given files that no root keeps: data files, then manifests, then their lists."""
    reach = Reach(wanted=data.keys())
    kept_data = reach.data_of_all(staying) if data else {}
    kept_metadata = reach.metadata_of_all(staying)
    gone = {
        path: size
        for path, size in data.items()
        if path not in kept_data and not reach.is_elsewhere(path)
    }
    for path in sorted(set(metadata) - kept_metadata, key=lambda path: (_is_list(path), path)):
        gone[path] = sizes.get(path, 0)
    below = files.paths.root + "/"
    return tuple(UnreachableFile(path.removeprefix(below), size) for path, size in gone.items())


def metadata_sizes(files: TableFiles) -> dict[str, int]:
    """Sizes in bytes of all existing manifests, index and statistics files, by path."""
    folders = (files.paths.manifest_dir, files.paths.index_dir, files.paths.statistics_dir)
    return {each.path: each.size for folder in folders for each in files.fs.list_dir(folder)}


def _is_list(path: str) -> bool:
    return path.rsplit("/", 1)[-1].startswith(("manifest-list-", "index-manifest-"))
