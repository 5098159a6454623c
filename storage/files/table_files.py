"""One table's files as a value, which operations take instead of a table object."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from lakewright.storage.env import Env, FileStatus, FileSystem
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.files.condemned_store import CondemnedStore
from lakewright.storage.files.external_files import external_file_path, own_file_path
from lakewright.storage.files.index_store import IndexStore
from lakewright.storage.files.manifest_store import (
    DecodedManifests,
    ManifestStore,
    ReadManifests,
)
from lakewright.storage.files.metadata_stores import SchemaStore, SnapshotStore
from lakewright.storage.files.partitions import TablePartitions
from lakewright.storage.files.paths import TablePaths
from lakewright.storage.files.pending_store import PendingStore
from lakewright.storage.files.reference_store import ReferenceStore
from lakewright.storage.files.schema_registry import SchemaRegistry
from lakewright.storage.files.seen_files import SeenFiles
from lakewright.storage.files.staged_change_store import StagedChangeStore
from lakewright.storage.files.stream_store import StreamStore
from lakewright.storage.files.table_server import TableServer
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.file_format import AVRO
from lakewright.storage.spec.file_names import written_pattern
from lakewright.storage.spec.manifest import DataFileMeta, ManifestEntry
from lakewright.storage.spec.merge_options import read_merge_spec
from lakewright.storage.spec.merge_spec import MergeSpec
from lakewright.storage.spec.options import TableOptions, read_options
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.row_tracking import with_row_ids, without_row_ids
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.untold_partitions import is_untold, untold_partitions

_KEPT_HERE = frozenset(["partitions", "_schemas_read", "_decoded", "read_manifests"])


@dataclass(frozen=True)
class TableFiles:
    """A table's name, place and current schema; it pickles, so tasks can carry it.

    `run` names the process that works on the table, a job or a command. Users of its commits begin
    with it, so that what a run did can be found, and taken back. `holding` names a change of the
    partition keys: other committers wait after its commits, for a moment. `registry` repeats the
    schema of the table itself, and of no branch. `server` makes its snapshots and schemas, where a
    REST catalog does.
    """

    name: str
    fs: FileSystem
    paths: TablePaths
    schema: TableSchema
    env: Env
    read_manifests: ReadManifests | None = field(default=None, compare=False, repr=False)
    run: str | None = field(default=None, compare=False)
    holding: str | None = field(default=None, compare=False)
    registry: SchemaRegistry | None = field(default=None, compare=False, repr=False)
    server: TableServer | None = field(default=None, compare=False, repr=False)

    @cached_property
    def options(self) -> TableOptions:
        return read_options(self.schema, table=self.name)

    @cached_property
    def merge_spec(self) -> MergeSpec:
        return read_merge_spec(self.schema, table=self.name)

    def tells_changes(self, partition: bytes) -> bool:
        """Whether changes of a partition are tracked, of a row under the present keys."""
        untold = untold_partitions(self.schema.options, table=self.name)
        return not (untold and is_untold(self.partitions.of_row(partition), untold))

    @property
    def indexes(self) -> IndexStore:
        return IndexStore(self.fs, self.paths)

    @property
    def snapshots(self) -> SnapshotStore:
        return SnapshotStore(
            self.fs, self.paths, self.name, self._seen, None if self.paths.branch else self.server
        )

    @property
    def schemas(self) -> SchemaStore:
        registry = None if self.paths.branch else self.registry
        return SchemaStore(self.fs, self.paths, registry, self.server)

    @property
    def manifests(self) -> ManifestStore:
        return ManifestStore(
            self.fs,
            self.paths,
            self.env,
            self.name,
            self.read_manifests,
            self._decoded,
            self.schema.options.get("manifest.format", AVRO).lower(),
        )

    @property
    def references(self) -> ReferenceStore:
        return ReferenceStore(self.fs, self.paths, self.name, self._seen)

    @property
    def _seen(self) -> SeenFiles | None:
        return None if self.read_manifests is None else self.read_manifests.seen

    @property
    def condemned(self) -> CondemnedStore:
        return CondemnedStore(self.fs, self.paths)

    @property
    def pending(self) -> PendingStore:
        return PendingStore(self.fs, self.paths)

    @property
    def staged_changes(self) -> StagedChangeStore:
        return StagedChangeStore(self.fs, self.paths)

    @property
    def streams(self) -> StreamStore:
        return StreamStore(self.fs, self.paths)

    def check_unserved(self, what: str) -> None:
        """Refuse what moves or deletes snapshots and schemas that a server answers for.

        Raises:
            UnsupportedError: says `what` is refused.
        """
        if self.server is not None:
            raise UnsupportedError(
                f"{self.name} is a table of a REST catalog, whose server makes its snapshots, "
                f"schemas and branches: to {what} is not implemented there; do it with a client of "
                "Paimon, or commit a new state instead (revert, INSERT OVERWRITE)"
            )

    def reading_once(self, known: ReadManifests | None = None) -> TableFiles:
        """The same table for one write or plan, which reads no manifest or schema twice.

        `known` is what others have read. A table that is kept for longer reads schemas again: a
        fast-forward may replace them.
        """
        if self.read_manifests and known is None:
            return self
        seen = replace(self, read_manifests=known or ReadManifests(seen=SeenFiles(self.env)))
        vars(seen)["_decoded"] = self._decoded
        return seen

    def at_schema(self, schema_id: int) -> TableFiles:
        """The same table under another version of its schema."""
        if schema_id == self.schema.id:
            return self
        is_read_once = self.read_manifests is not None
        schema = self._schemas_read.get(schema_id) if is_read_once else None
        if schema is None:
            schema = self._schemas_read[schema_id] = self.schemas.read(schema_id)
        return self._under(schema)

    def with_row_ids(self) -> TableFiles:
        """The same table for rows that move to other files: they take their ids along."""
        if not self.options.row_tracking_enabled:
            return self
        return self._under(with_row_ids(self.schema))

    def without_row_ids(self) -> TableFiles:
        """The same table for new rows, which have no ids yet."""
        if not self.options.row_tracking_enabled:
            return self
        return self._under(without_row_ids(self.schema))

    def _under(self, schema: TableSchema) -> TableFiles:
        seen = replace(self, schema=schema)
        vars(seen)["_schemas_read"] = self._schemas_read
        vars(seen)["_decoded"] = self._decoded
        return seen

    def refreshed(self) -> TableFiles:
        """The same table under its latest schema."""
        latest = self.schemas.latest(table=self.name)
        return self if latest == self.schema else replace(self, schema=latest)

    @cached_property
    def partitions(self) -> TablePartitions:
        """The table's partitions by their rows; what they decode to is kept."""
        return TablePartitions(
            self.name, self.schema, self.options, self.schemas, self._schemas_read
        )

    @cached_property
    def _schemas_read(self) -> dict[int, TableSchema]:
        return {}

    @cached_property
    def _decoded(self) -> DecodedManifests:
        return DecodedManifests()

    def __getstate__(self) -> dict[str, object]:
        """Without what was read here: tasks decode the few partitions that they work on."""
        return {name: value for name, value in vars(self).items() if name not in _KEPT_HERE}

    def bucket_dir(self, place: Place, schema_id: int | None = None) -> str:
        """The folder of a bucket whose partition has the keys of a schema, or of this version."""
        partition = self.partitions.of_row(place.partition, schema_id)
        folder = "/".join(
            part for part in (self.options.data_file_directory, partition.path) if part
        )
        return self.paths.bucket_dir(folder, place.bucket)

    def readable_path(self, place: Place, file: DataFileMeta) -> str:
        """The path of a data file for reading; the file may lie outside of the table.

        Raises:
            UnsupportedError: the file lies outside of the paths that the table's options allow, or
            in another store.
        """
        if file.external_path is None:
            return f"{self.bucket_dir(place, file.schema_id)}/{file.file_name}"
        return self.path_of_uri(file.external_path)

    def path_of_uri(self, uri: str) -> str:
        """The path of a data file that its manifest places by a URI, for reading.

        Raises:
            UnsupportedError: as `readable_path`.
        """
        return self._own_path(uri) or external_file_path(
            self.fs, uri, self.options.external_paths, root=self.paths.root, table=self.name
        )

    def data_file_path(self, place: Place, file: DataFileMeta) -> str:
        """The path of a data file inside of the table, for writing and deleting."""
        if file.external_path is None:
            return f"{self.bucket_dir(place, file.schema_id)}/{file.file_name}"
        path = self._own_path(file.external_path)
        if path is None:
            raise UnsupportedError(
                f"{self.name}: data file {file.file_name} lies outside of the table, at "
                f"{file.external_path}, which is not implemented"
            )
        return path

    def is_foreign(self, file: DataFileMeta) -> bool:
        """Whether a data file lies outside of the table; then no process of ours deletes it."""
        return self.is_foreign_uri(file.external_path)

    def is_foreign_uri(self, uri: str | None) -> bool:
        """Whether a URI, if a manifest has one for a file, places it outside of the table."""
        return uri is not None and self._own_path(uri) is None

    def holds_partition_columns(self, file: DataFileMeta) -> bool:
        """Whether a data file is sure to have them: Paimon writers put them into each file."""
        return not self.is_foreign(file) and self._written.match(file.file_name) is not None

    @cached_property
    def _written(self) -> re.Pattern[str]:
        return re.compile(written_pattern(self.options.data_file_prefix))

    def _own_path(self, uri: str) -> str | None:
        """The path of a file that a URI places below the table's root."""
        return own_file_path(self.fs, uri, root=self.paths.root)

    def written_paths(self, message: CommitMessage) -> list[str]:
        """All files that a message has written: data, changelogs, their extra files, indexes."""
        folder = self.bucket_dir(message.place)
        names = (
            name for file in message.written_files for name in (file.file_name, *file.extra_files)
        )
        indexes = (self.paths.index(index.file_name) for index in message.new_indexes)
        return [*(f"{folder}/{name}" for name in names), *indexes]

    def there(self, paths: Iterable[str]) -> dict[str, FileStatus]:
        """Of some paths below the table, those with a file; lists their folders."""
        wanted: dict[str, set[str]] = {}
        for path in paths:
            folder, _, name = self.paths.below(path).rpartition("/")
            wanted.setdefault(folder, set()).add(name)
        return {
            status.path.removeprefix(f"{self.paths.root}/"): status
            for folder, names in wanted.items()
            for status in self.fs.list_dir(folder)
            if status.name in names
        }

    def entry_paths(self, entry: ManifestEntry) -> list[str]:
        """The data file of an entry and its extra files."""
        path = self.readable_path(entry.place, entry.file)
        folder = path.rsplit("/", 1)[0]
        return [path, *(f"{folder}/{name}" for name in entry.file.extra_files)]
