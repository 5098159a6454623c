"""What a verb condemned: files that are to be deleted, and the metadata files that kept them."""

from __future__ import annotations

from dataclasses import dataclass

# The verb of a record that holds all metadata of a table.
DROP_TABLE = "drop_table"


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A small metadata file, as it was; the path is relative to the table's root."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class CondemnedFile:
    """A file to delete; the path is relative to the table's root."""

    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Condemned:
    """The record of what one run of a verb condemned.

    `roots` are the metadata files that the verb deletes, `pins` those that it needs until it is
    `done`. The names of the condemned files are in lists beside the record; `files` and `bytes` are
    their sums. `process` tells others on its machine when the verb's process is dead; empty if it
    does not.
    """

    verb: str
    run: str
    branch: str
    grace_ms: int
    roots: tuple[HeldFile, ...]
    pins: tuple[HeldFile, ...]
    files: int
    bytes: int
    done: bool
    process: str = ""
