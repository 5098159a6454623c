"""Manifests of a whole table under other partition keys, written before the keys change.

To restate every entry takes seconds where there are very many files, and writers commit meanwhile.
So the manifests of the whole are written beforehand, of one snapshot, and no snapshot names them
yet. What others commit after it is read from their deltas, and restated in small manifests that
follow. A committer that loses a race restates no more than what the winner changed.

Where what others changed is not sure (`followed.py`), the whole is written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from lakewright.storage.errors import CommitConflictError, CommitOutcomeUnknownError, StorageError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.restated_base import Restatement, known_values
from lakewright.storage.operations.read.key_values import KeyValues
from lakewright.storage.operations.respec.followed import (
    catch_up,
    changed_between,
    rows_of,
    write_proved,
)
from lakewright.storage.operations.respec.respec_checks import check_columns_stay
from lakewright.storage.operations.respec.schemas import Schemas
from lakewright.storage.operations.running.delete_files import discard_files
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.state.table_state import TableState
from lakewright.storage.spec.commit import Change, PreparedBase, RestatedBase
from lakewright.storage.spec.index import IndexEntry
from lakewright.storage.spec.manifest import (
    EntryIdentity,
    FileKind,
    ManifestEntry,
    ManifestFileMeta,
)
from lakewright.storage.spec.partition import PartitionKeys
from lakewright.storage.spec.snapshot import Snapshot

_Pairs = list[tuple[ManifestEntry, ManifestEntry]]


class SeveralValues(CommitConflictError):
    """A live file holds several values of the new keys; it must be split first."""


@dataclass
class _Layer:
    """The whole under some keys: its manifests, and what became of each entry and index."""

    how: Restatement
    metas: list[ManifestFileMeta] = field(default_factory=list)
    became: dict[EntryIdentity, EntryIdentity] = field(default_factory=dict)
    indexes: dict[IndexEntry, tuple[IndexEntry, ...]] = field(default_factory=dict)
    _is_named: bool = False

    def write(
        self, entries: Sequence[ManifestEntry], written: list[str]
    ) -> tuple[_Pairs, list[ManifestFileMeta]]:
        """Restate entries, and write manifests of them; they are read back.

        Raises:
            VerificationFailed: the store holds other entries than were written.
        """
        pairs = self.how.restated(entries)
        if not pairs:
            return [], []
        base = RestatedBase(keys=self.how.keys, entries=[now for _, now in pairs])
        return pairs, write_proved(self.how.files, base, written)

    def take(self, pairs: _Pairs, metas: Iterable[ManifestFileMeta]) -> None:
        """Add what was written."""
        self.metas += metas
        for entry, now in pairs:
            if entry.kind is FileKind.ADD:
                self.became[entry.identity] = now.identity
            else:
                del self.became[entry.identity]

    def follow_itself(self) -> None:
        """Go on from a snapshot that names this layer: its entries are the restated ones."""
        # Writers wait now, and most often nothing follows.
        self._is_named = True

    def knows(self, identity: EntryIdentity) -> bool:
        """Whether a file is in the manifests, by what the snapshot that they follow calls it."""
        if self._is_named:
            self.became = {each: each for each in self.became.values()}
            self._is_named = False
        return identity in self.became

    def restated_indexes(self, entries: Iterable[IndexEntry]) -> tuple[IndexEntry, ...]:
        """The indexes under the keys; one that was met before is not restated again."""
        rows: dict[str, bytes] = {}
        found: list[IndexEntry] = []
        for entry in entries:
            if entry not in self.indexes:
                rows = rows or {each.file_name: each.partition for each in self.became.values()}
                name = f"{self.how.run_id}-{len(self.indexes)}"
                self.indexes[entry] = tuple(self.how.restated_index(entry, rows, name))
            found += self.indexes[entry]
        return tuple(found)


@dataclass
class Prepared:
    """The manifests that a change of the keys publishes, as of the snapshot `at`.

    `wide` has rows of the longer list of keys, and `exact` those of the new keys in the new schema;
    without it the wide manifests are right for the new schema, too. Entries in `several` belong to
    files with several values of the keys, and are in no manifest.
    """

    files: TableFiles
    keys: tuple[str, ...]
    values: KeyValues
    engine: Engine
    at: Snapshot | None = None
    several: dict[EntryIdentity, ManifestEntry] = field(default_factory=dict)
    rows: int = 0
    _wide: _Layer | None = None
    _exact: _Layer | None = None
    _schemas: Schemas | None = None
    _schema_ids: frozenset[int] = frozenset()
    _written: list[str] = field(default_factory=list)
    _published: set[str] = field(default_factory=set)

    @property
    def schemas(self) -> Schemas:
        """The schemas to create."""
        assert self._schemas is not None
        return self._schemas

    @property
    def file_count(self) -> int:
        """How many files the manifests name."""
        return len(self.several) + (0 if self._wide is None else len(self._wide.became))

    def begin_again(self, files: TableFiles) -> None:
        """Prepare the whole anew, for a table whose former keys came back in another schema."""
        self.files, self.at = files, None

    def catch_up(self) -> None:
        """Prepare the whole, if it is not, and then what others committed meanwhile."""
        catch_up(self.files, lambda: self.at, self.follow)

    def follow(self, latest: Snapshot) -> None:
        """Bring the manifests from the snapshot `at` to a later one."""
        changed = self._changed_since(latest)
        if changed is None:
            self._begin(latest)
            changed = TableState(self.files, latest).standing
        self._add(latest, changed)

    def wide_change(self, latest: Snapshot, present: Sequence[IndexEntry]) -> Change:
        """The base with rows of the longer list of keys, for a commit after `latest`.

        `present` are the index files of `latest`.

        Raises:
            SeveralValues: a file must be split first.
        """
        self.follow(latest)
        self._check_single()
        assert self._wide is not None
        return self._change(latest, self._wide, self._wide.metas, present)

    def exact_change(self, latest: Snapshot, present: Sequence[IndexEntry]) -> Change:
        """The base with rows of the new keys, for a commit after `latest`, in the new schema.

        `present` are the index files of `latest`.

        Raises:
            SeveralValues: another client has committed a file that must be split first.
        """
        self.follow(latest)
        self._check_single()
        if self._exact is not None:
            return self._change(latest, self._exact, self._exact.metas, present)
        assert self._wide is not None
        # The same manifests, in a list that tells the new schema.
        metas = [replace(meta, schema_id=self.schemas.latest.id) for meta in self._wide.metas]
        return self._change(latest, self._wide, metas, present)

    def published(self, snapshot: Snapshot, *, wide: bool) -> None:
        """Take note of a snapshot that names prepared manifests; the next ones follow it."""
        layer = self._wide if wide or self._exact is None else self._exact
        assert layer is not None
        self.at = snapshot
        self._published |= {meta.file_name for meta in layer.metas}
        self._published |= {snapshot.base_manifest_list}
        self._published |= {e.file.file_name for own in layer.indexes.values() for e in own}
        layer.follow_itself()

    @contextmanager
    def discarded_in_the_end(self) -> Iterator[None]:
        """Delete what no snapshot names at the end, unless a snapshot may name it unseen."""
        try:
            yield
        except CommitOutcomeUnknownError:
            raise
        except StorageError:
            self.discard()
            raise
        self.discard()

    def discard(self) -> None:
        """Delete what was written and no snapshot names."""
        files = self.files
        layers = [each for each in (self._wide, self._exact) if each is not None]
        copied = {
            each.file.file_name
            for layer in layers
            for entry, own in layer.indexes.items()
            for each in own
            if each.file != entry.file
        }
        names = [*map(files.paths.manifest, set(self._written) - self._published)]
        names += map(files.paths.index, copied - self._published)
        with suppress(StorageError):
            discard_files(files.fs, names)
        self._written.clear()

    # --- what others change -------------------------------------------------------------------

    def _changed_since(self, latest: Snapshot) -> list[ManifestEntry] | None:
        """What commits after `at` added and removed, up to `latest`; None if that is not sure."""
        if self.at is None:
            return None
        found = changed_between(self.files, self.at, latest, self._is_known)
        return None if found is None or self._needs_other_schemas(found) else found

    def _is_known(self, identity: EntryIdentity) -> bool:
        wide = self._wide
        return identity in self.several or (wide is not None and wide.knows(identity))

    def _needs_other_schemas(self, entries: Iterable[ManifestEntry]) -> bool:
        ids = {entry.file.schema_id for entry in entries} - self._schema_ids
        if not ids or self._schemas is None:
            return bool(ids)
        found = Schemas.of(self.files, self.keys, self._schema_ids | ids)
        return found.ids != self._schemas.ids

    # --- what is written ----------------------------------------------------------------------

    def _begin(self, latest: Snapshot) -> None:
        """Forget what is prepared, and choose the keys and schemas of the whole."""
        self.discard()
        files, old = self.files, self.files.schema.partition_keys
        self.at, self.several, self.rows = None, {}, 0
        self._wide = self._exact = self._schemas = None
        ids = {entry.file.schema_id for entry in TableState(files, latest).entries}
        # Clients that opened the table before write files of its present schema.
        self._schema_ids = frozenset(ids | {files.schema.id})
        run_id = files.env.new_id()
        self._schemas = Schemas.of(files, self.keys, self._schema_ids)
        # Rows of keys that go are the longer ones already, and those of other clients are theirs.
        comes = len(self.keys) > len(old)
        keys = _keys_of(files, self.keys) if comes else None
        self._wide = _Layer(self._how(files, keys, {}, f"{run_id}-0"))
        if self._schemas.ids or not comes:
            now = replace(files, schema=self._schemas.latest)
            how = self._how(now, now.partitions.keys, self._schemas.ids, f"{run_id}-1")
            self._exact = _Layer(how)

    def _how(
        self, files: TableFiles, keys: PartitionKeys | None, ids: Mapping[int, int], run_id: str
    ) -> Restatement:
        return Restatement(
            files=files,
            keys=keys,
            values_of=known_values(files, self.engine, self.values),
            schemas=ids,
            run_id=run_id,
        )

    def _add(self, latest: Snapshot, changed: Sequence[ManifestEntry]) -> None:
        """Restate what a snapshot changed in each layer; all of it, or nothing."""
        added = [each for each in changed if each.kind is FileKind.ADD]
        check_columns_stay(self.files, self.keys, added)
        self.values.look(added, self.engine)
        several = {e.identity: e for e in added if self.values.single(e.file) is None}
        gone = {each.identity for each in changed if each.identity in self.several}
        apart = gone | several.keys()
        single = [each for each in changed if each.identity not in apart]
        before = len(self._written)
        parts: list[tuple[_Layer, _Pairs, list[ManifestFileMeta]]] = []
        for layer in (self._wide, self._exact):
            if layer is not None:
                source = [now for _, now in parts[0][1]] if parts else single
                parts.append((layer, *layer.write(source, self._written)))
        manifests = [*map(self.files.paths.manifest, self._written[before:])]
        if manifests:
            self.files.fs.make_durable(manifests, below=self.files.paths.root)
        for part in parts:
            part[0].take(*part[1:])
        self.several = {
            identity: each
            for identity, each in {**self.several, **several}.items()
            if identity not in gone
        }
        self.rows += sum(map(rows_of, changed))
        self.at = latest

    def _check_single(self) -> None:
        for each in self.several.values():
            names = ", ".join(field.name for field in self.values.fields)
            raise SeveralValues(
                f"data file {each.file.file_name} of {self.files.name} holds several values of "
                f"{names}"
            )

    def _change(
        self,
        latest: Snapshot,
        layer: _Layer,
        metas: Sequence[ManifestFileMeta],
        present: Sequence[IndexEntry],
    ) -> Change:
        files, indexes = self.files, layer.restated_indexes(present)
        name, size = files.manifests.write_list(
            metas, compression=files.options.manifest_compression, written=self._written
        )
        files.fs.make_durable([files.paths.manifest(name)], below=files.paths.root)
        return Change(
            prepared=PreparedBase(list_name=name, list_size=size, rows=self.rows),
            new_indexes=indexes,
            removed_indexes=present,
            statistics=latest.statistics,
        )


def _keys_of(files: TableFiles, names: Sequence[str]) -> PartitionKeys:
    """Keys that the present schema does not have yet."""
    return replace(files.partitions.keys, fields=files.schema.fields_of(names))
