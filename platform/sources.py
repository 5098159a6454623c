"""Sources: where the rows of a declared table come from.

A source is a function from a request to rows, as an Arrow table or a Spark
DataFrame. Files need no function: they are read by what the declaration says.
"""

from __future__ import annotations

import glob
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from lakewright.platform.declarations import SourceDeclaration, TableDeclaration
from lakewright.platform.engines import prefers_spark
from lakewright.storage import Table
from lakewright.storage.errors import InvalidRequestError, NotFoundError
from lakewright.storage.spec.predicate import And, Leaf, Operator, Or, Predicate
from lakewright.storage.spec.values import Value, from_python


@dataclass(frozen=True, kw_only=True)
class SourceRequest:
    """What a source is asked for.

    `partitions` are those wanted, in order, None for all there are; rows of
    others are refused. `upstream` holds the tables it depends on. A session is
    started when `spark` is first looked at; `wants_spark` says whether rows are
    better returned as a DataFrame, which is never required.
    """

    table: str
    partitions: tuple[Mapping[str, object], ...] | None
    upstream: Mapping[str, Table]
    wants_spark: bool
    session: Callable[[], Any] = field(repr=False)

    @property
    def spark(self) -> Any:
        """The Spark session."""
        return self.session()

    def values(self, column: str) -> tuple[object, ...]:
        """Values wanted of one partition column, in order, each once."""
        return tuple(dict.fromkeys(spec[column] for spec in self.partitions or ()))

    def upstream_rows(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows of an upstream table, of the wanted partitions where it has the same columns."""
        table = self._upstream(name)
        return table.read(self.upstream_filter(name), columns)

    def upstream_dataframe(self, name: str, columns: Sequence[str] | None = None) -> Any:
        """The same as a Spark DataFrame."""
        from lakewright.storage.spark import read_dataframe

        table = self._upstream(name)
        return read_dataframe(self.spark, table, self.upstream_filter(name), columns)

    def upstream_filter(self, name: str) -> Predicate | None:
        """A filter for the wanted partitions, by the partition columns that both tables have."""
        table = self._upstream(name)
        if self.partitions is None:
            return None
        shared = [
            each
            for each in table.schema.partition_fields
            if self.partitions and each.name in self.partitions[0]
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
    """The function that a declaration's source stands for.

    Raises:
        NotFoundError: there is no such module or function.
    """
    source = declaration.source
    assert source is not None
    if source.python is not None:
        return _function(source.python, declaration.table)
    if source.parquet is not None:
        return _files_source(source.parquet, "parquet", declaration)
    assert source.csv is not None
    return _files_source(source.csv, "csv", declaration)


def source_text(source: SourceDeclaration) -> str:
    """A source in one line, as `python module:function`."""
    return ", ".join(f"{kind} {where}" for kind, where in source.given.items())


def _function(path: str, table: str) -> Source:
    module_name, _, name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as err:
        raise NotFoundError(
            f"the source of {table} is {path}, and module {module_name} cannot be imported: {err}",
            table=table,
        ) from err
    function = getattr(module, name, None)
    if not callable(function):
        raise NotFoundError(
            f"the source of {table} is {path}, and module {module_name} has no function {name}",
            table=table,
        )
    found: Source = function
    return found


def _files_source(pattern: str, kind: str, declaration: TableDeclaration) -> Source:
    def read(request: SourceRequest) -> Any:
        paths = _paths(pattern, kind, declaration.table)
        size = sum(Path(path).stat().st_size for path in paths)
        if request.wants_spark or prefers_spark(declaration.write.engine, size_bytes=size):
            rows = getattr(request.spark.read, kind)(
                *(paths if kind == "parquet" else [paths]),
                **({} if kind == "parquet" else {"header": True, "inferSchema": True}),
            )
            return _wanted_dataframe(rows, request)
        reader = pq.read_table if kind == "parquet" else pa_csv.read_csv
        return _wanted_rows(pa.concat_tables([reader(path) for path in paths]), request)

    return read


def _paths(pattern: str, kind: str, table: str) -> list[str]:
    inside = f"{pattern.rstrip('/')}/**/*.{kind}" if Path(pattern).is_dir() else pattern
    paths = sorted(glob.glob(inside, recursive=True))  # noqa: PTH207  # patterns may be absolute
    if not paths:
        raise NotFoundError(f"the source of {table} is {pattern}, and no file matches", table=table)
    return paths


def _wanted_rows(rows: pa.Table, request: SourceRequest) -> pa.Table:
    """Rows of the wanted partitions; a file holds whatever it holds."""
    if not request.partitions:
        return rows
    names = [name for name in request.partitions[0] if name in rows.column_names]
    if not names:
        return rows
    wanted = {tuple(str(spec[name]) for name in names) for spec in request.partitions}
    columns = [[str(value) for value in rows.column(name).to_pylist()] for name in names]
    mask = [values in wanted for values in zip(*columns, strict=True)]
    return rows.filter(pa.array(mask, pa.bool_()))


def _wanted_dataframe(rows: Any, request: SourceRequest) -> Any:
    if not request.partitions:
        return rows
    names = [name for name in request.partitions[0] if name in rows.columns]
    for name in names:
        values = [value for value in request.values(name) if value is not None]
        rows = rows.filter(rows[name].isin(values))
    return rows
