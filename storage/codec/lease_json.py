"""Lease books: JSON ↔ `LeaseBook`. The file is ours alone; no other client of the format has it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from lakewright.storage.errors import CorruptionError, UnsupportedError
from lakewright.storage.spec.lease import (
    Lease,
    LeaseBook,
    LeasedPart,
    LeaseKind,
    LeaseScope,
    Want,
)

_VERSION = 1


def encode_book(book: LeaseBook) -> bytes:
    """The file of a book; its number is in the file's name."""
    leases = [{**asdict(each), "kind": each.kind.value} for each in book.leases]
    return json.dumps({"version": _VERSION, "leases": leases}, indent=1).encode()


def decode_book(data: bytes, *, number: int, name: str) -> LeaseBook:
    """Read a book.

    Raises:
        UnsupportedError: it is of a version after ours.
        CorruptionError: it is no book.
    """
    try:
        read = json.loads(data)
        if read["version"] > _VERSION:
            raise UnsupportedError(
                f"{name} is of version {read['version']}, known is {_VERSION}; upgrade lakewright"
            )
        return LeaseBook(number=number, leases=tuple(map(_lease, read["leases"])))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError(
            f"{name} is no book of leases: {error!r}; delete its folder while nobody works on the "
            "table, and a new book begins"
        ) from error


def _lease(data: dict[str, Any]) -> Lease:
    return Lease(
        **{
            **data,
            "kind": LeaseKind(data["kind"]),
            "scope": _scope(data["scope"]),
            "wanted": tuple(
                Want(holder=each["holder"], scope=_scope(each["scope"])) for each in data["wanted"]
            ),
        }
    )


def _scope(data: dict[str, Any]) -> LeaseScope:
    parts = data["parts"]
    return LeaseScope(branch=data["branch"], parts=None if parts is None else _parts(parts))


def _parts(data: list[dict[str, Any]]) -> tuple[LeasedPart, ...]:
    return tuple(
        LeasedPart(
            partition=each["partition"],
            buckets=None if each["buckets"] is None else tuple(each["buckets"]),
        )
        for each in data
    )
