"""The registry of a format table's partitions: numbered files, of which the highest counts.

A process that changes the registry creates the next file only if no other did, and tries again
otherwise. So each change is whole, and none is lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lakewright.storage.codec.json_values import as_list, as_text, read_object
from lakewright.storage.errors import CorruptionError, FileMissing, UnavailableError
from lakewright.storage.files.partition_registry_store import PartitionRegistryStore
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.spec.partition import Partition

_VERSION = 1
_MOST_TRIES = 100
_WAIT_MS = 20
# A reader that listed the files needs the latest of them, so some older ones stay.
_KEPT = 4

Edit = Callable[[frozenset[Partition]], Iterable[Partition]]


@dataclass(frozen=True, slots=True)
class Registry:
    """The registered partitions, in their order; number 0 is no file yet."""

    number: int
    partitions: tuple[Partition, ...]


def read_registry(files: TableFiles) -> Registry:
    """The latest registry; an empty one if there is none.

    Raises:
        CorruptionError: its file is no registry of this table.
        UnavailableError: other processes changed it at every try.
    """
    for _ in range(_MOST_TRIES):
        number = max(_store(files).numbers(), default=0)
        if number == 0:
            return Registry(0, ())
        try:
            data = _store(files).read(number)
        except FileMissing:
            continue
        return Registry(number, _decoded(files, number, data))
    raise _busy(files)


def change_registry(files: TableFiles, edit: Edit) -> Registry:
    """Replace the registered partitions by what `edit` makes of them.

    Raises:
        UnavailableError: other processes changed it at every try.
    """
    for _ in range(_MOST_TRIES):
        present = read_registry(files)
        before = frozenset(present.partitions)
        after = frozenset(edit(before))
        if after == before:
            return present
        ordered = tuple(sorted(after, key=lambda each: each.order))
        following = Registry(present.number + 1, ordered)
        store = _store(files)
        if store.put(following.number, _encoded(following)):
            old = [number for number in store.numbers() if number <= following.number - _KEPT]
            delete_files(files.fs, map(store.path, old))
            latest = read_registry(files)
            # A process that was suspended may create a file whose number was used and deleted.
            if latest.number == following.number or _stands(edit, latest):
                return latest
        files.env.sleep_ms(_WAIT_MS * (0.5 + files.env.jitter()))
    raise _busy(files)


def _stands(edit: Edit, latest: Registry) -> bool:
    held = frozenset(latest.partitions)
    return frozenset(edit(held)) == held


def _busy(files: TableFiles) -> UnavailableError:
    return UnavailableError(
        f"others changed the partitions of {files.name} {_MOST_TRIES} times meanwhile; try again",
        table=files.name,
    )


def _store(files: TableFiles) -> PartitionRegistryStore:
    return PartitionRegistryStore(files.fs, files.paths)


def _encoded(registry: Registry) -> bytes:
    texts = [each.text for each in registry.partitions]
    return json.dumps({"version": _VERSION, "partitions": texts}, indent=1).encode()


def _decoded(files: TableFiles, number: int, data: bytes) -> tuple[Partition, ...]:
    try:
        held = read_object(data)
        if held["version"] != _VERSION:
            raise ValueError(f"version {held['version']} is not {_VERSION}")
        keys, texts = files.partitions.keys, map(as_text, as_list(held["partitions"]))
        return tuple(files.partitions.of_values(keys.values_of(text)) for text in texts)
    except (ValueError, KeyError, TypeError) as error:
        path = _store(files).path(number)
        raise CorruptionError(
            f"{path} is no registry of partitions of {files.name}: {error!r}; delete it, and the "
            "one before it counts, then register what changed since",
            path=path,
        ) from error
