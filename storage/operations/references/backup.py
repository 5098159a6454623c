"""Backups: the files that make a copy of a table as a tag has it, and the copy as a table again.

No file that a tag keeps ever changes, and none goes while the tag is there. So the files may be
copied in any order, while others write the table, and again after an interruption. The copy has no
snapshot until all of them are there; then the state of the tag becomes its first one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakewright.storage.codec.snapshot_json import encode_snapshot
from lakewright.storage.errors import (
    AlreadyExistsError,
    CorruptionError,
    TagNotFound,
    UnsupportedError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.branches import schemas_of_rows
from lakewright.storage.operations.references.reachable import Reach
from lakewright.storage.operations.references.roots import Root, tag_root
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import Snapshot

# So many of the missing files are named.
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFile(Shown):
    """A file to copy, by its path below the table; no size where only the file itself has it."""

    path: str
    size_bytes: int | None


def backup_files(files: TableFiles, tag: str) -> tuple[BackupFile, ...]:
    """Every file of the table that a copy of the state of a tag needs, data files first.

    Raises:
        TagNotFound: the table has no such tag.
        UnsupportedError: data files lie outside of the table.
        CorruptionError: a manifest is missing or damaged.
    """
    reach, root = Reach(), _root(files, tag)
    data = reach.data(root)
    if reach.elsewhere:
        raise UnsupportedError(
            f"{len(reach.elsewhere)} data files of tag {tag} of {files.name} lie outside of the "
            f"table, such as {min(reach.elsewhere)}; a copy of the table does not hold them"
        )
    metadata = sorted(reach.metadata(root))
    # Rows are read by the newest schema, whose partition keys may be others than the tag's.
    needed = max(schemas_of_rows(files, root.snapshot))
    schemas = [files.paths.schema(each) for each in files.schemas.ids() if each <= needed]
    sizes = {**data, **{path: reach.sizes.get(path) for path in metadata}}
    paths = [*sorted(data), *metadata, *schemas, files.paths.tag(tag)]
    return tuple(
        BackupFile(path=path.removeprefix(f"{files.paths.root}/"), size_bytes=sizes.get(path))
        for path in paths
    )


def check_backup(files: TableFiles, tag: str) -> tuple[BackupFile, ...]:
    """Check that every file of a tag is there, and as long as it should be; these files.

    Raises:
        CorruptionError: files are missing or of another length; the message names the first ones.
        TagNotFound, UnsupportedError: as `backup_files`.
    """
    try:
        wanted = backup_files(files, tag)
    except CorruptionError as error:
        raise CorruptionError(
            f"the metadata of tag {tag} of {files.name} is not whole here, so its files are not "
            f"known: {error.message.partition(';')[0]}; copy all files of the tag again",
            **error.details,
        ) from error
    there = files.there(each.path for each in wanted)
    bad = [
        each
        for each in wanted
        if (found := there.get(each.path)) is None or each.size_bytes not in (None, found.size)
    ]
    if bad:
        named = ", ".join(each.path for each in bad[:_NAMED])
        raise CorruptionError(
            f"{len(bad)} of the {len(wanted)} files of tag {tag} of {files.name} are missing here "
            f"or have another length, first {named}; copy them again",
            path=bad[0].path,
        )
    return wanted


def restore_backup(files: TableFiles, tag: str) -> Snapshot:
    """Make the state of a tag the only snapshot of a copy that has none.

    Raises:
        AlreadyExistsError: the table has a snapshot.
        UnsupportedError: the copy has a schema of other keys; or as `check_backup`.
        CorruptionError, TagNotFound: as `check_backup`; nothing was written.
    """
    files.check_unserved("restore a copy")
    check_backup(files, tag)
    latest = files.snapshots.latest_id()
    if latest is not None:
        raise AlreadyExistsError(
            f"{files.name} has snapshot {latest}: only a copy without snapshots is restored; roll "
            f"it back to tag {tag}, or restore into an empty folder"
        )
    newest = files.at_schema(files.schemas.latest_id(table=files.name)).schema
    needed = max(schemas_of_rows(files, _root(files, tag).snapshot))
    then = files.at_schema(needed).schema
    if (newest.partition_keys, newest.primary_keys) != (then.partition_keys, then.primary_keys):
        raise UnsupportedError(
            f"the keys of {files.name} changed after tag {tag} was made, so its rows could not be "
            f"read by schema {newest.id}: delete the schemas after {then.id} from this copy, as "
            "`lakewright backup list` has it"
        )
    # A tag keeps no changelog, so the snapshot names none.
    snapshot = replace(
        _root(files, tag).snapshot,
        changelog_manifest_list=None,
        changelog_manifest_list_size=None,
        changelog_record_count=None,
    )
    if not files.snapshots.put_back(snapshot.id, encode_snapshot(snapshot)):
        raise AlreadyExistsError(
            f"another process made snapshot {snapshot.id} of {files.name} meanwhile; look at it"
        )
    files.snapshots.hint_latest(snapshot.id)
    files.snapshots.hint_earliest(snapshot.id)
    return snapshot


def _root(files: TableFiles, tag: str) -> Root:
    tags = files.references.tags()
    if tag not in tags:
        way_out = f"make it with `lakewright tag create {files.name} {tag}`"
        if files.snapshots.latest_id() is None:
            way_out = "this is a copy: copy the files of that tag from the original"
        named = f"; its tags: {', '.join(tags)}" if tags else ""
        raise TagNotFound(f"{files.name} has no tag {tag}{named}; {way_out}")
    return tag_root(files, tag, tags[tag].snapshot)
