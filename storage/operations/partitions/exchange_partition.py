"""Exchanges partitions: moves them from a table to another of the same schema.

1. Plan from metadata alone: the source holds the partitions, and the target does not.
2. Copy their files into the target, and commit them there.
3. Drop the partitions in the source.

Each table changes in one commit. Between the two, readers see the rows in both tables. After a
crash there, or if another commit changes the source there, another call finds the copies by their
names, or proves from histories that a compaction took their rows over (`kept_rows.py`), copies what
is new, and goes on.

No commit is atomic over two tables. So each attempt at a commit looks at the other table right
before it writes manifests: the copies are committed only while the source holds what was copied,
and the drop only while the copies stand. What remains is the time from that look to the creation of
the snapshot. After the drop a third look finds copies that others removed in that time, and the
error says how the rows come back.

Each call names its copies anew, so a partition that goes to and fro adds no file that a manifest of
the same state removes. Files are copied, and not named by `_EXTERNAL_PATH`: an expiry or a drop of
the source would delete files that the target reads, and readers before Paimon 1.0 know no external
paths. The file is long since both commits, the looks at the other table, and what is told where one
of them fails are one protocol, which is read as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from lakewright.storage.errors import (
    CommitOutcomeUnknownError,
    InvalidRequestError,
    PartitionExists,
    SchemaMoved,
    StalePlan,
    StorageError,
    TableNotFound,
    UnsupportedError,
)
from lakewright.storage.files.metadata_stores import SchemaStore
from lakewright.storage.files.paths import DATABASE_SUFFIX, TablePaths
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.replace_partitions import (
    HeldNames,
    commit_partitions,
    names_by_partition,
    stale_partitions,
)
from lakewright.storage.operations.partitions.compare_copies import advice_on, compare_copies
from lakewright.storage.operations.partitions.held_partitions import (
    HeldFiles,
    HeldNow,
    check_as_planned,
    check_not_overtaken,
    check_partitioned,
    held_files,
    held_now,
    planned_rows,
)
from lakewright.storage.operations.partitions.kept_rows import kept_names
from lakewright.storage.operations.partitions.select_partitions import (
    Specs,
    check_all_found,
    selected_entries,
    selection,
)
from lakewright.storage.operations.references.sweep import sweep_after_failure
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.operations.state.latest import read_latest
from lakewright.storage.operations.state.live_files import index_entries
from lakewright.storage.operations.state.rewrite_schema import check_current_schema, check_keys_stay
from lakewright.storage.operations.state.table_state import state_at
from lakewright.storage.operations.write.copy_files import CopyRun
from lakewright.storage.spec.arguments import list_argument, mapping_argument, text_argument
from lakewright.storage.spec.file_names import exchanged_name, is_place_below
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import find_option

# Options besides the immutable ones by which files of a table are read.
_LAYOUT = frozenset(
    {
        "bucket",
        "sequence.field",
        "sequence.field.sort-order",
        "deletion-vectors.enabled",
        "deletion-vectors.bitmap64",
        "data-file.thin-mode",
        "ignore-delete",
        "ignore-update-before",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangePartitionPlan(Plan["ExchangePartitionResult"]):
    """The partitions to move from `source` to `table`, as of a snapshot of the source.

    `begun` are those of which the table holds copies already, from a call that was stopped.
    """

    table: str
    source: str
    snapshot_id: int | None
    partitions: tuple[HeldFiles, ...]
    begun: tuple[dict[str, object], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangePartitionResult(Shown):
    """What was moved: the snapshots of both tables; `snapshot` is None if the rows were there."""

    snapshot: Snapshot | None
    source_snapshot: Snapshot | None
    partitions: tuple[HeldFiles, ...]
    bytes_copied: int
    duration_ms: int


# --- planning ---------------------------------------------------------------------------------


def plan_exchange_partition(
    files: TableFiles, source: str, partitions: Specs
) -> ExchangePartitionPlan:
    """Plan to move partitions of another table of the warehouse here; keys may be left out.

    Raises:
        TableNotFound: there is no such table.
        InvalidRequestError: the tables have other columns, keys or layouts; or no partition is
            named.
        PartitionNotFound: the source has no such partition.
        PartitionExists: this table has the partition, with rows of its own.
        UnsupportedError: a file of the partitions lies outside of the source.
    """
    partitions = list_argument(partitions, "partitions", mapping_argument)
    other = _other_table(files, source)
    _check_alike(files, other)
    if isinstance(partitions, (str, Mapping)) or not partitions or not all(partitions):
        raise InvalidRequestError(
            f"say which partitions of {source} to move to {files.name}, as a list of dicts",
            table=files.name,
        )
    asked = selection(other, partitions=partitions)
    snapshot, (found, indexes) = read_latest(
        other,
        lambda latest: (selected_entries(other, latest, asked), index_entries(other, latest)),
    )
    check_all_found(other, snapshot, asked, list(found))
    _check_own(other, chain.from_iterable(found.values()))
    rows = {each.row for each in found}
    here = held_now(files, rows)
    there = HeldNow(
        snapshot,
        tuple(chain.from_iterable(found.values())),
        tuple(each for each in indexes if each.partition in rows),
    )
    refusal = compare_copies(files, here, other, there, rows).refusal
    if refusal is not None:
        row, why = refusal
        raise PartitionExists(
            f"{files.name} has {files.partitions.of_row(row).named} with rows "
            f"{advice_on(why, files, other)}",
            table=files.name,
        )
    begun = {entry.partition for entry in here.entries}
    return ExchangePartitionPlan(
        table=files.name,
        source=source,
        snapshot_id=None if snapshot is None else snapshot.id,
        partitions=tuple(held_files(*each) for each in found.items()),
        begun=tuple(each.spec for each in found if each.row in begun),
    )


def _other_table(files: TableFiles, name: str) -> TableFiles:
    """A table beside this one, in the same warehouse, with its latest schema."""
    database, dot, table = text_argument(name, "table name").partition(".")
    is_named = dot and "." not in table and all(map(_is_folder, (database, table)))
    if not is_named:
        raise InvalidRequestError(f"{name!r} is not the name of a table, database.table")
    if name == files.name:
        raise InvalidRequestError(f"{name} cannot exchange partitions with itself", table=name)
    if files.registry is not None:
        raise UnsupportedError(
            f"{files.name} cannot exchange partitions with {name}, since a metastore may place the "
            "two anywhere, and an exchange works within one warehouse; INSERT the rows",
            table=files.name,
        )
    warehouse = files.paths.root.rsplit("/", 2)[0]
    paths = TablePaths(f"{warehouse}/{database}{DATABASE_SUFFIX}/{table}")
    store = SchemaStore(files.fs, paths)
    if not store.ids():
        raise TableNotFound(f"no table {name} in {warehouse}", table=name)
    return TableFiles(name, files.fs, paths, store.latest(table=name), files.env, run=files.run)


def _is_folder(name: str) -> bool:
    return bool(name) and "/" not in name and is_place_below(name)


def _check_alike(files: TableFiles, other: TableFiles) -> None:
    """Check that files of one table mean the same rows in the other."""
    for table in (files, other):
        check_partitioned(table)
    one, two = files.schema, other.schema
    for what, own, others in (
        ("partition keys", one.partition_keys, two.partition_keys),
        ("primary keys", one.primary_keys, two.primary_keys),
        ("columns", _columns(one), _columns(two)),
        ("options", _layout(one), _layout(two)),
    ):
        if own != others:
            raise InvalidRequestError(
                f"{files.name} and {other.name} have other {what} ({_differing(own, others)}), and "
                "partitions are exchanged between tables of the same schema; write the rows "
                "instead",
                table=files.name,
            )


def _differing(own: Sequence[object], others: Sequence[object]) -> str:
    """What only one of the tables has; all of both, in order, if they have the same."""
    differ = [f"{each}" for each in (*own, *others) if (each in own) is not (each in others)]
    if differ:
        return "; ".join(differ[:4])
    return " against ".join(", ".join(map(str, each)) for each in (own, others))


def _columns(schema: TableSchema) -> tuple[str, ...]:
    return tuple(f"{each.name} {each.type}, id {each.id}" for each in schema.fields)


def _layout(schema: TableSchema) -> tuple[str, ...]:
    found = []
    for name, value in sorted(schema.options.items()):
        option = find_option(name)
        is_layout = name in _LAYOUT or name.startswith("fields.")
        if is_layout or (option is not None and option.immutable):
            found.append(f"{name}={value}")
    return tuple(found)


# --- running ----------------------------------------------------------------------------------


def run_exchange_partition(
    files: TableFiles, plan: ExchangePartitionPlan
) -> ExchangePartitionResult:
    """Carry a plan out: one commit here, then one in the source.

    Raises:
        StalePlan: another commit changed a partition. Nothing is moved; or, if the message says so,
            the rows are in both tables until another call.
        SchemaMoved: the schema of one of them changed since it was opened. Nothing is moved; or, if
            the message says so, the rows are in both tables.
        CommitOutcomeUnknownError: the store failed during a commit; call again. Or the copies were
            removed while the source dropped the partition; the message says how the rows come back.
    """
    started = files.env.now_ms()
    other = _other_table(files, plan.source)
    _check_alike(files, other)
    planned = planned_rows(other, plan.partitions)
    planned_rows(files, plan.partitions)
    there, here = held_now(other, planned), held_now(files, planned)
    check_as_planned(other, planned, there, plan.snapshot_id)
    compared = compare_copies(files, here, other, there, planned)
    if compared.refusal is not None:
        raise StalePlan(
            f"{files.name} has changes of its own in "
            f"{files.partitions.of_row(compared.refusal[0]).named} by now; plan again",
            table=files.name,
        )
    lacking, taken = compared.lacking, here.names(planned)
    snapshot, copies = _copy(files, other, there, {row: taken[row] for row in lacking})
    standing = {**names_by_partition(here.entries), **copies}
    source_snapshot = _drop(files, other, there, there.names(planned), standing)
    copied = [
        each.bytes for row, each in zip(planned, plan.partitions, strict=True) if row in lacking
    ]
    return ExchangePartitionResult(
        snapshot=snapshot,
        source_snapshot=source_snapshot,
        partitions=plan.partitions,
        bytes_copied=sum(copied),
        duration_ms=files.env.now_ms() - started,
    )


def _copy(
    files: TableFiles, other: TableFiles, there: HeldNow, held: HeldNames
) -> tuple[Snapshot | None, dict[bytes, set[str]]]:
    """Copy partitions and commit them here, in place of older copies; returns the copies' names."""
    if not held:
        return None, {}
    entries = [each for each in there.entries if each.partition in held]
    _check_own(other, entries)
    indexes = [each for each in there.indexes if each.partition in held]
    schema_ids = _schema_ids(files, other, {each.file.schema_id for each in entries})
    run_id = files.env.new_id()
    run = CopyRun(other, files, partial(exchanged_name, run_id), schema_ids)
    base = files.snapshots.latest()
    try:
        messages = run.copied_messages(entries, indexes)
        snapshot, _ = commit_partitions(
            files,
            held,
            messages,
            user=run_id,
            base=base,
            check=partial(_check_held, files, other, there.names(held), there.snapshot),
        )
    except CommitOutcomeUnknownError:
        raise
    except BaseException as error:
        base_id = None if base is None else base.id
        sweep_after_failure(files, [run_id], since_snapshot_id=base_id)
        check_not_overtaken(other, there.snapshot, error)
        raise
    copies: dict[bytes, set[str]] = {row: set() for row in held}
    for each in messages:
        copies[each.partition] |= {file.file_name for file in each.new_files}
    return snapshot, copies


