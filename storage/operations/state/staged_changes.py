"""Whether a staged change of partition keys can go on, and the files that it keeps.

A change that was published can go on no more: whichever way it ended, the table has another schema
than that from which it was staged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from lakewright.storage.codec.schema_json import encode_schema
from lakewright.storage.errors import SchemaNotFound
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.index import IndexEntry
from lakewright.storage.spec.manifest import EntryIdentity
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.staged_change import StagedChange, StagedPartition


def checksum_of(schema: TableSchema) -> str:
    """What tells a schema from each other one, also from a later one of its id."""
    return hashlib.sha256(encode_schema(schema)).hexdigest()


def can_go_on(files: TableFiles, change: StagedChange) -> bool:
    """Whether the table still has the schema of which the change was staged, or its own copy.

    Where keys go, the change makes a schema for its entries before it is published, and above it a
    copy of the present one.
    """
    if not keeps_files(files, change):
        return False
    first = change.schema_id
    if files.schemas.latest_id(table=files.name) == first:
        return True
    return first + 1 in files.schemas.ids()


def keeps_files(files: TableFiles, change: StagedChange) -> bool:
    """Whether what a change staged may still be published, so that it is no orphan.

    The copy of the schema comes before the schema for entries. A process that stands still between
    the two will go on; no other process can go on from there.
    """
    present = files.schemas.latest_id(table=files.name)
    first = change.schema_id
    if present not in (first, first + 2) or first not in files.schemas.ids():
        return False
    source = files.schemas.read(first)
    if checksum_of(source) != change.schema:
        return False
    if present == first:
        return True
    copy = files.schemas.read(first + 2)
    if replace(copy, id=source.id, time_millis=source.time_millis) != source:
        return False
    try:
        return files.schemas.read(first + 1).partition_keys == change.keys
    except SchemaNotFound:
        return True


def paths_of(
    files: TableFiles, change: StagedChange, partitions: Iterable[StagedPartition]
) -> Iterator[str]:
    """The data files and indexes that staged partitions name."""
    with suppress(SchemaNotFound):
        source = files.at_schema(change.schema_id)
        now = replace(source, schema=replace(source.schema, partition_keys=change.keys))
        for each in partitions:
            for message in each.messages:
                yield from now.written_paths(message)


def base_of(identities: Iterable[EntryIdentity], indexes: Iterable[IndexEntry]) -> str:
    """The checksum of what the rows of a partition are read from: its files and its indexes."""
    told = [*sorted(map(repr, identities)), *sorted(map(repr, indexes))]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()
