"""Drops a table so that it can come back: a record takes its metadata, and its other files stay.

1. Write a record (`condemn.py`): all metadata files with their bytes are its roots, and the other
   files of the folder are condemned.
2. Delete the schemas, the latest last: without one the table exists for no client. Then delete the
   other metadata, so that a table that is created in its place has no history of this one.
3. Mark the record as done. Where the store moves a folder in one step, move it aside, so that its
   place is free. After its grace the collector deletes the condemned files by their names, since a
   table may have been created in their place.

A drop whose process died is ended by its repetition; beside one at work, another one yields.
`put_back.py` brings the table back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from lakewright.storage.codec.schema_json import decode_schema
from lakewright.storage.env import Env, FileSystem
from lakewright.storage.errors import (
    FileMissing,
    StalePlan,
    StorageError,
    TableNotFound,
    UnsupportedError,
)
from lakewright.storage.files.condemned_store import CondemnedStore, RecordFiles
from lakewright.storage.files.local_files import LocalFiles
from lakewright.storage.files.metadata_stores import SchemaStore
from lakewright.storage.files.paths import UPKEEP_FOLDER, TablePaths, numbered
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.collect import (
    CollectOptions,
    condemned_runs,
    plan_of_any_kind,
    run_of_any_kind,
)
from lakewright.storage.operations.references.condemn import (
    delete_record,
    held_file,
    is_at_work,
    new_record_id,
)
from lakewright.storage.operations.running.delete_files import (
    delete_files,
    remove_empty_folders,
    remove_empty_tree,
)
from lakewright.storage.operations.running.processes import this_process
from lakewright.storage.operations.state.branch_files import FIRST_SCHEMA_ID
from lakewright.storage.operations.state.store_clock import read_store_clock
from lakewright.storage.spec.condemned import DROP_TABLE, Condemned, CondemnedFile, HeldFile
from lakewright.storage.spec.data_types import quote_parts
from lakewright.storage.spec.schema import TableSchema

_METADATA = (
    *("schema", "snapshot", "tag", "branch", "changelog", "consumer"),
    *(UPKEEP_FOLDER, "metadata"),
)
# The hidden folder of a database with the dropped tables, or an empty file for each in its place.
_MARKS = ".dropped"
# A writer that opened the table before may go on committing for a moment.
_LOOKS = 10
# The records of the drops that threads of this process carry out.
_at_work: set[str] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverableTable:
    """A dropped table that can come back until its files are collected, by the store's clock."""

    table: str
    record: str
    run: str
    files: int
    bytes: int
    dropped_ms: int
    until_ms: int
    # Its drop was stopped halfway, or is at work.
    done: bool


def recoverable_files(
    name: str, fs: FileSystem, root: str, env: Env, *, run: str | None
) -> TableFiles:
    """A table that can be dropped so that it can come back.

    Raises:
        UnsupportedError: its schema cannot be read.
        TableNotFound: there is no schema.
    """
    paths = TablePaths(root)
    try:
        schema = SchemaStore(fs, paths).latest(table=name)
    except TableNotFound:
        raise
    except StorageError as error:
        raise UnsupportedError(
            f"{name} could not come back after a drop: {error}; write DROP TABLE "
            f"{quote_parts(name)} PURGE, or give grace_ms=0, to drop it permanently"
        ) from error
    return TableFiles(name, fs, paths, schema, env, run=run)


