"""Quarantine: files removed from a table that can be restored, and the record of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedFile:
    """A file at the time of its removal; the path is relative to the table's root.

    `crc32` is the checksum of zip and gzip, None if unknown.
    """

    path: str
    size_bytes: int
    modified_ms: int
    crc32: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineManifest:
    """The files of one removal, its time by the store's clock, and its reason.

    It is written once, before the first file moves: only files in the quarantine's folder are in
    quarantine.
    """

    table: str
    created_ms: int
    reason: str
    files: tuple[QuarantinedFile, ...]
