"""Publishing: brings a table's Iceberg metadata up to its snapshots, of any writer.

1. List snapshots, tags, and records of roots that are about to go (`references/condemn.py`). Read
   the current version of the metadata.
2. Of the current version, keep the snapshots that are there still and were made of these. Make the
   later ones, each from the one before. After a first publication these are all; before it, the
   last hundred at most.
3. Make the new files durable, then write version N, N being the id of the latest snapshot, and the
   hint. Delete versions beyond N, which a rollback has left.
4. List again. If anything changed meanwhile, begin anew: of several processes the last one to write
   sees what the others did, so that no version names for long what is about to go.
5. Delete what was retired an hour ago: files that no snapshot of the current version names are kept
   for that time for readers of former versions, which list them in a property.

A snapshot leaves the metadata before its files go: `condemn` publishes without it. All of it can be
made again from the table, so a failure after a commit fails no commit, and nothing is recorded.

Source: Paimon `IcebergCommitCallback`; Iceberg specification, chapter Table Metadata.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

from pyiceberg.exceptions import ValidationError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataV2
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import (
    CorruptionError,
    FileMissing,
    SnapshotNotFound,
    TagNotFound,
    UnsupportedError,
)
from lakewright.storage.files.put_files import put_new
from lakewright.storage.files.rounds import Rounds
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.iceberg.iceberg_types import (
    check_promotable,
    iceberg_schema,
    name_mapping,
)
from lakewright.storage.operations.iceberg.manifests import ManifestSets
from lakewright.storage.operations.iceberg.metadata_files import (
    DELTA_LIST,
    RETIRED,
    MetadataFiles,
    check_publishable,
    is_made_of,
    versions_of,
)
from lakewright.storage.operations.iceberg.metadata_io import MetadataIO
from lakewright.storage.operations.iceberg.named_files import unnamed_files
from lakewright.storage.operations.iceberg.published_snapshot import SnapshotMaker, Specs
from lakewright.storage.operations.iceberg.shown_files import ShownState
from lakewright.storage.operations.running.delete_files import delete_files, discard_files
from lakewright.storage.operations.state.lineage import Chain
from lakewright.storage.operations.state.store_clock import read_store_clock
from lakewright.storage.spec import snapshot as ours

_MAIN = "main"
_NAME_MAPPING = "schema.name-mapping.default"
# For so long a reader may use a version that is not the current one.
_KEPT_MS = 3_600_000
# So many former versions go at once, unless a run asks for it: a deletion flushes the disk.
_VERSIONS_AT_ONCE = 8
# What no version names is what a publication left that died; one that runs is younger.
_LOST_MS = 86_400_000
# A first publication, or one after a long time, makes no more snapshots than these.
_MOST_MADE = 100
# What reading damaged metadata raises, of the table and in pyiceberg.
_DAMAGED = (
    *(CorruptionError, FileMissing, ValidationError),
    *(ValueError, LookupError, TypeError, EOFError, zlib.error),
)
# Times of files may be rounded.
_ROUNDED_MS = 2_000


@dataclass(slots=True, kw_only=True)
class Publication:
    """What a publication did; `version` is None if there was nothing to publish."""

    version: int | None = None
    snapshots: int = 0
    files_added: int = 0
    files_removed: int = 0
    files_written: int = 0
    files_deleted: int = 0


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a publication is made of, as it is listed."""

    snapshots: Mapping[int, FileStatus]
    tags: Mapping[str, FileStatus]
    going: frozenset[str]


def publish(files: TableFiles, *, going: Collection[str] = (), sweeps: bool = False) -> Publication:
    """Publish the table's snapshots and tags without roots that are about to go, by their paths.

    A run that `sweeps` also deletes what dead publications have left.

    Raises:
        UnsupportedError: Iceberg readers cannot read the table as it is; the message says why.
        CorruptionError: metadata of the table cannot be read.
    """
    own = MetadataFiles.of(files)
    check_publishable(own.files)
    done = Publication()
    rounds = Rounds(files.name, "its Iceberg metadata was written")
    anew = False
    while True:
        rounds.begin()
        seen = _look(own.files, going)
        files = own.files.refreshed().reading_once()
        one = _Round(MetadataFiles(files, own.folder), seen, done, anew)
        try:
            is_current = one.run()
        except _DAMAGED:
            # An expiry may have deleted what was read; else it may be the metadata of before.
            if _look(own.files, going) == seen:
                if anew:
                    raise
                anew = True
            continue
        if is_current or _look(own.files, going) == seen:
            break
    if sweeps or done.version is not None:
        _retire(own, done, sweeps=sweeps)
    return done