def _check_held(
    files: TableFiles, other: TableFiles, due: HeldNames, since: Snapshot | None
) -> None:
    """Check that the source still holds what was copied: another call may have moved it on."""
    check_current_schema(other)
    now = held_now(other, due.keys())
    changed = {row for row, names in now.names(due).items() if names != due[row]}
    if changed:
        since_id = None if since is None else since.id
        raise StalePlan(
            f"{stale_partitions(other, changed, since_id, now.snapshot)}; nothing was committed "
            f"to {files.name}",
            table=files.name,
        )


def _check_own(other: TableFiles, entries: Iterable[ManifestEntry]) -> None:
    """Check that the other table's files are its own, so that it may give them away."""
    for entry in entries:
        if other.is_foreign(entry.file):
            raise UnsupportedError(
                f"data file {entry.file.external_path} lies outside of {other.name}, so the "
                "partition cannot be exchanged; take its folder over (lakewright add-partitions), "
                f"or, if {other.name} was moved or copied from there, name its files where they "
                f"lie now (lakewright respec {other.name} --moved-from PLACE)",
                table=other.name,
            )


def _schema_ids(files: TableFiles, other: TableFiles, ids: set[int]) -> dict[int, int]:
    """The version of this table's schema for each version of the other's.

    Clients look for a file, and find its values, by the keys of the schema that it names. So these
    must be the present ones.

    Raises:
        InvalidRequestError: this table never had such columns with these keys.
    """
    versions = {each: files.schemas.read(each) for each in reversed(files.schemas.ids())}
    own = {
        _columns(schema): each
        for each, schema in versions.items()
        if schema.partition_keys == files.schema.partition_keys
        and schema.primary_keys == files.schema.primary_keys
    }
    found = {each: own.get(_columns(other.schemas.read(each))) for each in ids}
    for each, known in found.items():
        if known is None:
            raise InvalidRequestError(
                f"files of {other.name} were written with schema {each}, and {files.name} never "
                f"had its columns with its present keys; compact the partitions of {other.name} "
                "fully first",
                table=files.name,
            )
    return {each: known for each, known in found.items() if known is not None}


