"""Measures of a verb's work: what it takes, and what is gained by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from lakewright.storage import Table
from lakewright.storage.spec.file_format import empty_file_bytes

# Files have some bytes for their rows at least.
_MOST_EMPTY = 0.97


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What carrying out a verb takes.

    `files` and their `bytes` are those that the verb replaces or reads; of files that are only
    moved or deleted no byte is read. `bytes_written` are those of the new files. `files_named` stay
    where they lie, and only new metadata names them.
    """

    bytes: int = 0
    files: int = 0
    milliseconds: int = 0
    bytes_written: int = 0
    files_named: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Benefit:
    """What is gained: files and bytes that no reader opens any more, and storage that is freed."""

    files_fewer: int = 0
    runs_fewer: int = 0
    snapshots_fewer: int = 0
    metadata_bytes_fewer: int = 0
    bytes_freed: int = 0
    rows_shown: int = 0
    bytes_fewer: int = 0
    manifests_fewer: int = 0
    tags_fewer: int = 0
    changelogs_fewer: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """What a plan is expected to take and to gain, or what its result took and gained.

    `snapshots` are those that the verb committed. A verb says nothing of its time, which the
    process that carries it out measures.
    """

    cost: Cost = Cost()
    benefit: Benefit = Benefit()
    snapshots: tuple[int, ...] = ()

    def prediction(self) -> dict[str, int]:
        """What is predicted, by its names, without zeros; `predicted` reads it again."""
        named = {**asdict(self.cost), **asdict(self.benefit)}
        return {name: value for name, value in named.items() if value}

    @classmethod
    def predicted(cls, named: Mapping[str, int]) -> Measures:
        """What `prediction` wrote; names of another version are left out."""
        cost, benefit = (
            {field.name: named[field.name] for field in fields(kind) if field.name in named}
            for kind in (Cost, Benefit)
        )
        return cls(cost=Cost(**cost), benefit=Benefit(**benefit))


def empty_bytes(table: Table) -> int:
    """About how large a file without rows of the table is."""
    schema = table.schema
    # Beside the columns of a key, its sequence number and its row kind.
    keys = len(schema.key_names) + 2 if schema.is_keyed else 0
    return empty_file_bytes(table.options.file_format, len(schema.fields) + keys)


def bytes_after(read: int, files: int, files_after: int, empty: int) -> int:
    """The bytes of files that are joined to fewer ones, if no rows merge.

    `empty` are those of a file without rows, of which there are fewer then.
    """
    if files_after >= files:
        return read
    each = min(float(empty), _MOST_EMPTY * read / files)
    return round(read - each * (files - files_after))
