"""One table's files as a value, which operations take instead of a table object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from lakewright.storage.codec.binary_row import decode_row, encode_row
from lakewright.storage.env import Env, FileSystem
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.files.external_files import external_file_path
from lakewright.storage.files.index_store import IndexStore
from lakewright.storage.files.lease_store import LeaseStore
from lakewright.storage.files.manifest_store import ManifestStore
from lakewright.storage.files.metadata_stores import ReferenceStore, SchemaStore, SnapshotStore
from lakewright.storage.files.paths import TablePaths, partition_folder
from lakewright.storage.files.pending_store import PendingStore
from lakewright.storage.files.quarantine_store import QuarantineStore
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.manifest import DataFileMeta, ManifestEntry
from lakewright.storage.spec.merge_options import read_merge_spec
from lakewright.storage.spec.merge_spec import MergeSpec
from lakewright.storage.spec.options import TableOptions, read_options
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.values import Value, to_python


@dataclass(frozen=True)
class TableFiles:
    """A table's name, place and current schema; it pickles, so tasks can carry it."""

    name: str
    fs: FileSystem
    paths: TablePaths
    schema: TableSchema
    env: Env

    @cached_property
    def options(self) -> TableOptions:
        return read_options(self.schema, table=self.name)

    @cached_property
    def merge_spec(self) -> MergeSpec:
        return read_merge_spec(self.schema, table=self.name)

    @property
    def indexes(self) -> IndexStore:
        return IndexStore(self.fs, self.paths)

    @property
    def snapshots(self) -> SnapshotStore:
        return SnapshotStore(self.fs, self.paths, self.name)

    @property
    def schemas(self) -> SchemaStore:
        return SchemaStore(self.fs, self.paths)

    @property
    def manifests(self) -> ManifestStore:
        return ManifestStore(self.fs, self.paths, self.env, self.name)

    @property
    def references(self) -> ReferenceStore:
        return ReferenceStore(self.fs, self.paths, self.name)

    @property
    def quarantine(self) -> QuarantineStore:
        return QuarantineStore(self.fs, self.paths)

    @property
    def pending(self) -> PendingStore:
        return PendingStore(self.fs, self.paths)

    @property
    def leases(self) -> LeaseStore:
        return LeaseStore(self.fs, self.paths)

    def at_schema(self, schema_id: int) -> TableFiles:
        """The same table under another version of its schema."""
        if schema_id == self.schema.id:
            return self
        return replace(self, schema=self.schemas.read(schema_id))

    def partition_values(self, partition: bytes) -> tuple[Value, ...]:
        return decode_row(partition, [field.type for field in self.schema.partition_fields])

    def partition_bytes(self, values: Sequence[Value]) -> bytes:
        return encode_row(values, [field.type for field in self.schema.partition_fields])

    def partition_spec(self, partition: bytes) -> dict[str, object]:
        """Partition columns with their values as Python objects."""
        return {
            field.name: to_python(value, field.type)
            for field, value in zip(
                self.schema.partition_fields, self.partition_values(partition), strict=True
            )
        }

    def partition_text(self, partition: bytes) -> str:
        """The name of a partition's folder, empty for an unpartitioned table."""
        values = self.partition_values(partition)
        return partition_folder(self.schema.partition_fields, values, self.options)

    def bucket_dir(self, partition: bytes, bucket: int) -> str:
        folder = "/".join(
            part
            for part in (self.options.data_file_directory, self.partition_text(partition))
            if part
        )
        return self.paths.bucket_dir(folder, bucket)

    def readable_path(self, partition: bytes, bucket: int, file: DataFileMeta) -> str:
        """The path of a data file for reading; the file may lie outside of the table.

        Raises:
            UnsupportedError: the file lies outside of the paths that the table's options allow, or
            in another store.
        """
        if file.external_path is None:
            return self.data_file_path(partition, bucket, file)
        return external_file_path(
            self.fs,
            file.external_path,
            self.options.external_paths,
            root=self.paths.root,
            table=self.name,
        )

    def data_file_path(self, partition: bytes, bucket: int, file: DataFileMeta) -> str:
        """The path of a data file inside of the table, for writing and deleting."""
        if file.external_path is not None:
            raise UnsupportedError(
                f"{self.name}: data file {file.file_name} lies outside of the table, at "
                f"{file.external_path}, which is not implemented",
                table=self.name,
            )
        return f"{self.bucket_dir(partition, bucket)}/{file.file_name}"

    def written_paths(self, message: CommitMessage) -> list[str]:
        """All files that a message has written: data, changelogs, their extra files, indexes."""
        folder = self.bucket_dir(*message.place)
        names = (
            name for file in message.written_files for name in (file.file_name, *file.extra_files)
        )
        indexes = (self.paths.index(index.file_name) for index in message.new_indexes)
        return [*(f"{folder}/{name}" for name in names), *indexes]

    def entry_paths(self, entry: ManifestEntry) -> list[str]:
        """The data file of an entry and its extra files."""
        path = self.data_file_path(entry.partition, entry.bucket, entry.file)
        folder = path.rsplit("/", 1)[0]
        return [path, *(f"{folder}/{name}" for name in entry.file.extra_files)]
