"""Orphan removal: files that no root keeps, left by dead processes, are condemned.

1. Read the store's clock: only that clock dates its files.
2. List the table folder by folder, or read an inventory of the store. Candidates are data,
   changelog, manifest, index, statistics and unfinished files in folders to which the table
   writes, and files of Iceberg metadata that no version of it names. They are at least a day old,
   or as old as requested. A write that takes longer looks dead.
3. After the listing, read all roots and pending batches, and keep their files, and those that are
   condemned already. So files that are committed during the listing are kept. If a root cannot be
   read, no file is touched.
4. Look at each candidate of an inventory in the store. A file of another size or time was written
   since, and stays.
5. Run: look at the candidates and the new roots again, and record the others. The collector
   deletes them after the plan's grace, if nothing keeps them by then.

Memory: about 100 bytes per old file of the table, 8 bytes per condemned file and 1 KB per file of a
plan, plus the listing of one folder and the roots. `orphan_steps` plans a removal in
parts, after one listing.
Source: Paimon `OrphanFilesClean`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.inventory import read_inventory
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.iceberg.named_files import OWN_NAME, named_below
from lakewright.storage.operations.references.collect import Deleted, carried_out
from lakewright.storage.operations.references.condemn import condemn
from lakewright.storage.operations.references.keepers import Keepers
from lakewright.storage.operations.references.known_columns import schemas_of_branches
from lakewright.storage.operations.references.numbered import NumberedPaths
from lakewright.storage.operations.references.stale_roots import (
    stale_if_roots_go,
    stale_when_roots_go,
)
from lakewright.storage.operations.retention.orphan_candidates import (
    OrphanCandidates,
    orphan_candidates,
)
from lakewright.storage.operations.running.concurrency import map_ahead
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.operations.running.plan import DeletionPlan, UnreachableFile
from lakewright.storage.operations.running.verb_options import DURATION, FLAG, TEXT, grace, option
from lakewright.storage.operations.state.staged_changes import keeps_files, read_changes
from lakewright.storage.operations.state.store_clock import check_clock, read_store_clock
from lakewright.storage.operations.state.time_travel import moment_text
from lakewright.storage.spec.arguments import whole_number, whole_or_none
from lakewright.storage.spec.file_names import COPIED, FILE_ID, is_place_below
from lakewright.storage.spec.partition import escape_path
from lakewright.storage.spec.shown import Summed
from lakewright.storage.spec.supported_options import Use, check_supported

_DAY_MS = 86_400_000
# The files of a running write look like orphans, and few writes take longer than this.
_LEAST_AGE_MS = 3_600_000
# The times of an inventory may be those of whole seconds.
_ROUNDED_MS = 1_000
# So many files are looked at until it is told how many by now.
_TOLD_EVERY = 1_000
# Waiting for a store, not the machine's cores, takes the time of a listing.
_LISTED_AT_ONCE = 8
# The suffix of temporary files that a store renames when they are finished.
UNFINISHED = re.compile(r"\.[^/]+\.tmp")
_METADATA = r"(manifest|index|statistics)/[^/]+"
# The mark of a partition that is done, before it has its name.
_UNFINISHED_MARK = r"\._SUCCESS\.[^/]+\.tmp"
_UNFINISHED = (
    r"(branch/branch-[^/]+/)?(schema|snapshot|tag|consumer|changelog|\.lakewright/pending/[^/]+"
    r"|\.lakewright/streams|\.lakewright/respec)"
    rf"/{UNFINISHED.pattern}"
)


# For so long a removal of orphans can be undone, unless it is told otherwise.
USUAL_GRACE_MS = 7 * _DAY_MS


@dataclass(frozen=True, slots=True)
class OrphanFile(UnreachableFile):
    """A file that no root keeps; `modified_ms` is by the store's clock."""

    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphansPlan(DeletionPlan["OrphansResult"]):
    """Files that no root keeps and that were written no later than `older_than_ms`.

    `leftovers` are unfinished files in the hidden folder, and records of a change of keys that
    ended; no reader uses them. `further` is the number of files beyond the most that the plan was
    to hold. For `grace_ms` the run can be undone.
    """

    older_than_ms: int
    files: tuple[OrphanFile, ...]
    leftovers: tuple[UnreachableFile, ...] = ()
    further: int = 0
    grace_ms: int = USUAL_GRACE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphansResult(Summed):
    """What was deleted, and which files were left to the collector."""

    files_deleted: int
    bytes_deleted: int
    files_condemned: int
    bytes_condemned: int
    duration_ms: int


