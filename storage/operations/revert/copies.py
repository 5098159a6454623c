"""Identities of files without the names that copies of them within their table got.

A copy holds the rows of its first file, and index files of copies the same marks. So a file is
known by the name of its first one, however often it was copied meanwhile: at most one file of this
name is live.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lakewright.storage.spec.file_names import BACK, first_name
from lakewright.storage.spec.index import IndexEntry
from lakewright.storage.spec.manifest import EntryIdentity, FileKind, ManifestEntry, fold_entries


def first_identity(identity: EntryIdentity) -> EntryIdentity:
    """The identity of the file that a file is a copy of, at the same level."""
    if BACK not in identity.file_name:
        return identity
    path = identity.external_path
    folder, slash, name = (path or "").rpartition("/")
    return replace(
        identity,
        file_name=first_name(identity.file_name),
        extra_files=tuple(map(first_name, identity.extra_files)),
        external_path=None if path is None else f"{folder}{slash}{first_name(name)}",
    )


def by_first(entries: Iterable[ManifestEntry]) -> dict[EntryIdentity, ManifestEntry]:
    """Files by the identities of their first ones."""
    return {first_identity(entry.identity): entry for entry in entries}


@dataclass(frozen=True, slots=True)
class Step:
    """What one snapshot removed and added; a file that became a copy is neither."""

    removed: dict[EntryIdentity, ManifestEntry]
    added: dict[EntryIdentity, ManifestEntry]

    @classmethod
    def of(cls, delta: Iterable[ManifestEntry]) -> Step:
        """The step of a snapshot with these entries."""
        folded = fold_entries(delta).values()
        gone = by_first(each for each in folded if each.kind is FileKind.DELETE)
        new = by_first(each for each in folded if each.kind is FileKind.ADD)
        return cls(
            removed={at: entry for at, entry in gone.items() if at not in new},
            added={at: entry for at, entry in new.items() if at not in gone},
        )


def indexes_by_first(entries: Iterable[IndexEntry]) -> dict[IndexEntry, IndexEntry]:
    """Index files by what they are if all names are those of the first files."""
    return {_first_index(entry): entry for entry in entries}


def _first_index(entry: IndexEntry) -> IndexEntry:
    vectors = entry.file.deletion_vectors
    first = vectors and tuple(
        replace(vector, data_file=first_name(vector.data_file))
        if BACK in vector.data_file
        else vector
        for vector in vectors
    )
    name = first_name(entry.file.file_name)
    return replace(entry, file=replace(entry.file, file_name=name, deletion_vectors=first))
