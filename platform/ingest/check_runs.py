"""What a run of a declaration would find before its first row: missing code and packages."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from lakewright.platform.documents.marked_yaml import Place
from lakewright.platform.documents.wrong_places import Finding
from lakewright.platform.ingest.sources import find_source
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.upkeep_policies import EngineChoice
from lakewright.storage.errors import NotFoundError
from lakewright.storage.extras import extra_missing

_EXPECTATIONS = ("great_expectations", "pandas")


def check_run(declaration: TableDeclaration) -> Iterator[Finding]:
    """The source that cannot be imported, and the extras that are not installed."""
    source = declaration.source
    if source is None:
        return
    if source.python is not None and ":" in source.python:
        yield from _check_function(declaration, source.python)
    in_spark = declaration.write.engine is EngineChoice.SPARK
    if in_spark:
        yield from _check_installed("`engine: spark`", ("pyspark",), ("write", "engine"))
    elif source.stream is not None and source.stream.connector is None:
        yield from _check_installed("a stream", ("pyspark",), ("source", "stream"))
    if source.sql is not None and not in_spark:
        yield from _check_installed("a query as a source", ("duckdb",), ("source", "sql"))
    for at, each in enumerate(declaration.expectations):
        if each.sql is not None and not in_spark:
            yield from _check_installed("a query", ("duckdb",), ("expectations", at, "sql"))
            break
    for at, each in enumerate(declaration.expectations):
        # Spark's queries are run by the same library as the other expectations.
        if each.sql is None or in_spark:
            yield from _check_installed("an expectation", _EXPECTATIONS, ("expectations", at))
            break


def _check_function(declaration: TableDeclaration, path: str) -> Iterator[Finding]:
    place: Place = ("source", "python")
    module = path.partition(":")[0]
    try:
        find_source(declaration)
    except NotFoundError as error:
        missing = extra_missing(f"the source {path}", _cause(error))
        yield place, error.message if missing is None else missing.message
    except Exception as error:  # noqa: BLE001  # a module may raise anything
        told = f"{type(error).__name__}: {error}"
        yield place, f"module {module} fails when it is imported: {told}"


def _cause(error: NotFoundError) -> ImportError:
    cause = error.__cause__
    return cause if isinstance(cause, ImportError) else ImportError()


def _check_installed(what: str, modules: tuple[str, ...], place: Place) -> Iterator[Finding]:
    for module in modules:
        if find_spec(module) is None:
            error = extra_missing(what, ModuleNotFoundError(name=module))
            assert error is not None
            yield place, error.message
            return
