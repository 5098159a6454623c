"""Describes data files that another system wrote, as entries of a manifest.

1. Read the footer: rows, columns, bounds. Rows are read only where the footer cannot decide. Other
   clients take days as they are stored, so a file is refused if they would take another day than
   its writer meant; and timestamps must fit into the table's type.
2. Find the version of the table's schema whose columns the file has, by name and type. Partition
   columns may be missing: every Paimon reader takes their values from the manifest.
3. Make statistics of the footer's bounds, where its writer is known to get them right, and of the
   partition's values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_cast import cast_column
from lakewright.storage.codec.arrow_timestamps import holds_moments
from lakewright.storage.codec.arrow_types import to_arrow_schema, to_arrow_type
from lakewright.storage.codec.arrow_values import scalar_of
from lakewright.storage.codec.binary_row import encode_row
from lakewright.storage.codec.column_stats import ColumnStats
from lakewright.storage.codec.conform import conform
from lakewright.storage.codec.value_limits import fits_decimal, limits_values
from lakewright.storage.errors import (
    InvalidRequestError,
    InvalidRows,
    InvalidSchema,
    StorageError,
    UnfitValues,
    UnsupportedError,
)
from lakewright.storage.files.data_file import Reading
from lakewright.storage.files.data_files import (
    Footer,
    format_of_path,
    read_footer,
    read_rows,
    stored_schema_of,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot
from lakewright.storage.spec.manifest import DataFileMeta, FileSource, SimpleStats
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.values import Value, from_python

# Footers have no order for other types that Paimon shares.
_BOUNDED = {
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.INT,
    TypeRoot.BIGINT,
    TypeRoot.DECIMAL,
    TypeRoot.DATE,
    TypeRoot.VARCHAR,
}
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class _Version:
    """A version of the table's schema, and what files of a format that it describes look like."""

    schema: TableSchema
    stored: pa.Schema


