"""Records with the CRC-32 of their other values, for what would cost rows if it were damaged."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any, TypeVar

from lakewright.storage.codec.json_values import MalformedJson, as_text, as_whole, read_object
from lakewright.storage.errors import CorruptionError, UnsupportedError

_SEAL = "crc32"
_T = TypeVar("_T")


def encode_sealed(values: dict[str, Any], *, version: int, indent: int | None = None) -> bytes:
    """The file of a record."""
    return json.dumps(sealed({"version": version, **values}), indent=indent).encode()


def decode_sealed(
    data: bytes,
    name: str,
    decode: Callable[[dict[str, Any]], _T],
    *,
    version: int,
    since: int,
    told: str,
) -> _T:
    """Read a record; versions before `since` have no checksum.

    Raises:
        UnsupportedError: a later version of lakewright wrote the file.
        CorruptionError: the file is another; `told` says what it is not, and what to do, with a
            place for the error.
    """
    try:
        read = unsealed(read_object(data), since=since)
        found = as_whole(read.pop("version"))
        if found > version:
            raise UnsupportedError(
                f"{name} is of version {found}, and this release reads {version}; upgrade "
                "lakewright",
                path=name,
            )
        return decode(read)
    except (ValueError, KeyError, CorruptionError) as error:
        raise CorruptionError(f"{name} {told.format(repr(error))}", path=name) from error


def sealed(data: dict[str, Any]) -> dict[str, Any]:
    """The values of a record, with their checksum."""
    return {**data, _SEAL: _crc32(data)}


def unsealed(data: dict[str, Any], *, since: int) -> dict[str, Any]:
    """The values of a record without their checksum; versions before `since` have none.

    Ask before the version is looked at: a damaged one is not that of a later release.

    Raises:
        ValueError: the record was changed.
        KeyError: the record has no checksum, or no version.
    """
    if _SEAL not in data and as_whole(data["version"]) < since:
        return data
    rest = {name: value for name, value in data.items() if name != _SEAL}
    told, computed = as_text(data[_SEAL]), _crc32(rest)
    if told != computed:
        raise MalformedJson(f"its checksum is {computed}, and {told} was written")
    return rest


def _crc32(data: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(data).encode()):08x}"