def drop_to_record(files: TableFiles, grace_ms: int) -> None:
    """Drop a table, which can come back for `grace_ms`; a second call goes on where one stopped.

    Raises:
        StalePlan: another process drops the table, or did so meanwhile, or brings it back.
    """
    known = drop_records(files.paths, files.fs)
    stopped = next((each for each in known if not each[1].done), None)
    if stopped is not None and (
        # It may have ended since it was read.
        _may_run(files, *stopped) or files.condemned.read(stopped[0].id) != stopped[1]
    ):
        raise _yields(files, "is being dropped or brought back by another process")
    if stopped is not None and _is_made_anew(files, stopped[1]):
        # The next table of the name is dropped by a record of its own.
        _end(files, *stopped)
        stopped = None
    held = list(_held(files, _metadata_there(files)))
    before = () if stopped is None else stopped[1].roots
    record = Condemned(
        verb=DROP_TABLE,
        run=(stopped[1].run if stopped is not None else "") or files.run or "",
        branch="",
        grace_ms=grace_ms,
        roots=_joined(before, held),
        pins=(),
        files=0,
        bytes=0,
        done=False,
        process=this_process(),
    )
    listed = RecordFiles(new_record_id(files)) if stopped is None else stopped[0]
    _at_work.add(listed.id)
    try:
        files.condemned.replace(listed.id, record)
        if stopped is None:
            _check_alone(files, listed, held, {each.id for each, _ in known})
        # It is found by its mark, which stays as long as its record.
        files.fs.write_bytes(_mark(files.paths), b"")
        _drop(files, listed, record, held)
    finally:
        _at_work.discard(listed.id)


def _drop(
    files: TableFiles, listed: RecordFiles, record: Condemned, held: Sequence[HeldFile]
) -> None:
    for _ in range(_LOOKS):
        _delete_metadata(files, held)
        # Without a first schema, what is there is of a writer that had opened the table.
        is_anew = files.schemas.ids()[:1] == [FIRST_SCHEMA_ID]
        held = [] if is_anew else list(_held(files, _metadata_there(files)))
        if not held:
            break
        record = replace(record, roots=_joined(record.roots, held))
        files.condemned.replace(listed.id, record)
    _end(files, listed, record)


def _may_run(files: TableFiles, listed: RecordFiles, record: Condemned) -> bool:
    """Whether a drop that is not done may be at work elsewhere; one of this process has failed."""
    is_own = record.process and record.process == this_process() and listed.claim is None
    if is_own:
        return listed.id in _at_work
    return is_at_work(listed, record, read_store_clock(files))


def _check_alone(
    files: TableFiles, listed: RecordFiles, held: Iterable[HeldFile], known: Collection[str]
) -> None:
    """Yield if another drop began before this one had its record, which both would see."""
    others = {each.id for each, _ in drop_records(files.paths, files.fs)} - {listed.id, *known}
    schemas = [each for each in held if each.path.startswith("schema/")]
    if others or not schemas or not all(_is_there(files, each) for each in schemas):
        found = files.condemned.listed().get(listed.id)
        delete_record(files, found or listed)
        clear_place(files.fs, files.paths)
        raise _yields(files, "was dropped by another process meanwhile, or is being dropped")


def _is_there(files: TableFiles, held: HeldFile) -> bool:
    with suppress(FileMissing):
        return files.fs.read_bytes(files.paths.below(held.path)) == held.data
    return False


def _yields(files: TableFiles, why: str) -> StalePlan:
    return StalePlan(
        f"{files.name} {why}; if it is still there, drop it again; a process that cannot be seen "
        "from here counts as dead after an hour"
    )


def _end(files: TableFiles, listed: RecordFiles, record: Condemned) -> None:
    """Condemn the files that are left, but those of other drops, and mark the record as done."""
    store, below = files.condemned, f"{files.paths.root}/"
    there = files.fs.list_tree(files.paths.root)
    # Younger files are those of a table that was made here meanwhile.
    head = store.listed()[listed.id].head if files.schemas.ids() else None
    others = {
        name.path
        for other, _ in drop_records(files.paths, files.fs)
        if other.id != listed.id
        for names in other.lists
        for name in store.names(names)
    }
    going = [
        CondemnedFile(path, each.size)
        for each in there
        if not _is_metadata(path := each.path.removeprefix(below))
        and path not in others
        and (head is None or each.modified_ms <= head.modified_ms)
    ]
    size = sum(each.size_bytes for each in going)
    store.put(listed.id, replace(record, files=len(going), bytes=size, done=True), going)