def _look(files: TableFiles, going: Collection[str]) -> _Seen:
    paths = files.paths
    snapshots = files.snapshots.listed()
    latest = max(snapshots, default=None)
    gone = set(going)
    for record_id in files.condemned.listed():
        record = files.condemned.read(record_id)
        if record is not None and not record.done:
            gone |= {paths.below(root.path) for root in record.roots}
    if latest is not None and paths.snapshot(latest) not in going:
        # A rollback that died must not hold up what is published.
        gone.discard(paths.snapshot(latest))
    tags = {
        each.name.removeprefix("tag-"): each
        for each in files.fs.list_dir(paths.tag_dir)
        if each.name.startswith("tag-") and each.path not in gone
    }
    return _Seen(
        {each: status for each, status in snapshots.items() if status.path not in gone},
        tags,
        frozenset(gone),
    )


@dataclass
class _Round:
    """One attempt to write a version of what was seen."""

    own: MetadataFiles
    seen: _Seen
    done: Publication
    # Whether to take nothing from the current version, which may be damaged.
    anew: bool = False
    versions: dict[int, FileStatus] = field(default_factory=dict)
    _of_tags: dict[int, ours.Snapshot] = field(default_factory=dict)

    def run(self) -> bool:
        """Write a version if the current one is behind; whether it was current."""
        own = self.own
        self.versions = versions_of(own.listed())
        base = self._base()
        root = own.location(None if base is None else base.location)
        io = MetadataIO(own.files.fs, own.folder)
        try:
            metadata = self._metadata(base, root, io)
            if metadata is None:
                return True
            own.files.fs.make_durable(io.written, below=own.folder.rpartition("/")[0])
        except BaseException:
            # A second failure must not hide the first.
            with suppress(Exception):
                discard_files(own.files.fs, io.written)
            raise
        version = metadata.current_snapshot_id
        assert version is not None
        # A version that failed to be put may be there nevertheless, so its files stay.
        if not self._put(version, metadata.model_dump_json(exclude_none=True).encode()):
            # Another publication was faster.
            discard_files(own.files.fs, io.written)
            return self.run()
        beyond = sorted((each for each in self.versions if each > version), reverse=True)
        own.set_hint(version)
        delete_files(own.files.fs, [own.version_path(each) for each in beyond])
        self.done.version = version
        self.done.files_written += len(io.written) + 1
        return False

    def _put(self, version: int, data: bytes) -> bool:
        fs, path = self.own.files.fs, self.own.version_path(version)
        if version in self.versions:
            fs.replace(path, data)
            return True
        return put_new(fs, path, data)

    def _base(self) -> TableMetadata | None:
        """The newest version, if it can be read and means this place; a part of it may be right."""
        for version in sorted(self.versions, reverse=True) if not self.anew else ():
            data = self.own.read(version)
            if data is None:
                continue
            try:
                base = TableMetadataUtil.parse_raw(data.decode())
            except (ValidationError, ValueError):
                continue
            if base.format_version == 2 and self.own.location(base.location) == base.location:
                return base
        return None

    # --- what a version says ----------------------------------------------------------------------

    def _metadata(
        self, base: TableMetadata | None, root: str, io: MetadataIO
    ) -> TableMetadataV2 | None:
        files, seen = self.own.files, self.seen
        if not seen.snapshots:
            return None
        latest_id = max(seen.snapshots)
        schemas = self._schemas(base)
        if schemas is None:
            base, schemas = None, self._schemas(None) or {}
        tagged = self._tagged(base)
        there = _Kept(self, base, tagged)
        kept = there.trusted()
        wanted = self._wanted(base, kept, tagged)
        specs = Specs({} if base is None else {s.spec_id: s for s in base.partition_specs})
        current_keys = [(each.id, each.name) for each in files.schema.partition_fields]
        default_spec = specs.of(current_keys)
        meta_root = self._metadata_root(root)
        sets = ManifestSets(
            io=io,
            location=lambda name: f"{meta_root}/{name}",
            new_id=files.env.new_id,
            specs=specs.by_id,
            schema_of=lambda spec: _schema_of(spec, schemas),
        )
        maker = SnapshotMaker(self.own, root, specs, schemas, sets)
        shown = self._shown(maker, wanted, kept, base)
        if latest_id not in shown:
            raise CorruptionError(f"snapshot {latest_id} of {files.name} went as it was published")
        refs = {
            name: _ref(each, SnapshotRefType.TAG) for name, each in tagged.items() if each in shown
        }
        refs[_MAIN] = _ref(latest_id, SnapshotRefType.BRANCH)
        mapping = name_mapping(schemas.values(), schemas[files.schema.id])
        retired = self._retired(base, shown, maker)
        properties = {**({} if base is None else base.properties)}
        properties.pop(RETIRED, None)
        properties[_NAME_MAPPING] = mapping.model_dump_json()
        if retired:
            properties[RETIRED] = json.dumps(retired)
        last_ms = 0
        log = []
        for each in shown.values():
            # Readers refuse a log that goes back in time.
            last_ms = max(last_ms, each.timestamp_ms)
            if each.snapshot_id in seen.snapshots:
                log.append({"snapshot-id": each.snapshot_id, "timestamp-ms": last_ms})
        metadata = TableMetadataV2(
            **{
                "location": root,
                "table-uuid": self._uuid() if base is None or not kept else base.table_uuid,
                "last-updated-ms": last_ms,
                "last-column-id": max(
                    *(each.highest_field_id for each in schemas.values()),
                    0 if base is None else base.last_column_id,
                ),
                "schemas": list(schemas.values()),
                "current-schema-id": files.schema.id,
                "partition-specs": list(specs.by_id.values()),
                "default-spec-id": default_spec.spec_id,
                "last-partition-id": max(
                    (f.field_id for s in specs.by_id.values() for f in s.fields), default=999
                ),
                "properties": properties,
                "current-snapshot-id": latest_id,
                "snapshots": list(shown.values()),
                "snapshot-log": log,
                "sort-orders": [{"order-id": 0, "fields": []}],
                "default-sort-order-id": 0,
                "refs": refs,
                "last-sequence-number": max(each.sequence_number or 0 for each in shown.values()),
            }
        )
        is_same = base is not None and metadata.model_dump_json() == base.model_dump_json()
        if is_same and list(self.versions)[-1:] == [latest_id] and self.own.hint() == latest_id:
            return None
        self._check_types(schemas, latest_id)
        self.done.snapshots += len(shown.keys() - kept.keys())
        self.done.files_added += maker.files_added
        self.done.files_removed += maker.files_removed
        return metadata

    def _schemas(self, base: TableMetadata | None) -> dict[int, Schema] | None:
        """All versions of the schema; None if those of the current version are others."""
        files = self.own.files
        known = {} if base is None else {each.schema_id: each for each in base.schemas}
        current = iceberg_schema(files.schema, table=files.name)
        if known.get(files.schema.id, current) != current:
            return None
        found = {}
        for schema_id in files.schemas.ids():
            if schema_id not in known:
                schema = files.at_schema(schema_id).schema
                known[schema_id] = iceberg_schema(schema, table=files.name)
            found[schema_id] = known[schema_id]
        return found

    def _tagged(self, base: TableMetadata | None) -> dict[str, int]:
        """The snapshot of each tag; a file that is older than the current version is not read."""
        refs = {} if base is None else base.refs
        newest = max((each.modified_ms for each in self.versions.values()), default=0)
        found = {}
        for name, status in self.seen.tags.items():
            ref = refs.get(name)
            if ref is not None and status.modified_ms + _ROUNDED_MS < newest:
                found[name] = ref.snapshot_id
                continue
            with suppress(TagNotFound):
                snapshot = self.own.files.references.tag(name).snapshot
                found[name] = snapshot.id
                self._of_tags[snapshot.id] = snapshot
        return found

    def _wanted(
        self, base: TableMetadata | None, kept: Mapping[int, Snapshot], tagged: Mapping[str, int]
    ) -> list[int]:
        """The ids of all snapshots to show, in order."""
        there = sorted(self.seen.snapshots)
        before = [each for each in kept if each in self.seen.snapshots]
        new = [each for each in there if each not in kept and each > min(before, default=0)]
        return sorted({*kept, *tagged.values(), *new[-_MOST_MADE:]})

    def _shown(
        self,
        maker: SnapshotMaker,
        wanted: Sequence[int],
        kept: Mapping[int, Snapshot],
        base: TableMetadata | None,
    ) -> dict[int, Snapshot]:
        files = self.own.files
        shown: dict[int, Snapshot] = {}
        before: Snapshot | None = None
        chain, last = Chain(files.manifests), None
        for snapshot_id in wanted:
            found = kept.get(snapshot_id)
            if found is None:
                snapshot = self.snapshot(snapshot_id)
                if snapshot is None:
                    continue
                is_next = before is not None and before.snapshot_id == snapshot_id - 1
                if is_next and last != snapshot_id - 1:
                    former = self.snapshot(snapshot_id - 1)
                    if former is not None:
                        chain.goes_on(former)
                    is_next = former is not None
                follows = chain.goes_on(snapshot) and is_next
                last = snapshot_id
                by_delta = follows and before is not None and self._is_alike(snapshot, before)
                # What another client published of this id may need no change.
                other = None if base is None or by_delta else base.snapshot_by_id(snapshot_id)
                found = maker.made(
                    snapshot,
                    before if other is None else other,
                    parent_id=None if before is None else before.snapshot_id,
                    by_delta=by_delta,
                )
            shown[snapshot_id] = before = found
        return shown

    def _is_alike(self, snapshot: ours.Snapshot, before: Snapshot) -> bool:
        """Whether one rule says what is shown of both, and all entries have the table's keys."""
        if snapshot.schema_id != before.schema_id:
            return False
        if _said(before).get(DELTA_LIST) is None:
            # Java shows other files of some tables.
            return False
        return ShownState.of(self.own.files, snapshot, "").state.is_settled

    def snapshot(self, snapshot_id: int) -> ours.Snapshot | None:
        """A snapshot by its own file, or by that of a tag; None if it went meanwhile."""
        if snapshot_id in self.seen.snapshots:
            with suppress(SnapshotNotFound):
                return self.own.files.snapshots.read(snapshot_id)
            return None
        return self._of_tags.get(snapshot_id)

    def is_of_unread_tag(self, snapshot_id: int) -> bool:
        """Whether a tag alone has a snapshot, and did not change since the current version."""
        return snapshot_id not in self.seen.snapshots and snapshot_id not in self._of_tags

    def _retired(
        self, base: TableMetadata | None, shown: Mapping[int, Snapshot], maker: SnapshotMaker
    ) -> dict[str, int]:
        """Files that no snapshot names any more, with the time since when, by the store's clock."""
        found = retired_of(base)
        lists = {each.manifest_list for each in shown.values()}
        left = [] if base is None else [s for s in base.snapshots if s.manifest_list not in lists]
        if not left:
            return found
        now_ms = read_store_clock(self.own.files)
        named = {name for each in shown.values() for name in maker.names_of(each)}
        for each in left:
            # Another client may have deleted its files.
            with suppress(*_DAMAGED):
                found |= dict.fromkeys(maker.names_of(each) - named - found.keys(), now_ms)
        return found

    def _check_types(self, schemas: Mapping[int, Schema], latest_id: int) -> None:
        files = self.own.files
        current = schemas[files.schema.id]
        try:
            check_promotable(schemas, current, table=files.name)
        except UnsupportedError:
            # Files of such a schema may all have been written again.
            latest = files.snapshots.read(latest_id)
            live = {e.file.schema_id for e in ShownState.of(files, latest, "").state.entries}
            of_files = {each: schemas[each] for each in live if each in schemas}
            check_promotable(of_files, current, table=files.name)

    def _metadata_root(self, root: str) -> str:
        """The folder of the metadata, as the table's own place is written."""
        place = self.own.files.paths.root
        if self.own.is_inside:
            return root + self.own.folder.removeprefix(place)
        # The warehouse is the part that both have.
        warehouse = place.rpartition("/")[0].rpartition("/")[0]
        prefix = root.removesuffix(place.removeprefix(warehouse))
        return prefix + self.own.folder.removeprefix(warehouse)

    def _uuid(self) -> str:
        """An id that every process makes alike of the table."""
        files = self.own.files
        first = files.at_schema(files.schemas.ids()[0]).schema
        text = f"{files.paths.root} {first.time_millis}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class _Kept:
    """Which snapshots of the current version are there still."""

    round: _Round
    base: TableMetadata | None
    tagged: Mapping[str, int]

    def trusted(self) -> dict[int, Snapshot]:
        """Those that were made of a snapshot, or of the snapshot of a tag, that stays.

        If the last one is, and the table has it still, the others are of its history.
        """
        if self.base is None:
            return {}
        there, base = self.round.seen.snapshots, self.base
        current = base.current_snapshot()
        wanted = {*there, *self.tagged.values()}
        known = [each for each in base.snapshots if each.snapshot_id in wanted]
        if current is not None and current.snapshot_id in there and self._is_right(current):
            marked = [each for each in known if _said(each).get(DELTA_LIST) is not None]
            ids = {e.snapshot_id for e in marked if e.snapshot_id in there}
            return {e.snapshot_id: e for e in known if e.snapshot_id in ids or self._is_right(e)}
        return {each.snapshot_id: each for each in known if self._is_right(each)}

    def _is_right(self, published: Snapshot) -> bool:
        if self.round.is_of_unread_tag(published.snapshot_id):
            return True
        snapshot = self.round.snapshot(published.snapshot_id)
        return snapshot is not None and is_made_of(_said(published), snapshot)


