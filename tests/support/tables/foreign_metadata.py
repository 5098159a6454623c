"""Metadata of other clients: changes one field of one file in a whole table."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro

from lakewright.storage import Catalog, LeaseKind, Table
from lakewright.storage.codec.sealed_json import sealed
from lakewright.storage.operations.leases.leases import LeaseRequest, acquire_lease
from lakewright.storage.spec.lease import LeaseScope
from tests.support.tables.builders import compact, events, new_table, remove_orphans, rows
from tests.support.tables.copied import copied

Json = dict[str, Any]
Record = dict[str, Any]


def table_of_everything(catalog: Catalog, *, name: str = "db.t") -> Table:
    """A table that has a file of nearly every kind.

    Changelogs, deletion vectors, statistics, a tag, a branch, a consumer, a record of what
    is condemned, a lease and a pending batch.
    """

    def make(place: Catalog) -> Table:
        return _with_everything(place, name)

    return copied(catalog, make, name)


def _with_everything(catalog: Catalog, name: str) -> Table:
    table = new_table(
        catalog,
        name=name,
        keys=["day", "id"],
        partitions=["day"],
        options={
            "bucket": "1",
            "deletion-vectors.enabled": "true",
            "changelog-producer": "lookup",
            "changelog.num-retained.max": "100",
            "changelog.num-retained.min": "100",
        },
    )
    for version in "abc":
        table.write(rows(table, events(0, 3, v=version)))
        compact(table, full=True)
    table.upkeep.run(table.upkeep.plan_analyze())
    # The compaction marks replaced rows of deeper levels as deleted.
    table.write(rows(table, events(1, 2, v="d")))
    compact(table)
    table.history.create_tag("kept", snapshot=3)
    table.history.create_branch("side", tag="kept")
    table.history.set_consumer("reader", 4)
    (root_of(table) / "manifest/manifest-orphan").write_bytes(b"nothing refers to it")
    remove_orphans(table, grace_ms=None)
    acquire_lease(
        table.table_files,
        LeaseRequest(kind=LeaseKind.COMPACT, scope=LeaseScope(), holder="somebody"),
    )
    table.keep_pending(
        table.stage(rows(table, events(7, 8)), commit_user="stream", commit_identifier=1)
    )
    return table


def root_of(table: Table) -> Path:
    return Path(table.table_files.paths.root)


def change_json(path: Path, change: Callable[[Json], object]) -> None:
    """Change the content of a JSON file, with its checksum if it has one."""
    data = json.loads(path.read_bytes())
    is_sealed = data.pop("crc32", None) is not None
    change(data)
    data = sealed(data) if is_sealed else data
    path.write_text(json.dumps(data))


def change_records(path: Path, change: Callable[[Record], object]) -> None:
    """Change every record of an Avro file, under the schema that it was written with."""
    reader = fastavro.reader(BytesIO(path.read_bytes()))
    schema, found = reader.writer_schema, [each for each in reader if isinstance(each, dict)]
    for each in found:
        change(each)
    buffer = BytesIO()
    assert schema is not None
    fastavro.writer(buffer, schema, found)
    path.write_bytes(buffer.getvalue())