@dataclass(frozen=True, kw_only=True)
class OrphansOptions:
    """Which files are looked for: those of an age, by default a day, or written up to a moment.

    Both are by the store's clock. With less than an hour, the caller guarantees by `even_recent`
    that no process writes to the table. `inventory` is read instead of listing the table
    (`files/inventory.py`); what it names is looked at first, so it knows no `max_files`.
    """

    older_than_ms: int | None = option(
        DURATION,
        None,
        "Only files of at least that age by the clock of the store. Without one, 1d. A write that "
        "has run for longer loses its files.",
    )
    before_ms: int | None = None
    even_recent: bool = option(
        FLAG, default=False, text="Allow an age below an hour; only safe while no process writes."
    )
    grace_ms: int = grace(USUAL_GRACE_MS)
    inventory: str | None = option(
        TEXT,
        None,
        "Read this inventory of the store instead of listing the table: a file, or a folder of "
        "files, in CSV or Parquet with key, size and last_modified.",
    )
    max_files: int | None = None


Looked = Callable[[int], object]


def plan_remove_orphans(files: TableFiles, options: OrphansOptions) -> OrphansPlan:
    """Plan the removal of orphans; the plan holds `max_files` at most, and counts the further ones.

    Raises:
        InvalidRequestError: the moment is in the future, or less than an hour ago; the inventory
            cannot be read, or names no file of the table.
        ClockJumped: a file is dated in the future, so ages are unknown.
        CorruptionError: metadata that the plan depends on cannot be read.
    """
    with closing(orphan_steps(files, options)) as plans:
        return next(plans)


def orphan_steps(
    files: TableFiles, options: OrphansOptions, *, looked: Looked = id
) -> Generator[OrphansPlan, None, None]:
    """Plans of `max_files` at most, which name all orphans of one listing; at least one plan.

    `looked` is called, now and then and at the end of the listing, with the number of files that
    were looked at; how many there are is not known before. Carry each plan out before you ask for
    the next one, so that memory holds one. What is committed meanwhile, the run of a plan finds.
    The errors are those of `plan_remove_orphans`.
    """
    check_supported(files.schema, Use.ORPHANS, table=files.name)
    before_ms = whole_or_none(options.before_ms, "before_ms")
    age_ms = whole_or_none(options.older_than_ms, "older_than_ms")
    grace_ms = whole_number(options.grace_ms, "grace_ms", minimum=0)
    inventory = options.inventory
    with orphan_candidates() as candidates:
        with stale_if_roots_go(files, files.snapshots.ids()):
            now = read_store_clock(files)
            oldest = now - (_DAY_MS if age_ms is None else age_ms)
            oldest = oldest if before_ms is None else before_ms
            _check_age(files, oldest, now, even_recent=options.even_recent)
            _look_for(files, candidates, now, oldest, inventory, looked)
            keepers = Keepers(files, NumberedPaths(), tuple, tell=candidates.keep)
            keepers.look()
            candidates.keep(name.path for name in files.condemned.all_names())
            candidates.keep(named_below(files))
            leftovers = _leftovers(files, oldest)
        elsewhere = keepers.elsewhere
        # It holds what it has read of the manifests.
        del keepers
        most = None if inventory is not None else options.max_files
        further = 0 if most is None else sum(1 for _ in candidates.take(elsewhere))
        left = candidates.take(elsewhere)
        while True:
            found = [
                OrphanFile(each.path, each.size, each.modified_ms) for each in islice(left, most)
            ]
            found.sort(key=lambda each: each.path)
            further = max(further - len(found), 0)
            yield OrphansPlan(
                table=files.name,
                older_than_ms=oldest,
                files=tuple(found if inventory is None else _still_there(files, found, oldest)),
                leftovers=leftovers,
                further=further,
                grace_ms=grace_ms,
            )
            if not further:
                return
            leftovers = ()


