"""Sources: functions that return the rows of a declared table.

A source maps a request to rows, as an Arrow table or a Spark DataFrame. Files need no function: the
declaration says how they are read.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from lakewright.platform.ingest.broken_partitions import BrokenPartitions
from lakewright.platform.ingest.connector_source import connector_rows
from lakewright.platform.ingest.query_source import query_rows
from lakewright.platform.ingest.source_files import source_files
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.partition_keys import first_few
from lakewright.platform.tables.source_declarations import SourceDeclaration
from lakewright.platform.upkeep.engines import prefers_spark
from lakewright.storage import Catalog, Engine, LocalEngine, Table
from lakewright.storage.codec.arrow_timestamps import holds_timestamps
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.errors import InvalidRequestError, InvalidRows, NotFoundError
from lakewright.storage.file_reader.bad_rows import BadRows
from lakewright.storage.file_reader.filled_columns import FilledColumns
from lakewright.storage.file_reader.reader import (
    FileReader,
    Partitions,
    count_file,
    divided,
    read_in_turn,
)
from lakewright.storage.operations.running.work_name import working_on
from lakewright.storage.spec.data_types import DataType
from lakewright.storage.spec.partition_words import describe_partition
from lakewright.storage.spec.predicate import And, Leaf, Operator, Or, Predicate
from lakewright.storage.spec.values import Value, from_python, to_python

# Of so many files for Spark the columns are read beforehand.
_MOST_ASKED = 20


@dataclass(frozen=True, kw_only=True)
class SourceRequest:
    """The request that a source gets.

    `partitions` are the wanted partitions, in order; None means all. Rows of other partitions are
    refused. `upstream` holds the tables that the table depends on. The first use of `spark` starts
    a session. `wants_spark` says whether a DataFrame is the better result; it is never required.
    `bad_rows` gets the rows of files that are left out, `filled` the columns that they lack, and
    `broken` the partitions whose files cannot be read. `catalog` is the warehouse of a query.
    """

    table: str
    partitions: tuple[Mapping[str, object], ...] | None
    upstream: Mapping[str, Table]
    wants_spark: bool
    session: Callable[[], Any] = field(repr=False)
    bad_rows: BadRows | None = field(default=None, repr=False)
    broken: BrokenPartitions | None = field(default=None, repr=False)
    catalog: Catalog | None = field(default=None, repr=False)
    filled: FilledColumns = field(default_factory=FilledColumns, repr=False)

    @property
    def spark(self) -> Any:
        """The Spark session."""
        return self.session()

    def values(self, column: str) -> tuple[object, ...]:
        """The wanted values of one partition column, in order, each once."""
        return tuple(dict.fromkeys(spec[column] for spec in self.partitions or ()))

    def upstream_rows(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows of an upstream table, only of the wanted partitions if it has the same columns."""
        table = self._upstream(name)
        return table.read(self.upstream_filter(name), columns)

    def upstream_dataframe(self, name: str, columns: Sequence[str] | None = None) -> Any:
        """The same rows as a Spark DataFrame."""
        table = self._upstream(name)
        return table.to_spark(self.spark, self.upstream_filter(name), columns)

    def upstream_filter(self, name: str) -> Predicate | None:
        """A filter for the wanted partitions, by the partition columns that both tables have."""
        table = self._upstream(name)
        if self.partitions is None:
            return None
        shared = [
            partition_field
            for partition_field in table.schema.partition_fields
            if self.partitions and partition_field.name in self.partitions[0]
        ]
        if not shared:
            return None
        if len(shared) == 1:
            wanted = [from_python(v, shared[0].type) for v in self.values(shared[0].name)]
            return _one_of(shared[0].name, wanted)
        return Or(
            tuple(
                And(
                    tuple(
                        _one_of(each.name, [from_python(spec[each.name], each.type)])
                        for each in shared
                    )
                )
                for spec in self.partitions
            )
        )

    def _upstream(self, name: str) -> Table:
        if name not in self.upstream:
            have = ", ".join(self.upstream) or "none"
            raise InvalidRequestError(
                f"{self.table} depends on {have}, and not on {name}; add it to depends_on"
            )
        return self.upstream[name]


def _one_of(column: str, values: Sequence[Value]) -> Predicate:
    present = tuple(value for value in values if value is not None)
    parts: list[Predicate] = [Leaf(column, Operator.IN, present)] if present else []
    if len(present) < len(values):
        parts.append(Leaf(column, Operator.IS_NULL))
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


Source = Callable[[SourceRequest], Any]


def find_source(declaration: TableDeclaration) -> Source:
    """The function of a declaration's source.

    Raises:
        NotFoundError: there is no such module or function.
    """
    source = declaration.source
    assert source is not None
    if source.python is not None:
        return _function(source.python, declaration.table)
    if source.sql is not None:
        return partial(_query, declaration)
    if source.connector is not None:
        return partial(_connector, declaration)
    return _files_source(declaration)


