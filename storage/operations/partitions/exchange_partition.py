"""Exchanges partitions: moves them from a table to another of the same schema.

1. Plan from metadata alone: the source holds the partitions, and the target does not.
2. Copy their files into the target, and commit them there.
3. Drop the partitions in the source.

Each table changes in one commit, and between the two readers see the rows in both. The name of a
copy tells its origin. So after a crash there another call finds that the target has a copy of each
file of the source, and goes on with the drop. Where the copies and the source differ by then, it
refuses: a person compares the rows.

No commit is atomic over two tables. So each attempt at a commit looks at the other table right
before it writes manifests: the copies are committed only while the source holds what was copied,
and the drop only while the copies stand. Files are copied, and not named by `_EXTERNAL_PATH`: an
expiry or a drop of the source would delete files that the target reads, and readers before Paimon
1.0 know no external paths.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from lakewright.storage.errors import (
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
from lakewright.storage.operations.commit.replace_partitions import (
    HeldNames,
    commit_partitions,
    stale_partitions,
)
from lakewright.storage.operations.partitions.held_partitions import (
    HeldFiles,
    HeldNow,
    check_as_planned,
    check_partitioned,
    held_files,
    held_now,
    planned_rows,
)
from lakewright.storage.operations.partitions.select_partitions import (
    check_all_found,
    selected_entries,
    selection,
)
from lakewright.storage.operations.references.sweep import swept_after_failure
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.operations.running.verb_options import (
    PARTITIONS,
    TEXT,
    Partitions,
    needed,
    option,
)
from lakewright.storage.operations.state.latest import read_latest, stale_if_replaced
from lakewright.storage.operations.state.live_files import index_entries
from lakewright.storage.operations.state.rewrite_schema import check_current_schema
from lakewright.storage.operations.state.row_ids import refuse_row_ids
from lakewright.storage.operations.write.copy_files import CopyRun
from lakewright.storage.spec.arguments import list_argument, mapping_argument, text_argument
from lakewright.storage.spec.file_names import exchanged_name, is_copy, is_place_below, origin_of
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


@dataclass(frozen=True)
class ExchangePartitionOptions:
    """What moves here, and from where."""

    source: str | None = option(
        TEXT, None, "The table that the partitions come from: database.table.", flag="--from"
    )
    partitions: Partitions | None = option(
        PARTITIONS, None, "Partitions to move here, by all or some of their columns."
    )


def plan_exchange_partition(
    files: TableFiles, options: ExchangePartitionOptions
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
    source = needed(
        options.source,
        f"say from which table partitions come to {files.name}: source is not given (--from TABLE "
        "on the command line)",
    )
    which = (
        f"say which partitions of {source} to move to {files.name}: partitions is not given "
        "(--partition K=V,… on the command line)"
    )
    named = needed(options.partitions, which)
    partitions = list_argument(named, "partitions", mapping_argument)
    other = _other_table(files, source)
    _check_alike(files, other)
    if not partitions or not all(partitions):
        raise InvalidRequestError(which)
    asked = selection(other, partitions=partitions)
    snapshot, (found, indexes) = read_latest(
        other, lambda latest: (selected_entries(other, latest, asked), index_entries(other, latest))
    )
    check_all_found(other, snapshot, asked, list(found))
    _check_own(other, chain.from_iterable(found.values()))
    rows = {each.row for each in found}
    here = held_now(files, rows)
    there = HeldNow(
        snapshot,
        tuple(chain.from_iterable(found.values())),
        tuple(index for index in indexes if index.partition in rows),
    )
    differ = _lacking(here, there, here.rows)
    if differ:
        raise PartitionExists(
            f"{files.name} has {files.partitions.of_row(min(differ)).named}, and its rows are not "
            f"those of {other.name}; {_way_out(files, other)}"
        )
    return ExchangePartitionPlan(
        table=files.name,
        source=source,
        snapshot_id=None if snapshot is None else snapshot.id,
        partitions=tuple(held_files(*each) for each in found.items()),
        begun=tuple(each.spec for each in found if each.row in here.rows),
    )


def _other_table(files: TableFiles, name: str) -> TableFiles:
    """A table beside this one, in the same warehouse, with its latest schema."""
    database, dot, table = text_argument(name, "table name").partition(".")
    is_named = dot and "." not in table and all(map(_is_folder, (database, table)))
    if not is_named:
        raise InvalidRequestError(f"{name!r} is not the name of a table, database.table")
    if name == files.name:
        raise InvalidRequestError(f"{name} cannot exchange partitions with itself")
    if files.registry is not None or files.server is not None:
        raise UnsupportedError(
            f"{files.name} cannot exchange partitions with {name}, since their catalog may place "
            "the two anywhere, and an exchange works within one warehouse; INSERT the rows"
        )
    warehouse = files.paths.root.rsplit("/", 2)[0]
    paths = TablePaths(f"{warehouse}/{database}{DATABASE_SUFFIX}/{table}")
    store = SchemaStore(files.fs, paths)
    if not store.ids():
        raise TableNotFound(f"no table {name} in {warehouse}")
    return TableFiles(name, files.fs, paths, store.latest(table=name), files.env, run=files.run)


def _is_folder(name: str) -> bool:
    return bool(name) and "/" not in name and is_place_below(name)


def _check_alike(files: TableFiles, other: TableFiles) -> None:
    """Check that files of one table mean the same rows in the other."""
    for table in (files, other):
        check_partitioned(table)
        refuse_row_ids(table, "an exchange of partitions")
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
                "instead"
            )


def _differing(own: Sequence[object], others: Sequence[object]) -> str:
    """What only one of the tables has; all of both, in order, if they have the same."""
    differ = [f"{each}" for each in (*own, *others) if (each in own) is not (each in others)]
    if differ:
        return "; ".join(differ[:4])
    return " against ".join(", ".join(map(str, each)) for each in (own, others))


def _columns(schema: TableSchema) -> tuple[str, ...]:
    return tuple(f"{field.name} {field.type}, id {field.id}" for field in schema.fields)


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
            the target has copies.
        SchemaMoved: the schema of one of them changed since it was opened. Nothing is moved; or, if
            the message says so, the target has copies.
        CommitOutcomeUnknownError: the store failed during a commit; call again.
    """
    started = files.env.now_ms()
    other = _other_table(files, plan.source)
    _check_alike(files, other)
    planned = planned_rows(other, plan.partitions)
    planned_rows(files, plan.partitions)
    there, here = held_now(other, planned), held_now(files, planned)
    check_as_planned(other, planned, there, plan.snapshot_id)
    differ = _lacking(here, there, here.rows)
    if differ:
        raise StalePlan(
            f"{files.name} has changes of its own in "
            f"{files.partitions.of_row(min(differ)).named} by now; plan again"
        )
    rest = planned.keys() - here.rows
    snapshot = _copy(files, other, here.names(rest), there) if rest else None
    source_snapshot = _drop(files, other, there, planned.keys())
    return ExchangePartitionResult(
        snapshot=snapshot,
        source_snapshot=source_snapshot,
        partitions=plan.partitions,
        bytes_copied=sum(
            each.bytes for row, each in zip(planned, plan.partitions, strict=True) if row in rest
        ),
        duration_ms=files.env.now_ms() - started,
    )


