"""Tables that Java Paimon 2.0.0 wrote by Spark, each of a kind that later versions alone write.

Each has three commits, of which the last is an update, a merge or an insert.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

from lakewright.storage import Catalog, Table

_ARCHIVE = Path(__file__).resolve().parents[2] / "golden" / "java-2.0.0-kinds.tgz"


def java_kind(catalog: Catalog, kind: str) -> Table:
    """The table of a kind, in a warehouse on disk that need not exist yet."""
    with tarfile.open(_ARCHIVE) as archive:
        below = f"./db.db/{kind}/"
        members = [each for each in archive.getmembers() if each.name.startswith(below)]
        archive.extractall(catalog.root, members, filter="data")
    return catalog.table(f"db.{kind}")


def rows_of_java(kind: str) -> list[Any]:
    """The rows that Java reads of a kind, sorted by their JSON."""
    with tarfile.open(_ARCHIVE) as archive:
        held = archive.extractfile("./rows.json")
        assert held is not None
        return list(json.load(held)[kind])


def rows_as_java(table: Table, **read: Any) -> list[Any]:
    """The rows that we read, as `rows_of_java` has them."""
    rows = [list(row.values()) for row in table.read(**read).to_pylist()]
    return sorted(rows, key=json.dumps)
