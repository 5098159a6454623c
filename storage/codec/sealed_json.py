"""Records with the CRC-32 of their other values, for what would cost rows if it were damaged."""

from __future__ import annotations

import json
import zlib
from typing import Any

from lakewright.storage.codec.json_values import MalformedJson, as_text, as_whole

_SEAL = "crc32"


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