def _ref(snapshot_id: int, kind: SnapshotRefType) -> SnapshotRef:
    return SnapshotRef(**{"snapshot-id": snapshot_id, "type": kind})


def _said(snapshot: Snapshot) -> Mapping[str, str]:
    """What the summary of a snapshot says besides its operation."""
    return snapshot.summary.additional_properties if snapshot.summary else {}


def retired_of(base: TableMetadata | None) -> dict[str, int]:
    """The retired files that a version lists, with their times."""
    with suppress(ValueError):
        found = json.loads((base.properties if base else {}).get(RETIRED, "{}"))
        return {str(name): int(ms) for name, ms in found.items()}
    return {}


def _schema_of(spec: PartitionSpec, schemas: Mapping[int, Schema]) -> Schema:
    """The latest schema that has all columns of a spec."""
    wanted = {each.source_id for each in spec.fields}
    for schema_id in sorted(schemas, reverse=True):
        if wanted <= {each.field_id for each in schemas[schema_id].fields}:
            return schemas[schema_id]
    return schemas[max(schemas)]


def _retire(own: MetadataFiles, done: Publication, *, sweeps: bool) -> None:
    """Delete former versions, and files that were retired long enough ago."""
    if not own.files.options.iceberg_deletes:
        return
    listed = own.listed()
    versions = versions_of(listed)
    if not versions:
        return
    current = max(versions)
    # A version was written just now, unless a run found nothing to publish.
    newest_ms = max(each.modified_ms for each in listed)
    now_ms = newest_ms if done.version is not None else read_store_clock(own.files)
    ids = list(versions)
    most = max(len(ids) - 1 - own.files.options.iceberg_former_versions, 0)
    # A version was the current one until the next one came.
    former = [
        own.version_path(each)
        for each, after in list(pairwise(ids))[:most]
        if versions[after].modified_ms < now_ms - _KEPT_MS
    ]
    if len(former) < _VERSIONS_AT_ONCE and not sweeps:
        former = []
    data = own.read(current)
    with suppress(ValidationError, ValueError):
        base = None if data is None else TableMetadataUtil.parse_raw(data.decode())
        there = {each.name for each in listed}
        retired = {name for name, ms in retired_of(base).items() if ms < now_ms - _KEPT_MS}
        former += [own.path(name) for name in sorted(retired & there)]
    done.files_deleted += delete_files(own.files.fs, dict.fromkeys(former))
    if sweeps:
        done.files_deleted += delete_files(own.files.fs, _lost(own, listed, now_ms))


def _lost(own: MetadataFiles, listed: Sequence[FileStatus], now_ms: int) -> list[str]:
    """Files of our names that no version names, and that are a day old."""
    lost = set(unnamed_files(own) or ())
    return [e.path for e in listed if e.name in lost and e.modified_ms < now_ms - _LOST_MS]