def set_aside(files: TableFiles, fs: LocalFiles) -> None:
    """Move the folder of a dropped table, so that its place is free for another one.

    A table that another process made there meanwhile keeps the place, and the dropped one in it.
    """
    aside = TablePaths(f"{_mark(files.paths)}.{recoverable(files).record}")
    if files.schemas.ids():
        return
    fs.move_folder(files.paths.root, aside.root)
    if SchemaStore(fs, aside).ids():
        fs.move_folder(aside.root, files.paths.root)
    else:
        delete_files(fs, [_mark(files.paths)])


def put_in_place(files: TableFiles, root: str) -> TableFiles:
    """Move the folder of a dropped table back, if it was moved; its mark finds it there.

    Raises:
        AlreadyExistsError: something lies there.
    """
    if isinstance(files.fs, LocalFiles) and files.paths.root != root:
        # In its place it is found by its mark.
        files.fs.write_bytes(_mark(TablePaths(root)), b"")
        # A writer that had opened the table may have committed here since.
        for late in files.fs.list_tree(root):
            path = f"{files.paths.root}{late.path.removeprefix(root)}"
            files.fs.make_dirs(path.rpartition("/")[0])
            files.fs.move_if_absent(late.path, path)
        remove_empty_tree(files.fs, root)
        files.fs.move_folder(files.paths.root, root)
    return replace(files, paths=TablePaths(root))


def dropped_files(
    name: str, fs: FileSystem, root: str, env: Env, *, run: str | None = None
) -> Iterator[TableFiles]:
    """The dropped tables of a name as they were, in its place and aside, the latest first.

    One whose place another table has does not count.

    Raises:
        CorruptionError, UnsupportedError: a record cannot be read.
    """
    folder, _, table = _mark(TablePaths(root)).rpartition("/")
    aside = sorted(each for each in fs.list_subdirs(folder) if each.rpartition(".")[0] == table)
    for place in (root, *(f"{folder}/{each}" for each in reversed(aside))):
        paths = TablePaths(place)
        found = drop_records(paths, fs)
        schema = _latest_schema(found[-1][1], name) if found else None
        # A drop that began beside another one finds no schema, and takes its record back.
        if schema and not (found[-1][1].done and SchemaStore(fs, paths).ids()):
            yield TableFiles(name, fs, paths, schema, env, run=run)


def recoverable(files: TableFiles) -> RecoverableTable:
    """When a dropped table was dropped, and until when it can come back.

    Raises:
        TableNotFound: it is back meanwhile, or collected.
    """
    last = next((e for e in reversed(condemned_runs(files)) if e.verb == DROP_TABLE), None)
    if last is None:
        raise TableNotFound(f"{files.name} is back, or its files are collected")
    return RecoverableTable(
        table=files.name,
        record=last.id,
        run=last.run,
        files=last.files,
        bytes=last.bytes,
        dropped_ms=last.condemned_ms,
        until_ms=last.due_ms,
        done=last.done,
    )


def dropped_names(fs: FileSystem, database_folder: str) -> list[str]:
    """The names of the tables that were dropped in the folder of a database."""
    folder = f"{database_folder}/{_MARKS}"
    aside = {each.rpartition(".")[0] for each in fs.list_subdirs(folder)}
    return sorted(aside | {each.name for each in fs.list_dir(folder)})


def collect_dropped(files: TableFiles, *, early: bool = False) -> bool:
    """Delete what was dropped and can come back no more; `early`, also what still could."""
    plan = plan_of_any_kind(files, CollectOptions(early=early, under_way=early))
    result = run_of_any_kind(files, plan)
    clear_place(files.fs, files.paths)
    return bool(result.records)


