"""Reading splits into Arrow, each file brought to the schema that the read is for.

1. Columns of a file are found by field id under the schema it was written with.
2. Columns it does not have are null; columns retyped since are cast.
3. Sections are merged by key and sequence number, deletions taken out.
4. The filter runs last, on whole rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_field, to_arrow_schema, to_arrow_type
from lakewright.storage.codec.arrow_values import keep_matching
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.files.data_files import read_rows
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.merge import deduplicate, without_deletions
from lakewright.storage.operations.scan import DataSplit
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.predicate import Predicate, columns_of
from lakewright.storage.spec.schema import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, TableSchema

# Files without merging are handed on in pieces of this many rows.
_BATCH_ROWS = 1 << 18


class SplitReader:
    """Reads splits of one table, one read schema, one filter and one choice of columns."""

    def __init__(
        self, files: TableFiles, *, columns: Sequence[str] | None, predicate: Predicate | None
    ) -> None:
        self.files = files
        self.columns = tuple(files.schema.field_names if columns is None else columns)
        self.predicate = predicate
        needed = set(self.columns) | (columns_of(predicate) if predicate else set())
        # A file must be opened for something: counting rows needs a column too.
        self._fields = [f for f in files.schema.fields if f.name in needed] or [
            files.schema.fields[0]
        ]
        self._schemas: dict[int, TableSchema] = {files.schema.id: files.schema}
        self.arrow_schema = to_arrow_schema(files.schema.fields_of(self.columns))

    def read(self, split: DataSplit) -> Iterator[pa.Table]:
        """Rows of a split that match, in the columns asked for."""
        pieces = [self._merged(split)] if split.merge else self._raw(split)
        for rows in pieces:
            yield keep_matching(rows, self.predicate, self.files.schema).select(list(self.columns))

    def _raw(self, split: DataSplit) -> Iterator[pa.Table]:
        for file in split.files:
            yield from self._file_rows(split, file, self._fields, {}, batch_rows=_BATCH_ROWS)

    def _merged(self, split: DataSplit) -> pa.Table:
        rows = merge_files(self, split)
        return without_deletions(rows)

    def key_value_rows(self, split: DataSplit, file: DataFileMeta) -> pa.Table:
        """All rows of a file with key, sequence number and kind before the columns needed."""
        keys = self.files.schema.key_fields
        extra = {f"{KEY_PREFIX}{key.name}": to_arrow_type(key.type) for key in keys}
        extra |= {SEQUENCE_NUMBER: pa.int64(), VALUE_KIND: pa.int8()}
        (rows,) = self._file_rows(split, file, self._fields, extra, batch_rows=None)
        return rows

    def _file_rows(
        self,
        split: DataSplit,
        file: DataFileMeta,
        fields: Sequence[DataField],
        extra: Mapping[str, pa.DataType],
        *,
        batch_rows: int | None,
    ) -> Iterator[pa.Table]:
        path = self.files.data_file_path(split.partition, split.bucket, file)
        written_with = self._schema(file.schema_id)
        names = {field.id: field.name for field in written_with.fields}
        if file.write_cols is not None:
            names = {key: name for key, name in names.items() if name in file.write_cols}
        stored = [names[field.id] for field in fields if field.id in names]
        # A file whose every asked-for column is new still says how many rows it has.
        wanted = [*extra, *stored] or [next(iter(names.values()))]
        for rows in read_rows(
            self.files.fs, path, wanted, expected_rows=file.row_count, batch_rows=batch_rows
        ):
            # A file keeps timestamps in another unit than its neighbours when one of them is finer.
            columns = [rows.column(name).cast(kind) for name, kind in extra.items()]
            columns += [self._evolved(rows, field, names, path) for field in fields]
            arrow_fields = [pa.field(name, kind) for name, kind in extra.items()]
            arrow_fields += [to_arrow_field(field).with_nullable(True) for field in fields]
            yield pa.table(columns, schema=pa.schema(arrow_fields))

    def _evolved(
        self, rows: pa.Table, field: DataField, names: dict[int, str], path: str
    ) -> pa.ChunkedArray:
        target = to_arrow_type(field.type)
        if field.id not in names:
            return pa.chunked_array([pa.nulls(rows.num_rows, target)])
        column = rows.column(names[field.id])
        if column.type.equals(target):
            return column
        try:
            return column.cast(target)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            raise UnsupportedError(
                f"column {field.name} of data file {path} holds {column.type} and cannot be read "
                f"as {field.type}: {error}"
            ) from error

    def _schema(self, schema_id: int) -> TableSchema:
        if schema_id not in self._schemas:
            self._schemas[schema_id] = self.files.schemas.read(schema_id)
        return self._schemas[schema_id]


def merge_files(reader: SplitReader, split: DataSplit) -> pa.Table:
    """Rows of a section with the last of each key, deletions included, in key order."""
    oldest_first = sorted(
        split.files,
        key=lambda file: (-file.level, file.max_sequence_number, file.min_sequence_number),
    )
    parts = [reader.key_value_rows(split, file) for file in oldest_first]
    keys = [f"{KEY_PREFIX}{name}" for name in reader.files.schema.trimmed_primary_keys]
    return deduplicate(pa.concat_tables(parts), keys)