class ExternalFiles:
    """Describes files for one table; each version of the schema is read once."""

    def __init__(self, files: TableFiles) -> None:
        self._files = files
        self._versions: dict[str, list[_Version]] = {}

    def describe(
        self,
        partition: Partition,
        path: str,
        *,
        uri: str | None,
        taking: str = "",
        computes: bool = False,
    ) -> DataFileMeta:
        """The metadata of a file; with a `uri` it stays where it lies.

        Statistics that the footer does not tell, or that its writer may have got wrong, are left
        out, or with `computes` taken from the rows.

        `taking` is of one takeover alone, and so are the names that manifests give its files.

        Raises:
            InvalidSchema: the file has other columns than every version of the table.
            InvalidRequestError: the file's name tells no format, the file holds null where the
                table allows none, another value in a partition column than its folder names, or
                dates or timestamps that would be read as others.
            CorruptionError: the file cannot be read.
        """
        files = self._files
        try:
            format_name = format_of_path(path)
        except StorageError as error:
            raise InvalidRequestError(
                f"file {path} cannot become part of {files.name}: the end of its name shows no "
                "format, and readers of Paimon tables choose the format by it; rename the file to "
                "end with .parquet, .orc or .avro",
                path=path,
            ) from error
        bounded = [field.name for field in files.schema.fields]
        footer = read_footer(files.fs, path, bounded)
        schema = self._version(path, format_name, footer)
        self._check_values(schema, partition, path, footer)
        computed = self._computed(schema, partition, path, footer) if computes else {}
        return DataFileMeta(
            file_name=_name(uri or path, taking, format_name),
            file_size=footer.file_size,
            row_count=footer.row_count,
            value_stats=self._stats(schema, partition, footer, computed),
            min_sequence_number=0,
            max_sequence_number=0,
            schema_id=schema.id,
            creation_time=files.env.now_ms(),
            delete_row_count=0,
            file_source=FileSource.APPEND,
            external_path=uri,
        )

    # --- schema -----------------------------------------------------------------------------------

    def _version(self, path: str, format_name: str, footer: Footer) -> TableSchema:
        """The newest version of the schema that the file's columns are of."""
        reasons = []
        for version in self._of_format(format_name):
            misfit = _misfit(footer.schema, version, self._files.schema.partition_keys)
            if misfit is None:
                return version.schema
            reasons.append(misfit)
        raise InvalidSchema(
            f"file {path} is of another schema than {self._files.name}: {reasons[0]}; alter the "
            "table first, or leave the file out",
            path=path,
        )

    def _of_format(self, format_name: str) -> Iterator[_Version]:
        """The versions of the schema with today's partition keys, newest first."""
        known = self._versions.setdefault(format_name, [])
        yield from known
        if known:
            return
        files = self._files
        for schema_id in sorted(files.schemas.ids(), reverse=True):
            schema = files.at_schema(schema_id).schema
            if schema.partition_keys == files.schema.partition_keys:
                stored = stored_schema_of(
                    to_arrow_schema(schema.fields), files.options, format_name
                )
                known.append(_Version(schema, stored))
        yield from known

    # --- values -----------------------------------------------------------------------------------

    def _check_values(
        self, schema: TableSchema, partition: Partition, path: str, footer: Footer
    ) -> None:
        held = set(footer.schema.names)
        for field in schema.fields:
            if field.name not in held:
                continue
            if field.name in footer.uncertain:
                self._check_moments(field, path)
            if not _are_proved(field, footer):
                self._check_limits(field, path)
            if field.name in partition.stored:
                self._check_partition_column(field, partition.stored[field.name], path)
            elif not field.type.nullable and self._null_count(field, path, footer):
                raise InvalidRequestError(
                    f"file {path} holds null in column {field.name}, which is NOT NULL in "
                    f"{self._files.name}; allow null there (alter, --nullable {field.name}), or "
                    "leave the file out",
                    path=path,
                    column=field.name,
                )

    def _check_moments(self, field: DataField, path: str) -> None:
        """Read the dates and timestamps of a column."""
        refused = f"file {path} cannot become part of {self._files.name}"
        try:
            for _ in self._column(field, path):
                pass
        except UnfitValues as error:
            raise InvalidRequestError(
                f"{refused}: column {field.name} is {field.type}, of which the years 1677 to 2262 "
                f"are read, and holds {error.details['value']}; write the file again with "
                "timestamps of microseconds, for a column TIMESTAMP(6) (in Spark: "
                "spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS), or leave it out",
                path=path,
                column=field.name,
            ) from error
        except UnsupportedError as error:
            raise InvalidRequestError(
                f"{refused} as it is: {error.message}", path=path, column=field.name
            ) from error

    def _check_limits(self, field: DataField, path: str) -> None:
        """Judge the values of a column as those of every way in."""
        allowing_null = replace(field, type=replace(field.type, nullable=True))
        try:
            for rows in self._column(field, path):
                column = cast_column(rows.column(0), to_arrow_type(field.type))
                held = pa.table([column], names=[field.name])
                conform(held, [allowing_null], table=self._files.name)
        except InvalidRows as error:
            raise InvalidRequestError(
                f"file {path} cannot become part of {error.message}; write the file again, or "
                "leave it out",
                path=path,
                column=field.name,
            ) from error

    def _null_count(self, field: DataField, path: str, footer: Footer) -> int:
        known = footer.null_counts.get(field.name)
        if known is not None:
            return known
        return sum(rows.column(0).null_count for rows in self._column(field, path))

    def _check_partition_column(self, field: DataField, value: Value, path: str) -> None:
        """Other readers take the value of the folder, so the file must hold it in every row."""
        due = scalar_of(value, field.type)
        for rows in self._column(field, path):
            column = cast_column(rows.column(0), to_arrow_type(field.type))
            same = pc.is_null(column) if value is None else pc.equal(column, due)
            if not pc.all(pc.fill_null(same, False)).as_py() and rows.num_rows:
                raise InvalidRequestError(
                    f"file {path} holds another value in column {field.name} than its folder "
                    f"names, {due.as_py()!r}, and readers disagree on which one counts; write the "
                    "file again without the column",
                    path=path,
                    column=field.name,
                )

    def _column(self, field: DataField, path: str) -> Iterator[pa.Table]:
        reading = Reading({field.name: to_arrow_type(field.type)}, recounts=False)
        return read_rows(
            self._files.fs, path, [field.name], batch_rows=_BATCH_ROWS, reading=reading
        )

    # --- statistics -------------------------------------------------------------------------------

    def _computed(
        self, schema: TableSchema, partition: Partition, path: str, footer: Footer
    ) -> dict[str, ColumnStats]:
        """Statistics of the columns that the footer does not tell all of."""
        told = {*footer.bounds} & {*footer.null_counts}
        found = {}
        for field in schema.fields:
            is_known = field.name in partition.stored or field.name in told
            if is_known or not isinstance(field.type, AtomicType):
                continue
            stats, kind = ColumnStats(field.type), to_arrow_type(field.type)
            # A value that the table's type does not hold is an error of reads, not of the copy.
            with suppress(pa.ArrowException):
                for rows in self._column(field, path):
                    stats.add(cast_column(rows.column(0), kind))
                found[field.name] = stats
        return found

    def _stats(
        self,
        schema: TableSchema,
        partition: Partition,
        footer: Footer,
        computed: Mapping[str, ColumnStats],
    ) -> SimpleStats:
        """Statistics of all columns: readers before Paimon 1.0 expect that none is left out."""
        options = self._files.options
        low, high, nulls = list[Value](), list[Value](), list[int | None]()
        for field in schema.fields:
            mode = options.column_stats_modes.get(field.name, options.stats_mode)
            if field.name in partition.stored:
                stats = _constant_stats(field, partition.stored[field.name], footer)
            elif field.name in computed:
                stats = computed[field.name]
            else:
                stats = _column_stats(field, footer)
            bounds = (None, None) if mode == "none" else stats.bounds(mode)
            low.append(bounds[0])
            high.append(bounds[1])
            is_counted = field.name in {*partition.stored, *computed, *footer.null_counts}
            nulls.append(stats.null_count if is_counted and mode != "none" else None)
        types = [field.type for field in schema.fields]
        return SimpleStats(encode_row(low, types), encode_row(high, types), tuple(nulls))


