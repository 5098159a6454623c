"""Source files: Parquet and CSV as rows of the declared types.

The declaration decides the types, not the file's content: text is parsed as the declared type, and
numbers of another width are cast if the cast is lossless. One function reads a file here and in
Spark's tasks, so that both engines see the same rows.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from lakewright.platform.declare.declarations import SourceDeclaration, TableDeclaration
from lakewright.platform.declare.partition_keys import describe_partition
from lakewright.platform.ingest.text_values import TextLayout, from_text
from lakewright.storage.codec.arrow_types import conform, to_arrow_type
from lakewright.storage.codec.arrow_values import scalar_of
from lakewright.storage.errors import InvalidRows, NotFoundError
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot
from lakewright.storage.spec.schema import new_schema
from lakewright.storage.spec.values import from_python

_BLOCK_BYTES = 8 * 1024 * 1024
# How many partitions a message names.
_MOST_PARTITIONS = 5
Partitions = tuple[Mapping[str, object], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One file or some of its row groups, with the reading options; picklable for Spark tasks."""

    path: str
    source: SourceDeclaration
    fields: tuple[DataField, ...]
    partition_keys: tuple[str, ...]
    row_groups: tuple[int, ...] | None = None

    def read(self, wanted: Partitions | None) -> Iterator[pa.Table]:
        """Rows of the wanted partitions, None for all, in the declared types.

        Raises:
            InvalidRows: the file is not of its kind, or does not hold what is declared.
        """
        try:
            for rows in self._batches():
                typed = conform(rows, self.fields, table=self.path)
                yield typed if wanted is None else typed.filter(_mask(typed, self.fields, wanted))
        except (pa.ArrowException, OSError, UnicodeError) as err:
            raise InvalidRows(f"{self.path} cannot be read: {err}{self._hint(err)}") from err

    def _batches(self) -> Iterator[pa.Table]:
        if self.source.parquet is not None:
            with pq.ParquetFile(self.path) as file:
                for batch in file.iter_batches(row_groups=self.row_groups):
                    yield self._typed(pa.Table.from_batches([batch]), 0)
                # A file without rows has columns too, and they may differ from the declared ones.
                yield self._typed(file.schema_arrow.empty_table(), 0)
            return
        row = 0
        for batch in self._csv():
            rows = pa.Table.from_batches([batch])
            yield self._typed(rows, row)
            row += rows.num_rows

    def _csv(self) -> Iterator[pa.RecordBatch]:
        source = self.source
        if not source.header and Path(self.path).stat().st_size == 0:
            return
        names = None if source.header else [field.name for field in self.fields]
        with pa_csv.open_csv(
            self.path,
            pa_csv.ReadOptions(
                column_names=names, encoding=source.encoding, block_size=_BLOCK_BYTES
            ),
            pa_csv.ParseOptions(delimiter=source.delimiter, newlines_in_values=True),
            pa_csv.ConvertOptions(
                default_column_type=pa.string(),
                null_values=list(source.nulls),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        ) as reader:
            yield pa.RecordBatch.from_pylist([], reader.schema)
            yield from reader

    def _typed(self, rows: pa.Table, first_row: int) -> pa.Table:
        """Text cast to the declared types, and moments to the day that names a partition."""
        declared = {field.name: field for field in self.fields}
        for at, name in enumerate(rows.column_names):
            field = declared.get(name)
            if field is None or not isinstance(field.type, AtomicType):
                continue
            column = rows.column(at)
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
                texts = column.cast(pa.string()).combine_chunks()
                try:
                    values = from_text(texts, field, self._layout, first_row=first_row)
                except InvalidRows as err:
                    raise InvalidRows(f"{self.path}: {err.message}", column=name) from None
                rows = rows.set_column(at, name, values)
            elif self._is_day_of_moments(field, column.type):
                rows = rows.set_column(
                    at, name, pc.floor_temporal(column, unit="day").cast(pa.date32())
                )
        return rows

    def _is_day_of_moments(self, field: DataField, given: pa.DataType) -> bool:
        """Whether the day of local times names a partition; the day of a zoned time is unclear."""
        is_date = isinstance(field.type, AtomicType) and field.type.root is TypeRoot.DATE
        is_local = bool(pa.types.is_timestamp(given)) and given.tz is None
        return is_date and is_local and field.name in self.partition_keys

    @property
    def _layout(self) -> TextLayout:
        source = self.source
        return TextLayout(
            nulls=source.nulls,
            date_format=source.date_format,
            timestamp_format=source.timestamp_format,
        )

    def _hint(self, err: Exception) -> str:
        if "UTF8" in str(err) or isinstance(err, UnicodeError):
            return "; give its encoding, such as `encoding: latin-1`"
        if "columns, got" in str(err):
            return "; give the character between columns, such as `delimiter: ';'`"
        return ""


def source_files(declaration: TableDeclaration) -> list[SourceFile]:
    """The files that a declaration's path, folder or glob names.

    Raises:
        NotFoundError: there is none.
    """
    source = declaration.source
    assert source is not None
    kind, pattern = next(iter(source.given.items()))
    inside = pattern
    paths = []
    try:
        if Path(pattern).is_dir():
            inside = f"{glob.escape(pattern.rstrip('/'))}/**/*.{kind}"
        elif Path(pattern).is_file():
            inside = glob.escape(pattern)
        paths = sorted(glob.glob(inside, recursive=True))  # noqa: PTH207  # patterns may be absolute
    except (OSError, ValueError) as err:
        raise InvalidRows(f"the source of {declaration.table} is not a valid path: {err}") from err
    if not paths:
        raise NotFoundError(
            f"the source of {declaration.table} is {pattern}, and no file matches {inside}; "
            "nothing was written",
            table=declaration.table,
        )
    fields = new_schema(declaration.schema_spec, time_millis=0).fields
    return [
        SourceFile(
            path=path, source=source, fields=fields, partition_keys=declaration.partition_keys
        )
        for path in paths
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The content of a file: its row count, the rows of wanted partitions, and some partitions."""

    row_count: int
    wanted_count: int
    partitions: tuple[str, ...]


def held(file: SourceFile, wanted: Partitions | None) -> Held:
    """Read a whole file; without wanted partitions only count its rows.

    Raises:
        InvalidRows: the file is not of its kind, or does not hold what is declared.
    """
    row_count = wanted_count = 0
    partitions: dict[str, None] = {}
    for rows in file.read(None):
        row_count += rows.num_rows
        if wanted is None:
            continue
        columns = list(wanted[0])
        wanted_count += int(pc.sum(_mask(rows, file.fields, wanted)).as_py() or 0)
        if len(partitions) < _MOST_PARTITIONS:
            distinct = rows.select(columns).group_by(columns).aggregate([]).to_pylist()
            partitions |= dict.fromkeys(describe_partition(spec) for spec in distinct)
    first = tuple(partitions)[:_MOST_PARTITIONS]
    return Held(row_count=row_count, wanted_count=wanted_count, partitions=first)


def divided(files: Sequence[SourceFile]) -> list[SourceFile]:
    """Pieces that tasks read in parallel: row groups of Parquet, and whole CSV files."""
    pieces: list[SourceFile] = []
    for file in files:
        if file.source.parquet is None:
            pieces.append(file)
            continue
        try:
            count = pq.read_metadata(file.path).num_row_groups
        except (pa.ArrowException, OSError) as err:
            raise InvalidRows(f"{file.path} cannot be read: {err}") from err
        pieces += [replace(file, row_groups=(at,)) for at in range(count)] or [file]
    return pieces


def _mask(rows: pa.Table, fields: Sequence[DataField], wanted: Partitions) -> pa.Array:
    """Marks the rows of the wanted partitions; values are compared in the columns' types."""
    types = {field.name: field.type for field in fields}
    found = np.ones(rows.num_rows, dtype=bool)
    codes = np.zeros(rows.num_rows, dtype=np.int64)
    wanted_codes = np.zeros(len(wanted), dtype=np.int64)
    for name in wanted[0]:
        data_type = types[name]
        asked = pa.array(
            [scalar_of(from_python(spec[name], data_type), data_type) for spec in wanted],
            to_arrow_type(data_type),
        )
        distinct = asked.unique()
        position = pc.fill_null(pc.index_in(rows.column(name), value_set=distinct), -1).to_numpy()
        found &= position >= 0
        codes = codes * len(distinct) + position
        wanted_codes = wanted_codes * len(distinct) + pc.index_in(asked, value_set=distinct)
    return pa.array(found & np.isin(codes, wanted_codes))