def _drop(
    files: TableFiles,
    other: TableFiles,
    there: HeldNow,
    due: HeldNames,
    standing: Mapping[bytes, Collection[str]],
) -> Snapshot | None:
    """Drop the partitions in the source, while the files in `standing` are live here.

    The copies stay in any case: another call may have dropped the partitions in the source since it
    saw the copies, and then these are all there is. A schema that moved hides whether it has: the
    caller has to look.

    Raises:
        CommitOutcomeUnknownError: others removed the copies while the drop was committed.
    """
    try:
        snapshot, _ = commit_partitions(
            other,
            due,
            user=files.env.new_id(),
            base=there.snapshot,
            check=partial(_check_standing, files, other, standing),
        )
    except (StalePlan, SchemaMoved) as error:
        way = _way_on(files, other, due, standing, error)
        raise type(error)(f"{error}; {way}", table=files.name) from error
    if snapshot is not None:
        _check_not_lost(files, other, snapshot, standing)
    return snapshot


def _check_standing(
    files: TableFiles, other: TableFiles, standing: Mapping[bytes, Collection[str]]
) -> None:
    """Check that all copies are live in the target."""
    _, lost = _look(files, standing)
    if lost:
        raise StalePlan(
            f"others removed copied files from {files.partitions.of_row(min(lost)).named} of "
            f"{files.name} before {other.name} dropped it",
            table=files.name,
        )


