"""`python`: the rows that a function of Python gives, once or from where it stopped.

    def orders(after: datetime | None) -> Iterator[dict[str, object]]: ...

With `incremental`, the function gets the greatest value of that column so far, and gives rows with
greater ones. Without it, the function takes no argument, or a default, and gives all rows.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from lakewright.connectors.cursor_scan import CursorScan
from lakewright.connectors.factories import Context, DynamicTableFactory
from lakewright.connectors.fitted import batches_of
from lakewright.connectors.options import Option
from lakewright.connectors.runtime import Scan
from lakewright.connectors.sources import ScanTableSource
from lakewright.storage.errors import InvalidOption, InvalidRows, NotFoundError
from lakewright.storage.spec.data_types import DataField

_FUNCTION, _INCREMENTAL = "function", "incremental"


class PythonRows(DynamicTableFactory):
    """Makes the source."""

    identifier = "python"
    description = "rows that a function of Python gives"
    required_options = (Option(name=_FUNCTION, description="the function, as module:function"),)
    optional_options = (
        Option(name=_INCREMENTAL, description="a column that grows; the function gets its last"),
    )

    def create_source(self, context: Context) -> ScanTableSource:
        return PythonSource(context)


class PythonSource(ScanTableSource):
    """A function's rows, which are dicts, sequences, Arrow tables or batches."""

    def __init__(self, context: Context) -> None:
        self._name = context.name
        self._function = context.options[_FUNCTION]
        self._fields = context.table.fields
        self._cursor = cursor_field(context, context.options[_INCREMENTAL])

    @property
    def summary(self) -> str:
        return f"python {self._function}"

    def scan(self) -> Scan:
        return _FunctionScan(self._function, self._fields, self._cursor, self._name)


def cursor_field(context: Context, name: str | None) -> DataField | None:
    """The column that tells what is new.

    Raises:
        InvalidOption: there is no such column.
    """
    if name is None:
        return None
    found = next((field for field in context.table.fields if field.name == name), None)
    if found is None:
        names = ", ".join(field.name for field in context.table.fields)
        raise InvalidOption(
            f"incremental of {context.name} is {name}, which is no column; there are {names}",
            option=_INCREMENTAL,
        )
    return found


class _FunctionScan(CursorScan):
    def __init__(
        self, function: str, fields: Sequence[DataField], cursor: DataField | None, owner: str
    ) -> None:
        super().__init__(cursor, owner)
        self._path, self._fields = function, tuple(fields)

    def fetch(self, after: Any) -> Iterator[pa.RecordBatch]:
        function = found_function(self._path, self._owner)
        given = function() if self._cursor is None else function(after)
        yield from row_batches(given, self._fields, self._owner)


def row_batches(rows: Any, fields: Sequence[DataField], owner: str) -> Iterator[pa.RecordBatch]:
    """What a function gave as batches: rows of Python, or Arrow.

    Raises:
        InvalidRows: a value does not fit its column, or Arrow lacks one.
    """
    names = [field.name for field in fields]
    pieces: Iterable[Any] = [rows] if isinstance(rows, (pa.Table, pa.RecordBatch)) else rows
    waiting = iter(pieces)
    first = next(waiting, None)
    if first is None:
        return
    if isinstance(first, (pa.Table, pa.RecordBatch)):
        for piece in chain([first], waiting):
            if lacking := [name for name in names if name not in piece.schema.names]:
                raise InvalidRows(
                    f"{owner}: the function gives {', '.join(piece.schema.names)}, without "
                    f"{', '.join(lacking)}",
                    column=lacking[0],
                )
            yield from pa.table(piece.select(names)).to_batches()
        return
    plain: Iterable[Mapping[str, Any] | Sequence[Any]] = chain([first], waiting)
    yield from batches_of(plain, fields, table=owner)


def found_function(path: str, owner: str) -> Callable[..., Any]:
    """A function by its name, as module:function.

    Raises:
        NotFoundError: there is none.
    """
    module, _, name = path.partition(":")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise NotFoundError(
            f"function {path} of {owner} cannot be found: {error}; write module:function, of a "
            "module that this process can import"
        ) from error
    return found
