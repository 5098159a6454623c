"""The schemas that data files were written with, and their mappings to the read schema."""

from __future__ import annotations

from collections.abc import Sequence

from lakewright.storage.codec.char_blanks import bounds_without_blanks
from lakewright.storage.codec.column_stats import file_bounds, stats_bounds
from lakewright.storage.files.data_files import format_of_path
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.file_format import ORC
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.predicate import Bounds
from lakewright.storage.spec.row_tracking import TRACKING_FIELDS, without_row_ids
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.schema_mapping import SchemaMapping, schema_mapping


class FileSchemas:
    """Reads and maps each schema once, for all files that were written with it."""

    def __init__(self, files: TableFiles) -> None:
        self._files = files
        self._schemas: dict[int, TableSchema] = {files.schema.id: files.schema}
        self._mappings: dict[tuple[int, tuple[str, ...] | None], SchemaMapping] = {}

    def schema_of(self, file: DataFileMeta) -> TableSchema:
        """The schema that a file was written with.

        Raises:
            SchemaNotFound: the schema does not exist any more, so the file cannot be read.
        """
        if file.schema_id not in self._schemas:
            self._schemas[file.schema_id] = self._files.at_schema(file.schema_id).schema
        return self._schemas[file.schema_id]

    def mapping_of(self, file: DataFileMeta) -> SchemaMapping:
        """The mapping from the columns of a file to those of the read schema.

        Raises:
            SchemaNotFound: as `schema_of`.
            InvalidSchema: sibling fields share an id, and the schemas differ there.
        """
        key = (file.schema_id, file.write_cols)
        if key not in self._mappings:
            stored = without_row_ids(self.schema_of(file)).fields
            if file.write_cols is not None:
                every = (*stored, *TRACKING_FIELDS)
                stored = tuple(field for field in every if field.name in file.write_cols)
            self._mappings[key] = schema_mapping(stored, self._files.schema.fields)
        return self._mappings[key]

    def bounds_of(self, file: DataFileMeta) -> dict[str, Bounds]:
        """The bounds of a file's columns from its statistics, by their names at write time.

        The bounds hold for the values as they are read from the file.

        Raises:
            SchemaNotFound: as `schema_of`.
        """
        schema = self.schema_of(file)
        return _as_read(file, file_bounds(file, schema), schema.fields)

    def key_bounds_of(self, file: DataFileMeta) -> dict[str, Bounds]:
        """The bounds of a file's key columns from its statistics."""
        fields = self._files.schema.key_fields
        return _as_read(file, stats_bounds(file.key_stats, fields, file.row_count), fields)


def _as_read(
    file: DataFileMeta, bounds: dict[str, Bounds], fields: Sequence[DataField]
) -> dict[str, Bounds]:
    if format_of_path(file.file_name) != ORC:
        return bounds
    return bounds_without_blanks(bounds, fields)
