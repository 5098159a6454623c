"""Quarantine: files taken out of a table that can still come back, and what is written of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedFile:
    """A file as it was when it was set aside; its path is the one below the table's root.

    `crc32` is the checksum of zip and gzip, None where it is not known.
    """

    path: str
    size_bytes: int
    modified_ms: int
    crc32: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineManifest:
    """What was to be set aside together, when by the store's clock, and why.

    It is written once, before the first file moves: a file is in quarantine when it lies there.
    """

    table: str
    created_ms: int
    reason: str
    files: tuple[QuarantinedFile, ...]