def source_text(source: SourceDeclaration) -> str:
    """A source in one line, as `python module:function`."""
    return ", ".join(f"{kind} {where}" for kind, where in source.given.items())


def _function(path: str, table: str) -> Source:
    module_name, _, name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as err:
        raise NotFoundError(
            f"the source of {table} is {path}, and module {module_name} cannot be imported: {err}"
        ) from err
    function = getattr(module, name, None)
    if not callable(function):
        raise NotFoundError(
            f"the source of {table} is {path}, and module {module_name} has no function {name}"
        )
    found: Source = function
    return found


def _query(declaration: TableDeclaration, request: SourceRequest) -> Any:
    assert request.catalog is not None
    return query_rows(declaration, request.catalog, request.partitions, request.session)


def _connector(declaration: TableDeclaration, request: SourceRequest) -> Any:
    assert request.catalog is not None
    return connector_rows(declaration, request.catalog, request.partitions, request.bad_rows)


def _files_source(declaration: TableDeclaration) -> Source:
    def read(request: SourceRequest) -> Any:
        files = source_files(declaration, request.partitions)
        if _in_spark(files, declaration, request):
            from lakewright.storage.spark import dataframe_of_tasks

            # Spark's tasks count nothing here; some of the files, the last included, tell enough.
            for file in files[-1 :: -max(1, len(files) // _MOST_ASKED)]:
                request.filled.add(file.missing_columns(), None, file.path)
            return dataframe_of_tasks(
                request.spark,
                divided(files),
                partial(_read, wanted=request.partitions),
                files[0].fields,
            )
        return read_in_turn(
            files,
            request.partitions,
            request.bad_rows,
            None if request.broken is None else request.broken.leaves_out,
            request.filled,
        )

    return read


def explain_source(declaration: TableDeclaration, request: SourceRequest) -> None:
    """Explain why a source's files gave none of the requested rows.

    Raises:
        InvalidRows: a file cannot be read, or rows are there and none is of a partition asked for.
    """
    source = declaration.source
    if source is None or source.returns_rows or request.partitions == ():
        return
    files = source_files(declaration, request.partitions)
    if not files:
        _explain_folders(declaration, request)
        return
    in_spark = _in_spark(files, declaration, request)
    engine: Engine = LocalEngine()
    if in_spark:
        from lakewright.storage.spark import SparkEngine

        engine = SparkEngine(request.spark)
    with working_on("count files of", declaration.table):
        found = engine.map(partial(count_file, wanted=request.partitions), divided(files))
    row_count = sum(each.row_count for each in found)
    if request.partitions is None or not row_count or any(each.wanted_count for each in found):
        return
    sample = tuple(dict.fromkeys(name for each in found for name in each.partitions))[:5]
    asked = [describe_partition(spec) for spec in request.partitions]
    raise InvalidRows(
        f"of {row_count} rows in {len(files)} files of {source_text(source)} none is of the "
        f"{len(asked)} requested partitions ({first_few(asked)}); the files hold "
        f"partitions such as {first_few(sample)}; write partition values as in the column, or "
        f"declare `allow_empty: true` in the source of {declaration.table}; nothing was written"
    )


def _explain_folders(declaration: TableDeclaration, request: SourceRequest) -> None:
    """Tell of which partitions there are files, since there are none of those asked for."""
    assert declaration.source is not None
    files = source_files(declaration, None)
    types = {column.name: column.type for column in declaration.partition_columns}
    held_by = dict.fromkeys(
        describe_partition(
            {name: to_python(value, types[name]) for name, value in file.file.values}
        )
        for file in files
    )
    asked = [describe_partition(spec) for spec in request.partitions or ()]
    raise InvalidRows(
        f"none of the {len(files)} files of {source_text(declaration.source)} is of the "
        f"{len(asked)} requested partitions ({first_few(asked)}); their paths tell "
        f"{first_few(list(held_by))}; declare `allow_empty: true` in the source of "
        f"{declaration.table} if this is intended; nothing was written"
    )


def _in_spark(
    files: Sequence[FileReader], declaration: TableDeclaration, request: SourceRequest
) -> bool:
    # Tasks of Spark do not reach the memory of this process.
    if not files or files[0].file.fs.scheme == "memory":
        return False
    # This process counts the rows that it leaves out.
    if request.bad_rows is not None:
        return False
    if any(_is_finer_than_spark(field.type) for field in files[0].fields):
        return False
    size = sum(file.file.size_bytes for file in files)
    return request.wants_spark or prefers_spark(declaration.write.engine, size_bytes=size)


def _is_finer_than_spark(data_type: DataType) -> bool:
    """Whether values have digits below the microseconds of Spark."""
    return holds_timestamps(to_arrow_type(data_type), unit="ns")


def _read(file: FileReader, wanted: Partitions | None) -> Iterator[pa.Table]:
    return file.read(wanted)