def _look_for(
    files: TableFiles,
    candidates: OrphanCandidates,
    now: int,
    oldest: int,
    inventory: str | None,
    looked: Callable[[int], object],
) -> None:
    """Add the files that are old enough, and where this table writes."""
    below = files.paths.root + "/"
    owned, newest, count = _owned(files), ("", 0), 0
    for count, status in enumerate(
        _listed(files)
        if inventory is None
        else read_inventory(inventory, files.paths.root, table=files.name),
        start=1,
    ):
        path = status.path.removeprefix(below)
        newest = max(newest, (path, status.modified_ms), key=lambda each: each[1])
        if status.modified_ms <= oldest and owned.fullmatch(path) and is_place_below(path):
            candidates.add(path, status)
        if count % _TOLD_EVERY == 0:
            looked(count)
    looked(count)
    if newest[1] > now:
        # The file was written during the listing, or is dated in the future.
        check_clock(files, read_store_clock(files), [newest], what="removed")


def _check_age(files: TableFiles, oldest: int, now: int, *, even_recent: bool) -> None:
    if oldest > now:
        raise InvalidRequestError(
            "orphans must be older than a time in the past, and the given time is in the "
            f"future: the clock of the store says {moment_text(now)}; name an earlier time"
        )
    if oldest > now - _LEAST_AGE_MS and not even_recent:
        raise InvalidRequestError(
            f"files of {files.name} younger than an hour may belong to a write in progress; name "
            "an age of an hour or more, or allow recent files (--even-recent, even_recent) if no "
            "process writes to the table"
        )


def _listed(files: TableFiles) -> Iterator[FileStatus]:
    """Files of the table, folder by folder, without hidden folders.

    A few folders are listed at once, those of partitions or buckets in particular.
    """
    root, names = files.paths.root, files.fs.list_subdirs(files.paths.root)
    folders = [f"{root}/{name}" for name in names if not name.startswith(".")]
    for some in map_ahead(files.env, files.fs.list_tree, folders, at_once=_LISTED_AT_ONCE):
        yield from some


def _still_there(
    files: TableFiles, orphans: Sequence[OrphanFile], oldest: int
) -> Iterator[OrphanFile]:
    """The files that are in the store as an inventory says; times of inventories may be rounded.

    An inventory of all versions names a file several times, and the store has the latest.
    """
    there = files.there(orphan.path for orphan in orphans)
    for orphan in orphans:
        status = there.get(orphan.path)
        if status is None or status.size != orphan.size_bytes or status.modified_ms > oldest:
            continue
        if abs(status.modified_ms - orphan.modified_ms) < _ROUNDED_MS:
            yield OrphanFile(orphan.path, status.size, status.modified_ms)
            del there[orphan.path]


def _owned(files: TableFiles) -> re.Pattern[str]:
    """A pattern of the paths to which this table writes, on any branch.

    Data files are in bucket folders, directly below the folders of present or former partition
    columns. Folders of other columns may have some, too, of which no schema tells: a change of keys
    of a primary-key table was stopped, or a branch with these keys was deleted. Users may have such
    folders, so only files with names of our writers are taken from them. Other folders belong to
    users, and orphan removal never touches them.
    """
    schemas = [files.schema, *schemas_of_branches(files)]
    folders = (
        "".join(f"{re.escape(escape_path(name))}=[^/]*/" for name in names)
        for names in sorted({schema.partition_keys for schema in schemas})
    )
    partition = f"(?:{'|'.join(folders)})"
    names = {escape_path(name) for schema in schemas for name in schema.field_names}
    column = (
        f"(?:{'|'.join(map(re.escape, sorted(names | files.references.kept_columns())))})=[^/]*"
    )
    directory = files.options.data_file_directory
    below = re.escape(directory) + "/" if directory else ""
    prefixes = {"data-", files.options.data_file_prefix, files.options.changelog_file_prefix}
    own = rf"({COPIED})?({'|'.join(map(re.escape, sorted(prefixes)))}){FILE_ID}[^/]*"
    data = (
        rf"{below}{partition}bucket-(\d+|postpone)/[^/]+"
        rf"|{below}({column}/)*bucket-\d+/{own}"
    )
    own_metadata = f"{_METADATA}|metadata/(?:{OWN_NAME})"
    return re.compile(f"{data}|{partition}{_UNFINISHED_MARK}|{own_metadata}|{_UNFINISHED}")


