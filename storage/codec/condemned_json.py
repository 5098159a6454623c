"""Records of what verbs condemned, and their lists of names: JSON ↔ nouns. The layout is ours.

Each is sealed: what a damaged record names would be deleted, or put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, TypeVar

from lakewright.storage.codec.json_values import (
    as_list,
    as_object,
    as_text,
    as_whole,
)
from lakewright.storage.codec.sealed_json import decode_sealed, encode_sealed
from lakewright.storage.spec.condemned import Condemned, CondemnedFile, HeldFile
from lakewright.storage.spec.file_names import place_below

_VERSION = 1
_T = TypeVar("_T")
_TOLD = (
    "does not say what is marked for deletion: {}; nothing of it is deleted; delete that "
    "file, and remove orphans once its files are old enough"
)


def encode_condemned(record: Condemned) -> bytes:
    """The file of a record."""
    held = {
        "roots": [_held_json(root) for root in record.roots],
        "pins": [_held_json(pin) for pin in record.pins],
    }
    return _encoded({**asdict(record), **held})


def decode_condemned(data: bytes, *, name: str) -> Condemned:
    """Read a record; error messages call the file `name`.

    Raises:
        UnsupportedError: a later version of lakewright wrote the file.
        CorruptionError: the file is no record, or names a place outside of the table.
    """

    def decode(read: dict[str, Any]) -> Condemned:
        return Condemned(
            verb=as_text(read["verb"]),
            run=as_text(read["run"]),
            branch=as_text(read["branch"]),
            grace_ms=_count(read["grace_ms"]),
            roots=tuple(map(_held, as_list(read["roots"]))),
            pins=tuple(map(_held, as_list(read["pins"]))),
            files=_count(read["files"]),
            bytes=_count(read["bytes"]),
            done=read["done"] is True,
            process=as_text(read.get("process", "")),
        )

    return _decoded(data, name, decode)


def encode_names(names: Iterable[CondemnedFile]) -> bytes:
    """A list of names."""
    return _encoded({"files": [[name.path, name.size_bytes] for name in names]})


def decode_names(data: bytes, *, name: str) -> tuple[CondemnedFile, ...]:
    """Read a list of names; the errors are those of `decode_condemned`."""

    def decode(read: dict[str, Any]) -> tuple[CondemnedFile, ...]:
        return tuple(_name(as_list(each)) for each in as_list(read["files"]))

    return _decoded(data, name, decode)


def _held_json(held: HeldFile) -> dict[str, str]:
    return {"path": held.path, "data": held.data.decode("latin-1")}


def _held(data: object) -> HeldFile:
    read = as_object(data)
    return HeldFile(place_below(as_text(read["path"])), as_text(read["data"]).encode("latin-1"))


def _name(pair: list[Any]) -> CondemnedFile:
    path, size = pair
    return CondemnedFile(place_below(as_text(path)), _count(size))


def _count(data: object) -> int:
    number = as_whole(data)
    if number < 0:
        raise ValueError(f"{number} is below 0")
    return number


def _encoded(values: dict[str, Any]) -> bytes:
    return encode_sealed(values, version=_VERSION)


def _decoded(data: bytes, name: str, decode: Callable[[dict[str, Any]], _T]) -> _T:
    # Each release that wrote records sealed them.
    return decode_sealed(data, name, decode, version=_VERSION, since=0, told=_TOLD)