def _lacking(here: HeldNow, there: HeldNow, rows: Collection[bytes]) -> frozenset[bytes]:
    """The partitions whose copies here are not those of the files that the source has.

    Others may have written to the copies' partition: their files are no copies.
    """
    taken, due = here.names(rows), there.names(rows)
    return frozenset(
        row
        for row in rows
        if sorted(map(origin_of, filter(is_copy, taken[row]))) != sorted(map(origin_of, due[row]))
    )


def _copy(files: TableFiles, other: TableFiles, held: HeldNames, there: HeldNow) -> Snapshot | None:
    """Copy partitions and commit them here, where `held` may name indexes of former files."""
    entries = [entry for entry in there.entries if entry.partition in held]
    _check_own(other, entries)
    indexes = [index for index in there.indexes if index.partition in held]
    schema_ids = _schema_ids(files, other, {entry.file.schema_id for entry in entries})
    run_id = files.env.new_id()
    run = CopyRun(other, files, partial(exchanged_name, run_id), schema_ids)
    base = files.snapshots.latest()
    with (
        stale_if_replaced(other, lambda: there.snapshot, "an exchange"),
        swept_after_failure(files, [run_id], None if base is None else base.id),
    ):
        snapshot, _ = commit_partitions(
            files,
            held,
            run.copied_messages(entries, indexes),
            user=run_id,
            base=base,
            check=partial(_check_held, files, other, there.names(held), there.snapshot),
        )
    return snapshot


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
            f"to {files.name}"
        )


def _check_own(other: TableFiles, entries: Iterable[ManifestEntry]) -> None:
    """Check that the other table's files are its own, so that it may give them away."""
    for entry in entries:
        if other.is_foreign(entry.file):
            raise UnsupportedError(
                f"data file {entry.file.external_path} lies outside of {other.name}, so the "
                "partition cannot be exchanged; take its folder over (lakewright add-partitions), "
                f"or, if {other.name} was moved or copied from there, name its files where they "
                f"lie now (lakewright respec {other.name} --moved-from PLACE)"
            )


def _schema_ids(files: TableFiles, other: TableFiles, ids: set[int]) -> dict[int, int]:
    """The version of this table's schema for each version of the other's.

    Clients look for a file, and find its values, by the keys of the schema that it names. So these
    must be the present ones.
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
                "fully first"
            )
    return {each: known for each, known in found.items() if known is not None}


def _drop(
    files: TableFiles, other: TableFiles, there: HeldNow, rows: Collection[bytes]
) -> Snapshot | None:
    """Drop partitions in the source, while their copies stand here.

    The copies stay in any case: another call may have dropped the partitions in the source since it
    saw the copies, and then these are all there is.
    """
    try:
        snapshot, _ = commit_partitions(
            other,
            there.names(rows),
            user=files.env.new_id(),
            base=there.snapshot,
            check=partial(_check_standing, files, other, there, rows),
        )
    except (StalePlan, SchemaMoved) as error:
        raise type(error)(
            f"{error}; nothing was dropped in {other.name}, of which {files.name} may have copies "
            f"by now; {_way_out(files, other)}"
        ) from error
    return snapshot


def _check_standing(
    files: TableFiles, other: TableFiles, there: HeldNow, rows: Collection[bytes]
) -> None:
    """Check that the target has all copies."""
    check_current_schema(files)
    lost = _lacking(held_now(files, rows), there, rows)
    if lost:
        raise StalePlan(
            f"others removed copied files from {files.partitions.of_row(min(lost)).named} of "
            f"{files.name} before {other.name} dropped it"
        )


def _way_out(files: TableFiles, other: TableFiles) -> str:
    """What neither doubles rows nor loses any where a call cannot go on by itself."""
    here, there = files.name, other.name
    return (
        f"see that no exchange of it runs (lakewright lease list {here}), and compare the rows of "
        f"both tables: if {here} has all rows of {there}, drop the partition in {there}; if "
        f"{there} has all rows of {here}, drop it in {here} and exchange again; otherwise INSERT "
        f"into {here} only the rows that it lacks, and drop the partition in {there}; what you "
        "drop may be nowhere else"
    )
