"""Names the files of a table that was moved or copied where they lie now.

A change of partition keys leaves files where they lie, and manifests name their whole places until
the files are settled. In a copy of the table these are places in the former one.

1. Plan: find the live files that are named below the former place, and check that each lies at the
   same place below the table.
2. Commit the same entries with the places of today: a COMPACT with an empty delta.

A catalog moves no folder of a table that is not home.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lakewright.storage.errors import InvalidRequestError, UnsupportedError
from lakewright.storage.files.external_files import external_uri
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.commit_loop import commit_bridging
from lakewright.storage.operations.references.branches import at_branch, branch_names
from lakewright.storage.operations.respec.cut_over import keys_stand
from lakewright.storage.operations.rewrite.settle import is_away
from lakewright.storage.operations.state.live_files import live_entries
from lakewright.storage.operations.state.table_state import ANY_KEYS, TableState, latest_state
from lakewright.storage.spec.arguments import text_argument
from lakewright.storage.spec.commit import Change, CommitResult, RestatedBase
from lakewright.storage.spec.manifest import ManifestEntry


def find_moved(files: TableFiles, moved_from: str) -> list[ManifestEntry]:
    """The live files that are named below the former place of the table.

    Raises:
        InvalidRequestError: no file is, or one does not lie in the table.
        UnsupportedError: a change of the partition keys is in progress.
    """
    entries = latest_state(files, takes=ANY_KEYS).entries
    former = _former_uri(files, moved_from, entries)
    moved = [entry for entry in entries if _path_now(files, former, entry) is not None]
    if not moved:
        places = {entry.file.external_path for entry in entries} - {None}
        found = f"; others are named, such as {min(map(str, places))}" if places else ""
        raise InvalidRequestError(
            f"no file of {files.name} is named below {former}{found}; give the place of the table "
            "from which it was moved or copied, or that of its warehouse"
        )
    if not keys_stand(files):
        raise UnsupportedError(
            f"a change of the partition keys of {files.name} was in progress when the table was "
            "moved or copied; end it at the former place (respec with its keys), and copy the "
            "table again"
        )
    sizes = {each.path: each.size for each in files.fs.list_tree(files.paths.root)}
    lacking = [
        path
        for each in moved
        if (path := _path_now(files, former, each)) is not None
        and sizes.get(path) != each.file.file_size
    ]
    if lacking:
        raise InvalidRequestError(
            f"{len(lacking)} of {len(moved)} files of {files.name} that were below {former} do not "
            f"lie below {files.paths.root}, or have other sizes (the first is {lacking[0]}); copy "
            "them there first"
        )
    return moved


def name_places_of_today(files: TableFiles, moved_from: str) -> CommitResult:
    """Commit the live files under the places that they have in the table now."""

    def build(state: TableState) -> Change | None:
        if state.snapshot is None:
            return None
        former = _former_uri(files, moved_from, state.entries)
        base = RestatedBase(
            keys=files.partitions.keys,
            entries=[_moved(files, former, entry) for entry in state.entries],
            indexes=state.indexes,
        )
        return Change(base=base, statistics=state.snapshot.statistics)

    return commit_bridging(files, build)


def check_is_home(files: TableFiles) -> None:
    """Check that main, branches and tags can be read when the folder of the table moves.

    Snapshots of before keep the former places, and can be expired.

    Raises:
        UnsupportedError: a change of the partition keys is in progress, or files are named by their
            places.
    """
    for line in _lines(files):
        keys = {line.schemas.read(each).partition_keys for each in line.schemas.ids()}
        if len(keys) < 2:
            continue
        if not keys_stand(line):
            raise UnsupportedError(
                f"a change of the partition keys of {line.name} is in progress, or was stopped, "
                "and its files are named by their places; end it with its present keys before it "
                "moves "
                f"(lakewright respec '{line.name}' --keys "
                f"'{','.join(line.schema.partition_keys)}')"
            )
        entries = latest_state(line, takes=ANY_KEYS).entries
        away = sum(is_away(line, entry.file) for entry in entries)
        if away:
            raise UnsupportedError(
                f"{away} files of {line.name} are named by their places, since its partition keys "
                "changed, and could not be read after it moved; bring them home first (lakewright "
                f"settle '{line.name}')"
            )
        tags = [
            name
            for name, tag in sorted(line.references.tags().items())
            if any(is_away(line, entry.file) for entry in live_entries(line, tag.snapshot))
        ]
        if tags:
            raise UnsupportedError(
                f"{len(tags)} tags of {line.name} ({', '.join(tags[:5])}) name files by their "
                "places, since its partition keys changed, and could not be read after it moved; "
                f"delete them first (lakewright tag delete '{line.name}' {tags[0]})"
            )


def name_all_places(files: TableFiles, moved_from: str) -> int:
    """Name the files of main and of all branches where they lie after the table was moved.

    `moved_from` is the former place of the table, or of its warehouse. Returns how many files were
    named in another place.

    Raises:
        InvalidRequestError: a file does not lie in the table; `respec` with `moved_from` names them
            when it does.
    """
    count = 0
    for line in _lines(files):
        entries = latest_state(line, takes=ANY_KEYS).entries
        former = _former_uri(line, moved_from, entries)
        if any(_path_now(line, former, entry) is not None for entry in entries):
            count += len(find_moved(line, moved_from))
            name_places_of_today(line, moved_from)
    return count


def tags_in_former_place(files: TableFiles, moved_from: str) -> tuple[str, ...]:
    """The tags of main and of branches that name files in the former place, and stay so."""
    found = []
    for line in _lines(files):
        for name, tag in sorted(line.references.tags().items()):
            entries = live_entries(line, tag.snapshot)
            former = _former_uri(line, moved_from, entries)
            if any(_path_now(line, former, entry) is not None for entry in entries):
                found.append(name)
    return tuple(dict.fromkeys(found))


def _lines(files: TableFiles) -> list[TableFiles]:
    """The table seen from main, and from each branch."""
    return [files, *(at_branch(files, name) for name in branch_names(files))]


def _moved(files: TableFiles, former: str, entry: ManifestEntry) -> ManifestEntry:
    path = _path_now(files, former, entry)
    if path is None:
        return entry
    return replace(entry, file=replace(entry.file, external_path=external_uri(files.fs, path)))


def _path_now(files: TableFiles, former: str, entry: ManifestEntry) -> str | None:
    """The path in the table of a file that is named below the former place."""
    named = entry.file.external_path
    if named is None or not named.startswith(f"{former}/"):
        return None
    parts: Sequence[str] = named.removeprefix(f"{former}/").split("/")
    return None if ".." in parts else f"{files.paths.root}/{'/'.join(parts)}"


def _former_uri(files: TableFiles, moved_from: str, entries: Iterable[ManifestEntry]) -> str:
    """The former place of the table as manifests name it; that of its warehouse may be given."""
    place = _uri_of(files, moved_from)
    of_table = f"{place}/{'/'.join(files.paths.root.rsplit('/', 2)[1:])}"
    named = (entry.file.external_path for entry in entries)
    is_warehouse = any(each is not None and each.startswith(f"{of_table}/") for each in named)
    return of_table if is_warehouse else place


def _uri_of(files: TableFiles, moved_from: str) -> str:
    place = text_argument(moved_from, "moved_from").rstrip("/")
    if place.startswith("file:"):
        return "file:/" + place.removeprefix("file:").lstrip("/")
    if "://" in place:
        return place
    if files.fs.uri("/").startswith("file:") and place.startswith("/"):
        return f"file:{place}"
    raise InvalidRequestError(
        f"moved_from is {moved_from!r}; give the URI of the former place of the table or of its "
        "warehouse, or its whole path on a local disk"
    )
