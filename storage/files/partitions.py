"""The partitions of a table, each decoded once and by the keys of its own schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakewright.storage.codec.binary_row import decode_row, encode_row, row_arity
from lakewright.storage.errors import InvalidRequestError, SchemaMoved, SchemaNotFound
from lakewright.storage.files.metadata_stores import SchemaStore
from lakewright.storage.spec.manifest import ManifestEntry, ManifestFileMeta
from lakewright.storage.spec.options import TableOptions
from lakewright.storage.spec.partition import Partition, PartitionKeys
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.values import Value


class TablePartitions:
    """Partitions as a version of the table's schema sees them, and those of older schemas.

    A row tells how many keys it has and not which: an entry's row has the keys of its data file's
    schema. If it holds another number of values, its entry was restated under later keys: it has
    the keys of this version if their number fits. Otherwise it is a row of more keys while a change
    of keys is under way (`operations/respec/`), and its first values are those of the file's keys.
    """

    def __init__(
        self,
        table: str,
        schema: TableSchema,
        options: TableOptions,
        store: SchemaStore,
        schemas: dict[int, TableSchema],
    ) -> None:
        self._table = table
        self._schema = schema
        self._options = options
        self._store = store
        # Shared by all versions of the table, so that each schema is read once.
        self._schemas = schemas
        self._by_schema: dict[int, PartitionKeys] = {}
        self._known: dict[tuple[int, bytes], Partition] = {}
        self._named: dict[tuple[int, bytes], Partition] = {}
        self.keys = self._keys_of(schema)

    def of_entry(self, entry: ManifestEntry) -> Partition:
        """The partition of a data file."""
        return self.of_row(entry.partition, entry.file.schema_id)

    def of_row(self, row: bytes, schema_id: int | None = None) -> Partition:
        """The partition of a row under a schema, or under this version of it.

        Raises:
            SchemaMoved: the row has fewer values than there are keys.
        """
        schema_id = self._schema.id if schema_id is None else schema_id
        known = self._known.get((schema_id, row))
        if known is None:
            keys = self.keys_of_row(row, schema_id)
            if row_arity(row) < len(keys.fields):
                raise SchemaMoved(
                    f"a partition of {self._table} has {row_arity(row)} values, and the keys were "
                    f"{', '.join(keys.names)} when it was opened (schema {self._schema.id}); they "
                    "have changed since, or its manifest is damaged: open the table again"
                )
            known = Partition(keys, row, decode_row(row, keys.types, first=True))
            self._known[schema_id, row] = known
        return known

    def as_named(self, row: bytes, schema_id: int) -> Partition:
        """The partition of a row as the keys of this version name it, where the row says so.

        During a change of keys rows have more values; the first are those of either list,
        and a client that opened the table before keys went writes rows that hold all others. A row
        that lacks values of this version's keys has the partition of its own keys.
        """
        if self.has_these_keys(row, schema_id):
            return self.of_row(row, schema_id)
        known = self._named.get((schema_id, row))
        if known is None:
            known = self._named[schema_id, row] = self._as_named(row, schema_id)
        return known

    def has_these_keys(self, row: bytes, schema_id: int) -> bool:
        """Whether a row has one value for each key of this version, and no others."""
        if row_arity(row) != len(self.keys.fields):
            return False
        try:
            return self.keys_of_row(row, schema_id).names == self.keys.names
        except SchemaNotFound:
            # Of a branch that began late. Its first schema had the keys of the next ones.
            return True

    def _as_named(self, row: bytes, schema_id: int) -> Partition:
        keys = self.keys_of_row(row, schema_id)
        arity = row_arity(row)
        # A row that names too few values of its own keys is not told apart from a damaged one.
        is_wide = arity > len(keys.fields) and arity >= len(self.keys.fields)
        if is_wide:
            return self.of_values(decode_row(row, self.keys.types, first=True))
        places = {field.name: at for at, field in enumerate(keys.fields)}
        if all(
            field.name in places and keys.fields[places[field.name]].type == field.type
            for field in self.keys.fields
        ):
            values = self.of_row(row, schema_id).values
            return self.of_values([values[places[name]] for name in self.keys.names])
        return self.of_row(row, schema_id)

    def of_values(self, values: Sequence[Value]) -> Partition:
        """The partition of stored values, one for each key."""
        row = encode_row(values, self.keys.types)
        return Partition(self.keys, row, tuple(values))

    def stored(self, spec: Mapping[str, object]) -> dict[str, Value]:
        """What a caller gave for some of the keys, as stored values in the order of the keys.

        Raises:
            InvalidRequestError: a name is not a partition key, or a value is not of its type.
        """
        return self.keys.stored(spec, table=self._table)

    def planned(self, spec: Mapping[str, object]) -> Partition:
        """The whole partition that a plan names.

        Raises:
            InvalidRequestError: a partition key is missing, or a value is not of its type.
        """
        values = self.stored(spec)
        missing = [key for key in self.keys.names if key not in values]
        if missing:
            raise InvalidRequestError(
                f"a plan names a partition of {self._table} without its key {missing[0]!r}; "
                "plan again"
            )
        return self.of_values(tuple(values.values()))

    def by_keys(
        self, entries: Sequence[ManifestEntry]
    ) -> list[tuple[PartitionKeys, list[ManifestEntry]]]:
        """Entries by the partition keys they have, in their order: bounds are those of one row."""
        found: dict[tuple[str, ...], tuple[PartitionKeys, list[ManifestEntry]]] = {}
        known: dict[tuple[int, int], list[ManifestEntry]] = {}
        for entry in entries:
            kind = (entry.file.schema_id, row_arity(entry.partition))
            group = known.get(kind)
            if group is None:
                keys = self.keys_to_write(entry.partition, entry.file.schema_id)
                group = known[kind] = found.setdefault(keys.names, (keys, []))[1]
            group.append(entry)
        return list(found.values())

    def keys_to_write(self, row: bytes, schema_id: int) -> PartitionKeys:
        """The keys of a manifest that is written of entries with such rows.

        This version's keys carry its schema, whichever their files were written with.
        """
        keys = self.keys_of_row(row, schema_id)
        return self.keys if keys.names == self.keys.names else keys

    def keys_of_manifest(self, meta: ManifestFileMeta) -> PartitionKeys:
        """The keys that the bounds of a manifest are of."""
        return self.keys_of_row(meta.partition_stats.min_values, meta.schema_id)

    def keys_of_row(self, row: bytes, schema_id: int) -> PartitionKeys:
        """The keys whose values a row holds."""
        arity = row_arity(row)
        if schema_id == self._schema.id or (arity == 0 and not self.keys.fields):
            return self.keys
        own = self._by_schema.get(schema_id)
        if own is None:
            own = self._by_schema[schema_id] = self._keys_of(self._read(schema_id))
        restated = arity != len(own.fields) and arity == len(self.keys.fields)
        return self.keys if restated else own

    def _read(self, schema_id: int) -> TableSchema:
        if schema_id not in self._schemas:
            self._schemas[schema_id] = self._store.read(schema_id)
        return self._schemas[schema_id]

    def _keys_of(self, schema: TableSchema) -> PartitionKeys:
        # Folders are named as the options say that the table has today, as Java names them.
        return PartitionKeys(
            schema_id=schema.id,
            fields=schema.partition_fields,
            default_name=self._options.partition_default_name,
            legacy_name=self._options.partition_legacy_name,
        )
