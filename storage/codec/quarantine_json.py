"""Manifests of quarantines: JSON ↔ `QuarantineManifest`. The layout is ours, not Paimon's."""

from __future__ import annotations

import json
import re
from typing import Any

from lakewright.storage.codec.json_values import (
    as_list,
    as_moment_ms,
    as_object,
    as_text,
    as_whole,
    read_object,
)
from lakewright.storage.errors import UnreadableManifest, UnsupportedError
from lakewright.storage.spec.file_names import place_below
from lakewright.storage.spec.quarantine import QuarantinedFile, QuarantineManifest

_VERSION = 1
_CRC32 = re.compile("[0-9a-f]{8}")


def encode_quarantine(manifest: QuarantineManifest) -> bytes:
    """The manifest file."""
    data = {
        "version": _VERSION,
        "table": manifest.table,
        "created_ms": manifest.created_ms,
        "reason": manifest.reason,
        "files": [_file_json(file) for file in manifest.files],
    }
    return json.dumps(data, indent=1, ensure_ascii=False).encode()


def decode_quarantine(data: bytes, *, name: str) -> QuarantineManifest:
    """Read a manifest; error messages call the file `name`.

    Raises:
        UnreadableManifest: the file is not a manifest, or names a place outside of the table.
        UnsupportedError: a later version of lakewright wrote the file.
    """
    try:
        read = read_object(data)
        version = _whole(read["version"])
    except (ValueError, KeyError) as error:
        raise _unreadable(name, error) from error
    if version != _VERSION:
        raise UnsupportedError(
            f"{name} is of version {version}, and this release reads {_VERSION}; upgrade lakewright"
        )
    try:
        return QuarantineManifest(
            table=as_text(read["table"]),
            created_ms=as_moment_ms(read["created_ms"]),
            reason=as_text(read["reason"]),
            files=tuple(_file(as_object(each)) for each in as_list(read["files"])),
        )
    except (ValueError, KeyError) as error:
        raise _unreadable(name, error) from error


def _file_json(file: QuarantinedFile) -> dict[str, object]:
    crc32 = None if file.crc32 is None else f"{file.crc32:08x}"
    return {
        "path": file.path,
        "size_bytes": file.size_bytes,
        "modified_ms": file.modified_ms,
        "crc32": crc32,
    }


def _file(data: Any) -> QuarantinedFile:
    return QuarantinedFile(
        # A restore may only write into the table.
        path=place_below(as_text(data["path"])),
        size_bytes=_whole(data["size_bytes"]),
        modified_ms=as_moment_ms(data["modified_ms"]),
        crc32=_crc32(data["crc32"]),
    )


def _crc32(data: object) -> int | None:
    if data is None:
        return None
    text = as_text(data)
    if _CRC32.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a CRC-32")
    return int(text, 16)


def _whole(data: object) -> int:
    number = as_whole(data)
    if number < 0:
        raise ValueError(f"{number} is not a whole number of 0 or more")
    return number


def _unreadable(name: str, error: Exception) -> UnreadableManifest:
    return UnreadableManifest(
        f"{name} cannot be read: {error!r}; its files were not changed; to restore them without "
        "checksums, move the manifest away",
        path=name,
    )
