"""Tag, branch, consumer and changelog files of one table."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from lakewright.storage.codec.json_values import as_whole, read_object
from lakewright.storage.codec.snapshot_json import (
    decode_snapshot,
    decode_tag,
    snapshot_file_of_tag,
)
from lakewright.storage.env import FileSystem
from lakewright.storage.errors import (
    CorruptionError,
    FileMissing,
    TagNotFound,
)
from lakewright.storage.files.paths import TablePaths, numbered
from lakewright.storage.files.put_files import put_new, set_content
from lakewright.storage.files.seen_files import SeenFiles
from lakewright.storage.spec.partition import escape_path
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.tag import Tag

# What Paimon's clients do not know in a consumer's file, they pass over.
_WITHOUT_ROWS = "withoutRows"
_KEPT = "column-"


@dataclass(frozen=True, slots=True)
class ReferenceStore:
    """References that keep snapshots or their changes: tags, branches, consumers, changelogs."""

    fs: FileSystem
    paths: TablePaths
    # Its name, for what people are told.
    table: str = ""
    seen: SeenFiles | None = None

    def tags(self) -> dict[str, Tag]:
        """Tags by name, in the order of their snapshots.

        Every tag must be readable, since expiry relies on this list; tags deleted during the call
        are left out.
        """
        found = []
        for status in self.fs.list_dir(self.paths.tag_dir):
            if not status.name.startswith("tag-"):
                continue
            read = partial(self.tag, status.name.removeprefix("tag-"))
            with suppress(TagNotFound):
                found.append(read() if self.seen is None else self.seen.read(status, read))
        found.sort(key=lambda tag: (tag.snapshot.id, tag.name))
        return {tag.name: tag for tag in found}

    def tag_names(self) -> list[str]:
        names = (status.name for status in self.fs.list_dir(self.paths.tag_dir))
        return sorted(name.removeprefix("tag-") for name in names if name.startswith("tag-"))

    def tag_modified_ms(self) -> dict[str, int]:
        """The time of the last write of each tag's file, by the store's clock."""
        return _modified_ms(self.fs, self.paths.tag_dir, "tag-")

    def tag(self, name: str) -> Tag:
        """One tag.

        Raises:
            TagNotFound: no tag has that name; the message lists the existing tags.
        """
        return self._decode_tag(name, self.read_tag_file(name))

    def read_tag_file(self, name: str) -> bytes:
        """The bytes of one tag's file.

        Raises:
            TagNotFound: no tag has that name; the message lists the existing tags.
        """
        try:
            return self.fs.read_bytes(self.paths.tag(name))
        except FileMissing as error:
            raise TagNotFound(
                f"no tag {name} in {self.table or self.paths.metadata_root}; "
                f"{_those_there(self.tag_names())}"
            ) from error

    def read_tagged_snapshot_file(self, name: str) -> bytes:
        """The snapshot file in a tag, in a form that can become a snapshot again.

        Raises:
            TagNotFound: no tag has that name.
        """
        tag_file = self.read_tag_file(name)
        changelog = self._decode_tag(name, tag_file).snapshot.changelog_manifest_list
        # The changelog was deleted when the snapshot expired.
        there = changelog is not None and self.fs.exists(self.paths.manifest(changelog))
        return snapshot_file_of_tag(tag_file, has_changelog=there)

    def put_tag(self, name: str, tag_file: bytes) -> bool:
        """Create a tag; False if the name is taken."""
        return put_new(self.fs, self.paths.tag(name), tag_file)

    def replace_tag(self, name: str, tag_file: bytes) -> None:
        """Point an existing tag at another snapshot."""
        set_content(self.fs, self.paths.tag(name), tag_file)

    def _decode_tag(self, name: str, data: bytes) -> Tag:
        return decode_tag(data, tag_name=name, name=self.paths.tag(name))

    def consumers(self) -> dict[str, int]:
        """The next snapshot of each consumer, without consumers deleted during the call."""
        return {name: position for name, (position, _) in self._consumers().items()}

    def consumers_without_rows(self) -> frozenset[str]:
        """Consumers whose reader begins with all rows of the table, and has not read them."""
        return frozenset(name for name, (_, has_none) in self._consumers().items() if has_none)

    def _consumers(self) -> dict[str, tuple[int, bool]]:
        found = {}
        for status in self.fs.list_dir(self.paths.consumer_dir):
            if status.name.startswith("consumer-"):
                try:
                    data = self.fs.read_bytes(status.path)
                except FileMissing:
                    continue
                try:
                    read = read_object(data)
                    position = as_whole(read["nextSnapshot"])
                except (ValueError, KeyError) as error:
                    raise CorruptionError(
                        f"{status.path} is not a consumer: {error!r}; delete the consumer, or let "
                        "it write its position again",
                        path=status.path,
                    ) from error
                has_none = read.get(_WITHOUT_ROWS) is True
                found[status.name.removeprefix("consumer-")] = position, has_none
        return found

    def consumer_modified_ms(self) -> dict[str, int]:
        """The time of each consumer's last progress, by the store's clock."""
        return _modified_ms(self.fs, self.paths.consumer_dir, "consumer-")

    def set_consumer(self, name: str, next_snapshot_id: int, *, without_rows: bool = False) -> None:
        """Set a position; `without_rows` says that the reader lacks all rows before it as well."""
        content: dict[str, object] = {"nextSnapshot": next_snapshot_id}
        if without_rows:
            content[_WITHOUT_ROWS] = True
        data = json.dumps(content, indent=2).encode()
        self.fs.replace(self.paths.consumer(name), data)

    def set_back_consumers(self, names: Sequence[str], next_snapshot_id: int) -> None:
        """Set consumers to an earlier snapshot; the rows that they lack, they lack still."""
        without_rows = self.consumers_without_rows() if names else frozenset()
        for name in names:
            self.set_consumer(name, next_snapshot_id, without_rows=name in without_rows)

    def branches(self) -> dict[str, TablePaths]:
        """The paths of every branch by name, including half-made and half-deleted branches."""
        folder = self.paths.branch_dir
        # What a linked branch refers to is kept too.
        linked = [link.rpartition("/")[2] for link in self.fs.list_links(folder)]
        return {
            name.removeprefix("branch-"): replace(self.paths, branch=name.removeprefix("branch-"))
            for name in sorted([*self.fs.list_subdirs(folder), *linked])
            if name.startswith("branch-")
        }

    def kept_columns(self) -> set[str]:
        """Columns that only branches had which are deleted, as folders of partitions have them."""
        listed = (each.name for each in self.fs.list_dir(self.paths.kept_column_dir))
        return {name.removeprefix(_KEPT) for name in listed if name.startswith(_KEPT)}

    def keep_columns(self, names: Collection[str]) -> None:
        """Keep the names of columns that only a branch has which is about to be deleted."""
        for name in sorted(set(map(escape_path, names)) - self.kept_columns()):
            self.fs.put_if_absent(f"{self.paths.kept_column_dir}/{_KEPT}{name}", b"")

    def changelog_ids(self) -> list[int]:
        """The ids of snapshots with a long-lived changelog, in order."""
        names = (status.name for status in self.fs.list_dir(self.paths.changelog_dir))
        found = (numbered(name, "changelog-") for name in names)
        return sorted(number for number in found if number is not None)

    def changelogs(self) -> list[Snapshot]:
        """Long-lived changelogs, oldest first: snapshots whose changes outlive their expiry.

        Changelogs expired during the call are left out.
        """
        found = []
        for status in self.fs.list_dir(self.paths.changelog_dir):
            snapshot_id = numbered(status.name, "changelog-")
            if snapshot_id is None:
                continue
            read = partial(self._changelog, status.path, snapshot_id)
            with suppress(FileMissing):
                found.append(read() if self.seen is None else self.seen.read(status, read))
        return sorted(found, key=lambda changelog: changelog.id)

    def _changelog(self, path: str, snapshot_id: int) -> Snapshot:
        return decode_snapshot(self.fs.read_bytes(path), name=path, snapshot_id=snapshot_id)

    def put_changelog(self, snapshot_id: int, snapshot_file: bytes) -> None:
        """Keep the changes of a snapshot beyond its expiry."""
        set_content(self.fs, self.paths.changelog(snapshot_id), snapshot_file)

    def hint_changelogs(self, *, earliest: int | None = None, latest: int | None = None) -> None:
        if earliest is not None:
            self.fs.replace(self.paths.changelog_earliest_hint, str(earliest).encode())
        if latest is not None:
            self.fs.replace(self.paths.changelog_latest_hint, str(latest).encode())


def _modified_ms(fs: FileSystem, folder: str, prefix: str) -> dict[str, int]:
    return {
        status.name.removeprefix(prefix): status.modified_ms
        for status in fs.list_dir(folder)
        if status.name.startswith(prefix)
    }


def _those_there(names: Sequence[str]) -> str:
    return f"there are {', '.join(names)}" if names else "there are none"
