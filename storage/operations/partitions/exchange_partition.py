"""Exchanges partitions: moves them from a table to another of the same schema.

1. Plan from metadata alone: the source holds the partitions, and the target does not.
2. Copy their files into the target, and commit them there.
3. Drop the partitions in the source.

Each table changes in one commit. Between the two, readers see the rows in both tables, and never in
none. After a crash there, or if another commit changes the source there, another call finds the
copies by their names, copies what is new, and goes on.

Each call names its copies anew, so a partition that goes to and fro adds no file that a manifest of
the same state removes. Files are copied, and not named by `_EXTERNAL_PATH`: an expiry or a drop of
the source would delete files that the target reads, and readers before Paimon 1.0 know no external
paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from lakewright.storage.errors import (
    CommitOutcomeUnknownError,
    InvalidRequestError,
    PartitionExists,
    SchemaMoved,
    StalePlan,
    TableNotFound,
    UnsupportedError,
)
from lakewright.storage.files.metadata_stores import SchemaStore
from lakewright.storage.files.paths import DATABASE_SUFFIX, TablePaths
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.replace_partitions import HeldNames, commit_partitions
from lakewright.storage.operations.partitions.copy_partition import CopyRun
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
from lakewright.storage.operations.partitions.select_partitions import (
    Specs,
    check_all_found,
    selected_entries,
    selection,
)
from lakewright.storage.operations.references.sweep import sweep_after_failure
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.operations.state.latest import read_latest
from lakewright.storage.spec.arguments import text_argument
from lakewright.storage.spec.file_names import (
    exchanged_name,
    is_copy,
    is_place_below,
    origin_of,
)
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
    other = _other_table(files, source)
    _check_alike(files, other)
    if isinstance(partitions, (str, Mapping)) or not partitions or not all(partitions):
        raise InvalidRequestError(
            f"say which partitions of {source} to move to {files.name}, as a list of dicts",
            table=files.name,
        )
    asked = selection(other, partitions=partitions)
    snapshot, found = read_latest(other, lambda latest: selected_entries(other, latest, asked))
    check_all_found(other, snapshot, asked, list(found))
    _check_own(other, chain.from_iterable(found.values()))
    here = held_now(files, {each.row for each in found})
    changed = _changed_here(here, chain.from_iterable(found.values()))
    if changed is not None:
        row, has_own = changed
        what = (
            f"that are not of {source}; to keep these, INSERT the rows of {source} beside them and "
            f"drop the partition there; to put those in their place, drop it here first, which "
            "deletes rows that may be nowhere else"
            if has_own
            else f"deleted since they were copied from {source}; to keep it as it is, drop it in "
            f"{source}; to exchange again, drop it here"
        )
        raise PartitionExists(
            f"{files.name} has {files.partitions.of_row(row).named} with rows {what}",
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


def _changed_here(here: HeldNow, there: Iterable[ManifestEntry]) -> tuple[bytes, bool] | None:
    """A partition of the target that holds more than copies of the source's files; None if none is.

    True if it has rows of its own. False if it has deleted copied rows, by an index file that is no
    copy: another copy would bring them back. Indexes of the source may have changed since, and are
    copied again.
    """
    known = {(each.partition, origin_of(each.file.file_name)) for each in there}
    for entry in here.entries:
        if (entry.partition, origin_of(entry.file.file_name)) not in known:
            return entry.partition, True
    for index in here.indexes:
        if not is_copy(index.file.file_name):
            return index.partition, False
    return None


def _origins(names: Iterable[str]) -> frozenset[str]:
    return frozenset(map(origin_of, names))


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
        CommitOutcomeUnknownError: the store failed during a commit; call again.
    """
    started = files.env.now_ms()
    other = _other_table(files, plan.source)
    _check_alike(files, other)
    planned = planned_rows(other, plan.partitions)
    planned_rows(files, plan.partitions)
    there, here = held_now(other, planned), held_now(files, planned)
    check_as_planned(other, planned, there, plan.snapshot_id)
    changed = _changed_here(here, there.entries)
    if changed is not None:
        raise StalePlan(
            f"{files.name} has changes of its own in "
            f"{files.partitions.of_row(changed[0]).named} by now; plan again",
            table=files.name,
        )
    taken, due = here.names(planned), there.names(planned)
    lacking = {row for row in planned if _origins(taken[row]) != _origins(due[row])}
    snapshot = _copy(files, other, there, {row: taken[row] for row in lacking})
    source_snapshot = _drop(files, other, there, due)
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


def _copy(files: TableFiles, other: TableFiles, there: HeldNow, held: HeldNames) -> Snapshot | None:
    """Copy partitions and commit them here, in place of older copies."""
    if not held:
        return None
    entries = [each for each in there.entries if each.partition in held]
    _check_own(other, entries)
    indexes = [each for each in there.indexes if each.partition in held]
    schema_ids = _schema_ids(files, other, {each.file.schema_id for each in entries})
    run_id = files.env.new_id()
    run = CopyRun(other, files, partial(exchanged_name, run_id), schema_ids)
    base = files.snapshots.latest()
    try:
        messages = run.copied_messages(entries, indexes)
        snapshot, _ = commit_partitions(files, held, messages, user=run_id, base=base)
    except CommitOutcomeUnknownError:
        raise
    except BaseException as error:
        base_id = None if base is None else base.id
        sweep_after_failure(files, [run_id], since_snapshot_id=base_id)
        check_not_overtaken(other, there.snapshot, error)
        raise
    return snapshot


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


def _drop(files: TableFiles, other: TableFiles, there: HeldNow, due: HeldNames) -> Snapshot | None:
    """Drop the partitions in the source.

    The copies stay in any case: another call may have dropped the partitions in the source since it
    saw the copies, and then these are all there is. A schema that moved hides whether it has: the
    caller has to look.
    """
    try:
        snapshot, _ = commit_partitions(other, due, user=files.env.new_id(), base=there.snapshot)
    except (StalePlan, SchemaMoved) as error:
        way = (
            "exchange again, which copies what is new"
            if isinstance(error, StalePlan)
            else f"look for the rows in {other.name} before you drop any; if it has them all, drop "
            f"the partition in {files.name}, and exchange again when both have the same keys; if "
            f"it has none, another call has moved them, and the copies are the only rows: keep them"
        )
        raise type(error)(
            f"{error}; {files.name} has copies by now of what {other.name} held: as long as both "
            f"have the partition, its rows are in both; {way}",
            table=files.name,
        ) from error
    return snapshot
