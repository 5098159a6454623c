"""Read Iceberg metadata with DuckDB, and write its rows as Parquet; one process for each read.

DuckDB aborts on some metadata, so nothing else should be in its process. The extensions come as
packages, and nothing is downloaded.

Usage: python duckdb_iceberg.py METADATA OUTPUT
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import duckdb


def _extension(name: str) -> str:
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    assert spec is not None
    assert spec.origin is not None
    (found,) = Path(spec.origin).parent.glob(f"extensions/*/{name}.duckdb_extension")
    return str(found)


def main(metadata: str, output: str) -> None:
    """Read and write."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    # The second one reads manifests with the first.
    for name in ("avro", "iceberg"):
        connection.execute(f"LOAD '{_extension(name)}'")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"COPY (FROM iceberg_scan('{metadata}')) TO '{output}' (FORMAT parquet)")


if __name__ == "__main__":
    main(*sys.argv[1:])
