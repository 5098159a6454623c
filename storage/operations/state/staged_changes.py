"""Whether a staged change of partition keys can go on, and the files that it keeps.

A change that was published can go on no more: whichever way it ended, the table has another schema
than that from which it was staged.

A damaged record names nothing. `respec` leaves it aside and deletes it with the others; what it
named is staged again, and the files of before are orphans then. A caller that must know all of it
stops at such a record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from lakewright.storage.codec.schema_json import encode_schema
from lakewright.storage.errors import CorruptionError, SchemaMoved, SchemaNotFound
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.branch_files import shell_name
from lakewright.storage.spec.index import IndexEntry
from lakewright.storage.spec.manifest import EntryIdentity
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.staged_change import StagedChange, StagedPartition


def read_changes(
    files: TableFiles, damaged: list[CorruptionError] | None = None
) -> dict[int, StagedChange]:
    """The changes that have a record, by their numbers.

    What is wrong with a damaged record is added to `damaged`.

    Raises:
        CorruptionError: a record is damaged, and there is no such list.
        UnsupportedError: a later version of lakewright wrote a record.
    """
    store = files.staged_changes
    found = {}
    for number in store.numbers():
        try:
            change = store.change(number)
            if change is not None:
                _check_keys(files, number, change)
        except CorruptionError as error:
            _tell(files, error, damaged)
        else:
            if change is not None:
                found[number] = change
    return found


def read_partitions(
    files: TableFiles, path: str, change: StagedChange, damaged: list[CorruptionError] | None = None
) -> tuple[StagedPartition, ...]:
    """The partitions of a record of a change, whose files have a place in the table.

    Raises:
        CorruptionError: as `read_changes`.
        UnsupportedError: as `read_changes`.
    """
    try:
        found = files.staged_changes.read(path)
        _check_places(files, path, change, found)
    except CorruptionError as error:
        _tell(files, error, damaged)
        return ()
    return found


def _check_places(
    files: TableFiles, path: str, change: StagedChange, found: Iterable[StagedPartition]
) -> None:
    try:
        for _ in paths_of(files, change, found):
            pass
    except (CorruptionError, SchemaMoved, ValueError) as error:
        raise CorruptionError(
            f"{path} names files that have no place under the partition keys "
            f"[{', '.join(change.keys)}] of its change: {error}",
            path=path,
        ) from error


def _check_keys(files: TableFiles, number: int, change: StagedChange) -> None:
    with suppress(SchemaNotFound):
        source = files.schemas.read(change.schema_id)
        unknown = sorted(set(change.keys) - set(source.field_names))
        is_other = checksum_of(source) != change.schema
        if not is_other and (unknown or len(set(change.keys)) < len(change.keys)):
            path = files.paths.staged_change(number)
            raise CorruptionError(
                f"{path} gives {files.name} the partition keys [{', '.join(change.keys)}], and "
                f"its columns are {', '.join(source.field_names)}",
                path=path,
            )


def _tell(files: TableFiles, error: CorruptionError, damaged: list[CorruptionError] | None) -> None:
    if damaged is not None:
        damaged.append(error)
        return
    present = ",".join(files.schema.partition_keys)
    raise CorruptionError(
        f"{error.message}; no row depends on it: respec deletes it, and stages again what it "
        "named, or gives the change up if it is given the present keys "
        f"(lakewright respec {shell_name(files)} --keys '{present}')",
        **error.details,
    ) from error


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
    """The data files and indexes that staged partitions name; none if their schema is gone."""
    with suppress(SchemaNotFound):
        source = files.at_schema(change.schema_id)
        now = replace(source, schema=replace(source.schema, partition_keys=change.keys))
        for partition in partitions:
            for message in partition.messages:
                yield from now.written_paths(message)


def base_of(identities: Iterable[EntryIdentity], indexes: Iterable[IndexEntry]) -> str:
    """The checksum of what the rows of a partition are read from: its files and its indexes."""
    told = [*sorted(map(repr, identities)), *sorted(map(repr, indexes))]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()
