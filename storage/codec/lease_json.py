"""Lease books: JSON ↔ leases. No other client of the format reads or writes these files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from lakewright.storage.codec.json_values import as_moment_ms, as_whole, read_object
from lakewright.storage.codec.typed_json import value_of
from lakewright.storage.errors import CorruptionError, UnsupportedError
from lakewright.storage.spec.lease import Lease

# Books of version 1 named buckets. Their leases are ignored: they run out in minutes.
_VERSION = 2


def encode_leases(leases: Sequence[Lease]) -> bytes:
    """The file of a table's leases."""
    told = [{**asdict(lease), "kind": lease.kind.value} for lease in leases]
    return json.dumps({"version": _VERSION, "leases": told}, indent=1).encode()


def decode_leases(data: bytes, name: str) -> tuple[Lease, ...]:
    """Read the file of a table's leases.

    Raises:
        UnsupportedError: a later version of lakewright wrote the file.
        CorruptionError: the file is not a lease book.
    """
    try:
        read = read_object(data)
        version = as_whole(read["version"])
        if version > _VERSION:
            raise UnsupportedError(
                f"{name} is of version {version}, and this release reads {_VERSION}; "
                "upgrade lakewright"
            )
        leases = value_of(tuple[Lease, ...], read["leases"] if version == _VERSION else [])
        for lease in leases:
            for moment in (lease.acquired_ms, lease.renewed_ms, lease.expires_ms):
                as_moment_ms(moment)
        return leases
    except (ValueError, KeyError) as error:
        raise CorruptionError(
            f"{name} is not a lease book: {error!r}; delete its folder while no process works on "
            "the table; the next lease begins a new book",
            path=name,
        ) from error
