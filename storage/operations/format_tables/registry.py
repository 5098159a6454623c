"""The registry of a format table's partitions, which only commands change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from lakewright.storage.codec.json_values import as_list, as_text, read_object
from lakewright.storage.errors import CorruptionError
from lakewright.storage.files.numbered_files import NumberedFiles
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.register import Register
from lakewright.storage.spec.partition import Partition

_VERSION = 1

Partitions = tuple[Partition, ...]
Edit = Callable[[frozenset[Partition]], Iterable[Partition]]


def read_registry(files: TableFiles) -> Partitions:
    """The registered partitions, in their order.

    Raises:
        CorruptionError: the file is no registry of this table.
        UnavailableError: other processes changed it at every try.
    """
    return _register(files).latest()


def change_registry(files: TableFiles, edit: Edit) -> Partitions:
    """Replace the registered partitions by what `edit` makes of them.

    Raises:
        UnavailableError: other processes changed it at every try.
    """

    def edited(present: Partitions) -> Partitions:
        return tuple(sorted(set(edit(frozenset(present))), key=lambda each: each.order))

    return _register(files).change(edited)


def _register(files: TableFiles) -> Register[Partitions]:
    def decode(data: bytes, path: str) -> Partitions:
        try:
            held = read_object(data)
            if held["version"] != _VERSION:
                raise ValueError(f"version {held['version']} is not {_VERSION}")
            keys, texts = files.partitions.keys, map(as_text, as_list(held["partitions"]))
            return tuple(files.partitions.of_values(keys.values_of(text)) for text in texts)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptionError(
                f"{path} is no registry of partitions of {files.name}: {error!r}; delete it, and "
                "the one before it counts, then register what changed since",
                path=path,
            ) from error

    return Register(
        files=files,
        what="partitions",
        store=NumberedFiles(files.fs, f"{files.paths.upkeep_dir}/partitions", "registry-"),
        empty=(),
        encode=_encoded,
        decode=decode,
    )


def _encoded(partitions: Partitions) -> bytes:
    texts = [partition.text for partition in partitions]
    return json.dumps({"version": _VERSION, "partitions": texts}, indent=1).encode()
