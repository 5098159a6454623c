"""Creates the metadata of a dropped table again, by the record of its drop.

Writers of other clients do not look for a schema: what they commit after the drop lies in the place
of the table. Of it, what follows the table's last snapshot is kept, and the rest goes.
"""

from __future__ import annotations

from contextlib import suppress

from lakewright.storage.errors import (
    CorruptionError,
    FileMissing,
    NotRevertible,
    SnapshotNotFound,
)
from lakewright.storage.files.paths import numbered
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.commit_standing import follows, trace_of
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.spec.condemned import Condemned


def restore_table(files: TableFiles, record: Condemned, run: bool) -> None:
    """Check that no other table has the place; then, if asked, create the files.

    Raises:
        NotRevertible: another table has the place.
    """
    held = {files.paths.below(root.path): root.data for root in record.roots}
    for each in files.fs.list_dir(files.paths.schema_dir):
        # An unfinished file has a hidden name.
        if each.name[0] != "." and is_other_file(files, each.path, held.get(each.path, b"")):
            raise NotRevertible(
                f"{files.name} was dropped, and cannot come back: another table has its name by now"
            )
    if not run:
        return
    schemas = [path for path in held if path.startswith(f"{files.paths.schema_dir}/")]
    # The table exists from its first schema on, which must be the one of its last files.
    schemas.sort(key=lambda path: -(numbered(path.rpartition("/")[2], "schema-") or 0))
    # By their names, which for records of deletions is by their times.
    for path in sorted({*held} - {*schemas}):
        files.fs.replace(path, held[path])
    _keep_what_follows(files, {path for path in held if path not in schemas})
    for path in schemas:
        files.fs.replace(path, held[path])


def _keep_what_follows(files: TableFiles, held: set[str]) -> None:
    """Delete the snapshots after those of a record that do not follow them; then mend the hint."""
    ids = files.snapshots.ids()
    latest = max((each for each in ids if files.paths.snapshot(each) in held), default=0)
    strays = [each for each in ids if files.paths.snapshot(each) not in held]
    with suppress(CorruptionError, SnapshotNotFound):
        while latest and latest + 1 in strays:
            trace = trace_of(files, files.snapshots.read(latest))
            if not follows(files, files.snapshots.read(latest + 1), trace):
                break
            latest += 1
            strays.remove(latest)
    delete_files(files.fs, [files.paths.snapshot(each) for each in strays])
    if latest:
        files.snapshots.hint_latest(latest)
    elif strays:
        delete_files(files.fs, [files.paths.latest_hint, files.paths.earliest_hint])


def is_other_file(files: TableFiles, path: str, data: bytes) -> bool:
    """Whether a file is there that no put-back made which died, even in the middle of it."""
    with suppress(FileMissing):
        return not data.startswith(files.fs.read_bytes(path))
    return False