def _look(
    files: TableFiles, standing: Mapping[bytes, Collection[str]]
) -> tuple[HeldNow, frozenset[bytes]]:
    """What partitions of the target hold, and those in which not all of these files are live.

    Raises:
        SchemaMoved: the partition keys change, so that files may be live in other partitions.
    """
    now = held_now(files, standing.keys())
    found = now.names(standing)
    lost = frozenset(row for row, names in standing.items() if not set(names) <= set(found[row]))
    if lost and now.snapshot is not None:
        state_at(files, now.snapshot)
        check_keys_stay(files, files.schemas.latest(table=files.name))
    return now, lost


def _way_on(
    files: TableFiles,
    other: TableFiles,
    due: HeldNames,
    standing: Mapping[bytes, Collection[str]],
    error: StorageError,
) -> str:
    """Where the rows are after a drop in the source that was not made, and what to do."""
    here, there = files.name, other.name
    copied = f"{here} has copies by now of what {there} held"
    both = "as long as both have the partition, its rows are in both"
    idle = f"see that no exchange of it runs (lakewright lease list {here})"
    if isinstance(error, SchemaMoved):
        return (
            f"{copied}: {both}; {idle}, and compare the rows before you drop any; if {there} has "
            f"all rows of the partition in {here}, also those that others added there, drop it in "
            f"{here}, and exchange again when both have the same keys; if {there} has none of "
            f"them, another call has moved them, and the copies are the only rows: keep them; "
            f"otherwise INSERT into {there} only the rows that it lacks, and then drop the "
            f"partition in {here}"
        )
    try:
        _, lost = _look(files, standing)
        left = {each.partition for each in held_now(other, due.keys()).entries}
    except StorageError:
        return f"{copied}; {idle}, and look for the rows in both tables before you drop any"
    if lost and left != set(due):
        return (
            f"neither {here} nor {there} has all of it any more: other commits or a rollback moved "
            "or removed it; look for the rows before you drop any"
        )
    if lost:
        return (
            f"{here} does not have all copies any more, so nothing was dropped in {there}; if they "
            f"were compacted, dropped or rolled back, exchange again; if they were renamed or "
            f"moved on, their rows are there and in {there}: compare both, and drop one of them"
        )
    if left != set(due):
        return (
            f"{copied}, and {there} does not have all of it any more: if another call of this "
            f"exchange dropped it there, the copies are the only rows, so keep them; if it was "
            f"moved elsewhere, renamed or dropped, they double its rows or bring them back; look "
            "for the rows before you drop any"
        )
    return f"{copied}: {both}; exchange again, which copies what is new"


def _check_not_lost(
    files: TableFiles,
    other: TableFiles,
    dropped: Snapshot,
    standing: Mapping[bytes, Collection[str]],
) -> None:
    """Check after the drop that the copies stand, or that their rows do."""
    try:
        now, removed = _look(files, standing)
        lost = [
            row
            for row in sorted(removed)
            if not kept_names(files, now.snapshot, row, frozenset(standing[row]))
        ]
    except StorageError:
        # Both commits stand. A store that fails tells nothing of the rows, nor do changing keys.
        return
    if lost:
        raise CommitOutcomeUnknownError(
            f"{files.partitions.of_row(lost[0]).named} was moved from {other.name} to "
            f"{files.name}, and other commits or a rollback of {files.name} removed copied files "
            f"while snapshot {dropped.id} of {other.name} dropped it there: if that was done on "
            f"purpose after the exchange, all is well; otherwise the rows may be in neither, and "
            f"come back with: lakewright revert {other.name} --snapshot {dropped.id}",
            table=files.name,
        )