def clear_place(fs: FileSystem, paths: TablePaths) -> None:
    """Delete the mark of a place without records of drops, and what is left of an empty table."""
    is_empty = not SchemaStore(fs, paths).ids()
    if drop_records(paths, fs):
        return
    if is_empty:
        # Claims of records that are gone, and unfinished files.
        delete_files(fs, [each.path for each in fs.list_dir(paths.condemned_dir)])
        remove_empty_tree(fs, paths.root)
    folder, _, name = paths.root.rpartition("/")
    if not folder.endswith(f"/{_MARKS}"):
        folder = f"{folder}/{_MARKS}"
        delete_files(fs, [f"{folder}/{name}"])
    remove_empty_folders(fs, [folder], below=folder.rpartition("/")[0])


def _mark(paths: TablePaths) -> str:
    database, _, table = paths.root.rpartition("/")
    return f"{database}/{_MARKS}/{table}"


def drop_records(paths: TablePaths, fs: FileSystem) -> list[tuple[RecordFiles, Condemned]]:
    """The records of drops in the place of a table, oldest first."""
    store = CondemnedStore(fs, paths)
    found = []
    for record_id, listed in store.listed().items():
        record = store.read(record_id) if listed.head is not None else None
        if record is not None and record.verb == DROP_TABLE:
            found.append((listed, record))
    return found


def _latest_schema(record: Condemned, name: str) -> TableSchema | None:
    schemas = {
        number: root
        for root in record.roots
        if root.path.startswith("schema/")
        and (number := numbered(root.path.removeprefix("schema/"), "schema-")) is not None
    }
    if not schemas:
        return None
    latest = max(schemas)
    return decode_schema(schemas[latest].data, name=f"schema-{latest} of {name}", schema_id=latest)


def _is_made_anew(files: TableFiles, record: Condemned) -> bool:
    """Whether the first schema is not the one that a record holds: the drop had deleted that."""
    first = files.schemas.ids()[:1]
    path = files.paths.schema(first[0]) if first else ""
    held = {files.paths.below(each.path): each.data for each in record.roots}
    with suppress(FileMissing):
        return bool(first) and files.fs.read_bytes(path) != held.get(path)
    return False


def _metadata_there(files: TableFiles) -> list[str]:
    """The metadata files of the table, but records of drops."""
    fs, root = files.fs, files.paths.root
    found = [each.path for folder in _METADATA for each in fs.list_tree(f"{root}/{folder}")]
    records = {path for listed, _ in drop_records(files.paths, files.fs) for path in listed.paths}
    return [
        path
        for path in found
        if _is_metadata(path.removeprefix(f"{root}/")) and path not in records
    ]


def _is_metadata(path: str) -> bool:
    folder, _, name = path.partition("/")
    # Readers of Iceberg open a table by these; what they name stays where it is.
    return folder in _METADATA and (folder != "metadata" or name.endswith((".json", ".text")))


def _held(files: TableFiles, paths: Iterable[str]) -> Iterable[HeldFile]:
    for path in paths:
        with suppress(FileMissing):
            yield held_file(files, path, files.fs.read_bytes(path))


def _joined(before: Iterable[HeldFile], later: Iterable[HeldFile]) -> tuple[HeldFile, ...]:
    # A commit after the deletion of all snapshots has the name of one of them.
    held = {each.path: each for each in later}
    return tuple((held | {each.path: each for each in before}).values())


def _delete_metadata(files: TableFiles, held: Iterable[HeldFile]) -> None:
    """Delete the schemas first, the latest of them last, and the snapshots at the end."""
    paths = [files.paths.below(each.path) for each in held]
    below = f"{files.paths.schema_dir}/"
    schemas = sorted(
        (each for each in paths if each.startswith(below)),
        key=lambda path: numbered(path.removeprefix(below), "schema-") or 0,
    )
    snapshots = [each for each in paths if each.startswith(f"{files.paths.snapshot_dir}/")]
    others = {*paths} - {*schemas, *snapshots}
    # A power loss may restore any file of a batch, and an older schema must not become the latest.
    for batch in (schemas[:-1], schemas[-1:], sorted(others), snapshots):
        delete_files(files.fs, batch)
    folders = {each.rpartition("/")[0] for each in paths}
    remove_empty_folders(files.fs, folders, below=files.paths.root)
