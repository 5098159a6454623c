"""Deleting what writes left behind that will never be published.

Every deletion here first asks the snapshots made since the writing began, so a
file that a commit has published is never touched, whatever the caller believes.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.delete_files import delete_files
from lakewright.storage.operations.scan import index_entries, live_entries
from lakewright.storage.spec.commit import CommitMessage, StagedWrite

# By how much the clocks of a writer, a committer and the store may differ.
_CLOCKS_DIFFER_MS = 600_000


def abort_staged(files: TableFiles, staged: StagedWrite) -> int:
    """Delete the files of a staged write, except those a commit has published; how many went.

    Raises:
        CorruptionError: a snapshot since the staging cannot be read, so nothing is deleted.
    """
    return delete_unpublished(files, staged.messages, since_snapshot_id=staged.base_snapshot_id)


def delete_unpublished(
    files: TableFiles, messages: Sequence[CommitMessage], *, since_snapshot_id: int | None
) -> int:
    """Delete the new files that messages name, except those published after a snapshot."""
    made = [file.creation_time for message in messages for file in message.written_files]
    began_ms = min((time or 0 for time in made), default=0)
    published = _published_since(files, since_snapshot_id, began_ms)
    return delete_files(
        files.fs,
        [
            files.data_file_path(message.partition, message.bucket, file)
            for message in messages
            for file in message.written_files
            if file.file_name not in published
        ]
        + [
            files.paths.index(index.file_name)
            for message in messages
            for index in message.new_indexes
            # An index that takes its own place was there before the message.
            if index not in message.removed_indexes and index.file_name not in published
        ],
    )


def sweep(files: TableFiles, write_id: str, *, since_snapshot_id: int | None) -> int:
    """Delete every unpublished file of a write that failed somewhere; how many there were.

    Tasks that died without a word are found too, since files carry the id of
    their write in their names. The whole table is listed: this is for failures.
    """
    found = [each for each in files.fs.list_tree(files.paths.root) if f"-{write_id}" in each.name]
    began_ms = min((each.modified_ms for each in found), default=0)
    published = _published_since(files, since_snapshot_id, began_ms)
    return delete_files(files.fs, [each.path for each in found if each.name not in published])


def _published_since(files: TableFiles, snapshot_id: int | None, began_ms: int) -> set[str]:
    """Names of files that a commit after a snapshot may have published; written from a time on."""
    first = (snapshot_id or 0) + 1
    for snapshot in files.snapshots.newest_first():
        # After a rollback the snapshots that come begin with smaller ids.
        if snapshot.id < first:
            if snapshot.time_millis < began_ms - _CLOCKS_DIFFER_MS:
                break
            first = snapshot.id
    later = [files.snapshots.read(each) for each in files.snapshots.ids() if each >= first]
    names: set[str] = set()
    for snapshot in later:
        # Entries that remove a file name what was published before.
        lists = [snapshot.delta_manifest_list, snapshot.changelog_manifest_list]
        for name in filter(None, lists):
            entries = files.manifests.entries(files.manifests.read_list(name))
            names |= {entry.file.file_name for entry in entries}
        names |= {entry.file.file_name for entry in index_entries(files, snapshot)}
    if later and later[0].id > first:
        # What expired deltas added is live, or removed above, or kept by a tag.
        roots = [later[-1], *(tag.snapshot for tag in files.references.tags().values())]
        for root in roots:
            live = live_entries(files.at_schema(root.schema_id), root)
            names |= {entry.file.file_name for entry in live}
            names |= {entry.file.file_name for entry in index_entries(files, root)}
    return names