def _leftovers(files: TableFiles, oldest: int) -> tuple[UnreachableFile, ...]:
    below = files.paths.root + "/"
    staged = files.staged_changes
    hidden = files.fs.list_subdirs(files.paths.upkeep_dir)
    folders = [f"{files.paths.upkeep_dir}/{each}" for each in hidden]
    listed = [*map(files.fs.list_tree, folders), files.fs.list_dir(files.paths.upkeep_dir)]
    unfinished = [each for some in listed for each in some if UNFINISHED.fullmatch(each.name)]
    # A verb that died before its record was complete had deleted nothing; one that died while it
    # deleted its record had done all else.
    records = (each for each in files.condemned.listed().values() if each.head is None)
    incomplete = (each for record in records for each in record.beside_head)
    # No run goes on from a change that the table's schema has left behind.
    goes_on = any(keeps_files(files, change) for change in read_changes(files).values())
    return tuple(
        UnreachableFile(status.path.removeprefix(below), status.size)
        for status in (
            *unfinished,
            *incomplete,
            *(() if goes_on else staged.listed()),
        )
        if status.modified_ms <= oldest and is_place_below(status.path.removeprefix(below))
    )


@stale_when_roots_go
def run_remove_orphans(files: TableFiles, plan: OrphansPlan) -> OrphansResult:
    """Condemn the files of a plan; with a grace of 0, delete them.

    Files that a root or batch needs by now stay, and files that the store dates otherwise.

    Raises:
        InvalidRequestError: the plan names files that cannot be orphans of this table.
        CorruptionError: a root cannot be read.
    """
    check_supported(files.schema, Use.ORPHANS, table=files.name)
    _check_files(files, plan)
    started = files.env.now_ms()
    old = {file.path for file in _leftovers(files, plan.older_than_ms)}
    keepers = Keepers(
        files,
        NumberedPaths.of(each.path for each in plan.files),
        lambda: (each.path for each in plan.files),
    )
    keepers.look()
    there = files.there(each.path for each in plan.files)
    kept = keepers.kept | keepers.recorded
    if any(each.path.startswith("metadata/") for each in plan.files):
        kept |= named_below(files)
    going = [
        each
        for each in plan.files
        if (status := there.get(each.path)) is not None
        and (status.size, status.modified_ms) == (each.size_bytes, each.modified_ms)
        and each.path not in kept
    ]
    deleted = Deleted()
    if going:
        condemned = condemn(files, "remove_orphans", going, [], grace_ms=plan.grace_ms)
        deleted = carried_out(condemned, known=keepers.known, with_staged=True)
    leftovers = [file.path for file in plan.leftovers if file.path in old]
    delete_files(files.fs, [files.paths.below(path) for path in leftovers])
    return OrphansResult(
        files_deleted=deleted.files,
        bytes_deleted=deleted.bytes,
        files_condemned=deleted.condemned_files,
        bytes_condemned=deleted.condemned_bytes,
        duration_ms=files.env.now_ms() - started,
    )


def _check_files(files: TableFiles, plan: OrphansPlan) -> None:
    """Check that the planned files can be orphans of this table, since a plan may be edited."""
    owned, upkeep = _owned(files), files.paths.upkeep_dir.removeprefix(files.paths.root + "/")
    staged = r"respec/(change|staged)-[^/]+|condemned/[^/]+\.(list|claim)"
    hidden = re.compile(rf"{re.escape(upkeep)}/((.+/)?{UNFINISHED.pattern}|{staged})")
    for file in plan.files:
        is_owned = owned.fullmatch(file.path) and is_place_below(file.path)
        if not is_owned or file.modified_ms > plan.older_than_ms:
            raise InvalidRequestError(
                f"{file.path} cannot be an orphan of {files.name}; plan again"
            )
    for leftover in plan.leftovers:
        if not hidden.fullmatch(leftover.path):
            raise InvalidRequestError(f"{leftover.path} is not a leftover of upkeep; plan again")
