"""Lease books: JSON ↔ `LeaseBook`. No other client of the format reads or writes these files."""

from __future__ import annotations

import json
from dataclasses import asdict

from lakewright.storage.codec.json_values import as_moment_ms, as_whole, read_object
from lakewright.storage.codec.typed_json import value_of
from lakewright.storage.errors import CorruptionError, UnsupportedError
from lakewright.storage.spec.lease import Lease, LeaseBook

# Books of version 1 named buckets. Their leases are ignored: they run out in minutes.
_VERSION = 2


def encode_book(book: LeaseBook) -> bytes:
    """The file of a book; its number is in the file's name."""
    leases = [{**asdict(each), "kind": each.kind.value} for each in book.leases]
    return json.dumps({"version": _VERSION, "leases": leases}, indent=1).encode()


def decode_book(data: bytes, *, number: int, name: str) -> LeaseBook:
    """Read a book.

    Raises:
        UnsupportedError: a later version of lakewright wrote the file.
        CorruptionError: the file is not a lease book.
    """
    try:
        read = read_object(data)
        version = as_whole(read["version"])
        if version < _VERSION:
            return LeaseBook(number=number)
        if version > _VERSION:
            raise UnsupportedError(
                f"{name} is of version {version}, and this release reads {_VERSION}; "
                "upgrade lakewright"
            )
        leases = value_of(tuple[Lease, ...], read["leases"])
        for lease in leases:
            for moment in (lease.acquired_ms, lease.renewed_ms, lease.expires_ms):
                as_moment_ms(moment)
        return LeaseBook(number=number, leases=leases)
    except (ValueError, KeyError) as error:
        raise CorruptionError(
            f"{name} is not a lease book: {error!r}; delete its folder while no process works on "
            "the table; the next lease begins a new book",
            path=name,
        ) from error
