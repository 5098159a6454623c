"""A snapshot of a table as a snapshot of Iceberg: its manifests, its list, and position deletes.

Each deletion vector becomes a file of position deletes of its own, which later snapshots name until
the vector changes. Source: Iceberg specification, chapters Manifests and Delete Formats.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestFile,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from lakewright.storage.files.data_files import format_of_path
from lakewright.storage.operations.iceberg.iceberg_types import (
    Bounds,
    BoundsOfSchema,
    iceberg_value,
)
from lakewright.storage.operations.iceberg.manifests import FileKey, ManifestSets, key_of
from lakewright.storage.operations.iceberg.metadata_files import (
    DELTA_LIST,
    JAVA_IDENTITY,
    MetadataFiles,
    java_identity,
)
from lakewright.storage.operations.iceberg.shown_files import ShownFile, ShownState, ShownVector
from lakewright.storage.spec import snapshot as ours
from lakewright.storage.spec.snapshot import CommitKind

_FIRST_PARTITION_ID = 1000
# The reserved columns of position deletes.
_PATH_ID, _POSITION_ID = 2147483546, 2147483545
_DELETES_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {b"PARQUET:field_id": str(_PATH_ID).encode()}),
        pa.field("pos", pa.int64(), False, {b"PARQUET:field_id": str(_POSITION_ID).encode()}),
    ]
)
_DELETES_NAME = re.compile(r"deletes-(?P<vector>.+-\d+)\.[^.]+\.parquet")


@dataclass
class Specs:
    """The partition specs of a table, by the ids of their columns.

    Fields are numbered from 1000 on by their position, as Java numbers those of the present keys.
    """

    by_id: dict[int, PartitionSpec]

    def of(self, columns: Sequence[tuple[int, str]]) -> PartitionSpec:
        """The spec of some columns, given by ids and names; it is made if it is not there."""
        wanted = [column_id for column_id, _ in columns]
        for spec in self.by_id.values():
            if [each.source_id for each in spec.fields] == wanted:
                return spec
        known = {each.source_id: each for spec in self.by_id.values() for each in spec.fields}
        next_id = max((each.field_id for each in known.values()), default=_FIRST_PARTITION_ID - 1)
        made = []
        for column_id, name in columns:
            if column_id not in known:
                next_id += 1
            made.append(
                PartitionField(
                    source_id=column_id,
                    field_id=known[column_id].field_id if column_id in known else next_id,
                    transform=IdentityTransform(),
                    name=name,
                )
            )
        spec = PartitionSpec(*made, spec_id=max(self.by_id, default=-1) + 1)
        self.by_id[spec.spec_id] = spec
        return spec


@dataclass
class SnapshotMaker:
    """Makes Iceberg snapshots, each from the one before."""

    own: MetadataFiles
    root: str
    specs: Specs
    schemas: Mapping[int, Schema]
    sets: ManifestSets
    # How many files were read to tell what changed, for what a run reports.
    files_added: int = 0
    files_removed: int = 0
    _bounds: dict[int, BoundsOfSchema] = field(default_factory=dict)

    def made(
        self,
        snapshot: ours.Snapshot,
        before: Snapshot | None,
        *,
        parent_id: int | None,
        by_delta: bool,
    ) -> Snapshot:
        """The Iceberg snapshot, with the files of the one before where these are its own.

        `by_delta` says that the snapshot follows the one before.
        """
        manifests = () if before is None else self.sets.of_list(before.manifest_list)
        data, deletes = (
            [each for each in manifests if each.content is content]
            for content in (ManifestContent.DATA, ManifestContent.DELETES)
        )
        shown = ShownState.of(self.own.files, snapshot, self.root)
        known = self._known_vectors(deletes)
        bounds: list[tuple[int, Sequence[object]]] | None = None
        every: Mapping[str, ShownFile] | None = None
        if by_delta:
            changes = shown.delta()
            added = [self._data_file(each, shown) for each in changes.added.values()]
            gone = [self._placed(each) for each in changes.removed.values()]
            removed = {(location, spec) for location, spec, _ in gone}
            bounds = [(spec, values) for _, spec, values in gone]
        else:
            every = shown.all_files()
            there = self.sets.all_keys(data)
            wanted = {self._placed(each)[:2]: each for each in every.values()}
            removed = there - wanted.keys()
            added = [self._data_file(f, shown) for key, f in wanted.items() if key not in there]
        gone_paths = {location for location, _ in removed}
        paths = {
            name: (file.lower_bounds or {}).get(_PATH_ID, b"").decode()
            for name, file in known.items()
        }
        names = {name: path for name, path in paths.items() if path and path not in gone_paths}
        stay, new = shown.vectors(every, names)
        new_deletes = [self._deletes_file(each, shown) for each in new]
        old_deletes = {key_of(file) for name, file in known.items() if name not in stay}
        data = self.sets.changed(
            data,
            added,
            removed,
            snapshot_id=snapshot.id,
            content=ManifestContent.DATA,
            bounds=bounds,
        )
        deletes = self.sets.changed(
            deletes,
            new_deletes,
            old_deletes,
            snapshot_id=snapshot.id,
            content=ManifestContent.DELETES,
            bounds=None,
        )
        location = self.sets.write_list([*data, *deletes], snapshot.id, parent_id)
        self.files_added += len(added)
        self.files_removed += len(removed)
        changed = _Changed(added, removed, new_deletes, old_deletes)
        return Snapshot(
            **{
                "snapshot-id": snapshot.id,
                "parent-snapshot-id": parent_id,
                "sequence-number": snapshot.id,
                "timestamp-ms": snapshot.time_millis,
                "manifest-list": location,
                "summary": _summary(snapshot, changed, data, deletes, shown.files.schema.is_keyed),
                "schema-id": snapshot.schema_id,
            }
        )

    def names_of(self, snapshot: Snapshot) -> set[str]:
        """The names of the files in the folder of metadata that a snapshot needs."""
        found = {snapshot.manifest_list}
        for manifest in self.sets.of_list(snapshot.manifest_list):
            found.add(manifest.manifest_path)
            if manifest.content is ManifestContent.DELETES:
                found |= {each.data_file.file_path for each in self.sets.entries(manifest)}
        return {location.rpartition("/")[2] for location in found}

    # --- files ------------------------------------------------------------------------------------

    def _placed(self, file: ShownFile) -> tuple[str, int, list[object]]:
        keys = file.partition.keys
        spec = self.specs.of([(each.id, each.name) for each in keys.fields])
        values: list[object] = [
            iceberg_value(value, kind)
            for value, kind in zip(file.partition.values, keys.types, strict=True)
        ]
        return file.location, spec.spec_id, values

    def _data_file(self, file: ShownFile, shown: ShownState) -> DataFile:
        meta = file.entry.file
        location, spec_id, values = self._placed(file)
        return _file(
            DataFileContent.DATA,
            location,
            values,
            spec_id,
            rows=meta.row_count,
            size=meta.file_size,
            bounds=self._bounds_of(meta.schema_id, shown).of(meta),
        )

    def _bounds_of(self, schema_id: int, shown: ShownState) -> BoundsOfSchema:
        found = self._bounds.get(schema_id)
        if found is None:
            found = BoundsOfSchema(shown.files.at_schema(schema_id).schema)
            self._bounds[schema_id] = found
        return found

    def _deletes_file(self, vector: ShownVector, shown: ShownState) -> DataFile:
        path, spec_id, values = self._placed(vector.of)
        positions = shown.files.indexes.read_deletion_vector(vector.index_file, vector.where)
        sink = BytesIO()
        rows = [pa.array([path] * len(positions)), pa.array(positions.astype("int64"))]
        pq.write_table(pa.table(rows, schema=_DELETES_SCHEMA), sink, compression="zstd")
        name = f"deletes-{vector.name}.{self.sets.new_id()}.parquet"
        location, data = self.sets.location(name), sink.getvalue()
        with self.sets.io.new_output(location).create() as output:
            output.write(data)
        # Bounds that name one data file let readers plan with these deletes for no other one.
        of_path = {_PATH_ID: path.encode()}
        return _file(
            DataFileContent.POSITION_DELETES,
            location,
            values,
            spec_id,
            rows=len(positions),
            size=len(data),
            bounds=(of_path, of_path, {}),
        )

    def _known_vectors(self, manifests: Iterable[ManifestFile]) -> dict[str, DataFile]:
        """The files of position deletes in manifests, by the names of their vectors.

        One that another client wrote has a name of no vector, and is replaced.
        """
        found = {}
        for manifest in manifests:
            for entry in self.sets.entries(manifest):
                name = entry.data_file.file_path.rpartition("/")[2]
                match = _DELETES_NAME.fullmatch(name)
                of_path = (entry.data_file.lower_bounds or {}).get(_PATH_ID)
                is_ours = match is not None and of_path is not None
                found[match["vector"] if match is not None and is_ours else name] = entry.data_file
        return found


def _file(
    content: DataFileContent,
    location: str,
    values: Sequence[object],
    spec_id: int,
    *,
    rows: int,
    size: int,
    bounds: Bounds,
) -> DataFile:
    lower, upper, nulls = bounds
    file = DataFile.from_args(
        content=content,
        file_path=location,
        file_format=FileFormat(format_of_path(location).upper()),
        partition=Record(*values),
        record_count=rows,
        file_size_in_bytes=size,
        column_sizes={},
        value_counts={},
        null_value_counts=nulls,
        nan_value_counts={},
        lower_bounds=lower,
        upper_bounds=upper,
        key_metadata=None,
        split_offsets=None,
        equality_ids=None,
        sort_order_id=None,
    )
    file.spec_id = spec_id
    return file


@dataclass(frozen=True, slots=True)
class _Changed:
    added: Sequence[DataFile]
    removed: Collection[FileKey]
    new_deletes: Sequence[DataFile]
    old_deletes: Collection[FileKey]


def _summary(
    snapshot: ours.Snapshot,
    changed: _Changed,
    data: Sequence[ManifestFile],
    deletes: Sequence[ManifestFile],
    is_keyed: bool,
) -> Summary:
    is_append = not changed.removed and not changed.new_deletes and not changed.old_deletes
    operation = Operation.APPEND if is_append else Operation.OVERWRITE
    # Of a primary-key table a compaction may show rows for the first time.
    if not is_append and snapshot.commit_kind is CommitKind.COMPACT and not is_keyed:
        operation = Operation.REPLACE
    numbers = {
        "added-data-files": len(changed.added),
        "added-records": sum(each.record_count for each in changed.added),
        "deleted-data-files": len(changed.removed),
        "added-delete-files": len(changed.new_deletes),
        "removed-delete-files": len(changed.old_deletes),
        "total-data-files": _live_files(data),
        "total-records": _live_rows(data),
        "total-delete-files": _live_files(deletes),
        "total-position-deletes": _live_rows(deletes),
        "total-equality-deletes": 0,
    }
    said = {name: str(each) for name, each in numbers.items()}
    said[DELTA_LIST] = snapshot.delta_manifest_list
    said[JAVA_IDENTITY] = java_identity(snapshot)
    return Summary(operation=operation, **said)


def _live_files(manifests: Iterable[ManifestFile]) -> int:
    return sum((m.added_files_count or 0) + (m.existing_files_count or 0) for m in manifests)


def _live_rows(manifests: Iterable[ManifestFile]) -> int:
    return sum((m.added_rows_count or 0) + (m.existing_rows_count or 0) for m in manifests)