def _are_proved(field: DataField, footer: Footer) -> bool:
    """Whether the footer alone proves that the values of a column fit its type."""
    bounds = footer.bounds.get(field.name)
    if isinstance(field.type, AtomicType) and field.type.root is TypeRoot.DECIMAL:
        return bounds is not None and all(fits_decimal(bound, field.type) for bound in bounds)
    # Bounds of moments are there if all lie in the years that Python has.
    is_far = bounds is None and holds_moments(to_arrow_type(field.type))
    return not is_far and not limits_values(field.type)


def _name(uri: str, taking: str, format_name: str) -> str:
    """The name of a file in manifests: its own may be that of files in other folders too.

    Readers open the external path, and tell files of a table apart by their names. pypaimon hides
    a file whose identifier any manifest deletes, so a file that was dropped never gets its name
    again.
    """
    said = f"{taking} {uri}".encode()
    return f"taken-{blake2b(said, digest_size=16).hexdigest()}.{format_name}"


def _constant_stats(field: DataField, value: Value, footer: Footer) -> ColumnStats:
    nulls = footer.row_count if value is None else 0
    # Readers compare other values, such as NaN, in ways of their own.
    bounded = isinstance(value, (bool, int, str)) and footer.row_count > 0
    return ColumnStats(field.type, value, value, nulls, bounded=bounded)


def _column_stats(field: DataField, footer: Footer) -> ColumnStats:
    count = footer.null_counts.get(field.name, 0)
    bounds = footer.bounds.get(field.name)
    if bounds is None or not isinstance(field.type, AtomicType) or field.type.root not in _BOUNDED:
        return ColumnStats(field.type, null_count=count, bounded=False)
    low, high = (from_python(bound, field.type) for bound in bounds)
    return ColumnStats(field.type, low, high, count)


def _misfit(held: pa.Schema, version: _Version, partition_keys: tuple[str, ...]) -> str | None:
    """How the columns of a file differ from those of a schema; None if they do not."""
    stored = version.stored
    names = list(held.names)
    if len(set(names)) < len(names):
        return "it has two columns of one name"
    foreign = [name for name in names if name not in stored.names]
    if foreign:
        return f"it has column {foreign[0]}, and the table has no such column"
    lacking = [
        name for name in stored.names if name not in held.names and name not in partition_keys
    ]
    if lacking:
        return f"it lacks column {lacking[0]}"
    for name in names:
        has, due = held.field(name).type, stored.field(name).type
        if not _is_alike(has, due):
            declared = version.schema.field(name).type
            return f"column {name} holds {has} there, and {declared} is stored as {due}"
    return None


def _is_alike(has: pa.DataType, due: pa.DataType) -> bool:
    """Whether values of both types are stored alike; names of list elements do not count."""
    if pa.types.is_large_string(has):
        has = pa.string()
    if pa.types.is_large_binary(has):
        has = pa.binary()
    if pa.types.is_map(due):
        return (
            pa.types.is_map(has)
            and _is_alike(has.key_type, due.key_type)
            and _is_alike(has.item_type, due.item_type)
        )
    if pa.types.is_list(due):
        return (pa.types.is_list(has) or pa.types.is_large_list(has)) and _is_alike(
            has.value_type, due.value_type
        )
    if pa.types.is_struct(due):
        return (
            pa.types.is_struct(has)
            and [field.name for field in has] == [field.name for field in due]
            and all(_is_alike(a.type, b.type) for a, b in zip(has, due, strict=True))
        )
    return bool(has.equals(due))
