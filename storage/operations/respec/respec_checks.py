"""What rules a change of the partition keys out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lakewright.storage.errors import InvalidRequestError, UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.pending import pending_batches
from lakewright.storage.operations.respec.keyed_checks import check_keyed, with_primary_key
from lakewright.storage.operations.state.keys_of_files import keys_since_ms
from lakewright.storage.operations.state.row_ids import refuse_row_ids
from lakewright.storage.spec.arguments import listed_names
from lakewright.storage.spec.client_rules import check_clients_open
from lakewright.storage.spec.data_types import AtomicType
from lakewright.storage.spec.hive_table import PARTITIONS_ARE_TOLD, hive_table
from lakewright.storage.spec.manifest import FileKind, ManifestEntry
from lakewright.storage.spec.snapshot import CommitKind, Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported


def wanted_keys(
    files: TableFiles,
    keys: Sequence[str] | None,
    *,
    add: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> tuple[str, ...]:
    """The keys that a table is to have: all of them, or its present ones without some, then others.

    Raises:
        InvalidRequestError: both are given, or neither; a key to add is there already, or a key to
            drop is not.
    """
    present, name = files.schema.partition_keys, files.name
    if keys is not None:
        if add or drop:
            raise InvalidRequestError(
                f"say all partition keys that {name} is to have (keys), or what changes (add, "
                "drop), and not both"
            )
        return listed_names(keys, "keys")
    add, drop = listed_names(add, "add"), listed_names(drop, "drop")
    if not add and not drop:
        raise InvalidRequestError(
            f"say which partition keys {name} is to have: keys is not given, nor add or drop "
            "(--keys, --add, --drop on the command line)"
        )
    has = f"{name} has {', '.join(present) or 'no partition keys'}"
    for key in drop:
        if key not in present:
            raise InvalidRequestError(f"{key!r} is no partition key to drop: {has}")
    for key in add:
        if key in present:
            raise InvalidRequestError(f"{key!r} is a partition key already: {has}")
    return (*(each for each in present if each not in drop), *add)


def check_keys(
    files: TableFiles, keys: tuple[str, ...], primary_key: tuple[str, ...] | None = None
) -> None:
    """Check that a table can have the keys.

    Raises:
        InvalidRequestError: a column cannot be a partition key.
        UnsupportedError: the table is of a kind whose keys cannot change.
    """
    schema = files.schema
    if keys != schema.partition_keys:
        files.check_unserved("change its partition keys")
    refuse_row_ids(files, "a change of the partition keys")
    if len(set(keys)) < len(keys):
        raise InvalidRequestError(
            f"the partition keys {', '.join(keys)} repeat a column; name each once"
        )
    for key in keys:
        if key not in schema.field_names:
            raise InvalidRequestError(
                f"{key!r} is not a column of {files.name}; there are "
                f"{', '.join(schema.field_names)}"
            )
        kind = schema.field(key).type
        if not isinstance(kind, AtomicType) or kind.root.is_bytes:
            raise InvalidRequestError(
                f"column {key!r} of {files.name} is {kind}, and clients name no folders alike "
                "after such values; take a column of another type"
            )
        if kind.root.is_floating and key not in schema.partition_keys:
            raise InvalidRequestError(
                f"column {key!r} of {files.name} is {kind}, and clients do not name folders alike "
                "after nan, infinities and -0.0, or know no such keys; add a column of another "
                "type, such as DECIMAL, with its values, and take that"
            )
    if len(keys) == len(schema.field_names):
        raise InvalidRequestError(
            f"every column of {files.name} would be a partition key; leave one out"
        )
    check_clients_open(replace(schema, partition_keys=keys), table=files.name, before=schema)
    # A table whose rows move between partitions can get keys that end that.
    inside = tuple(
        partition_key
        for partition_key in schema.partition_keys
        if partition_key in schema.primary_keys
    )
    judged = replace(schema, partition_keys=inside) if schema.crosses_partitions else schema
    check_supported(judged, Use.COMPACT, table=files.name)
    if files.options.snapshot_ordering:
        raise UnsupportedError(
            f"{files.name} sets sequence.snapshot-ordering, and a change of partition keys would "
            "number its rows anew; the table was not changed",
            option="sequence.snapshot-ordering",
        )
    # Without the option, a primary-key table hashes the primary key without the partition keys.
    hashed = [key for key in files.options.bucket_keys if key in keys]
    hashed = hashed if "bucket-key" in schema.options else []
    if hashed:
        raise InvalidRequestError(
            f"column {hashed[0]!r} of {files.name} is in its bucket-key, and a bucket cannot be "
            "chosen by a partition key; take another key"
        )
    if schema.has_primary_key:
        check_keyed(files, keys, primary_key)
    elif primary_key is not None:
        with_primary_key(files, keys, primary_key)
    elif schema.is_keyed:
        raise UnsupportedError(
            f"{files.name} stores equal rows once, with a count; a change of its partition keys is "
            "not implemented"
        )
    _check_registry(files, keys)
    if schema.options.get("scan.fallback-branch"):
        raise UnsupportedError(
            f"{files.name} reads partitions that it lacks from branch "
            f"{schema.options['scan.fallback-branch']}, which has the present partition keys; "
            "reset the option scan.fallback-branch first",
            option="scan.fallback-branch",
        )


def _check_registry(files: TableFiles, keys: tuple[str, ...]) -> None:
    """Refuse where a metastore of Hive repeats the keys: it lets no table's keys change."""
    if files.registry is None or keys == files.schema.partition_keys:
        return
    told = hive_table(files.schema).partition_columns
    if told != hive_table(replace(files.schema, partition_keys=keys)).partition_columns:
        raise UnsupportedError(
            f"{files.name} has {PARTITIONS_ARE_TOLD}, so its partition keys are those of a table "
            "in the metastore, which never change there; write the rows to a table without that "
            "option, and give it the name",
            option=PARTITIONS_ARE_TOLD,
        )


def check_columns_stay(
    files: TableFiles, keys: tuple[str, ...], entries: Iterable[ManifestEntry]
) -> None:
    """Refuse to let a key go while files may lack its column, whose values are in folders only."""
    old = files.schema.partition_keys
    if keys[: len(old)] == old or files.schema.has_primary_key:
        # No table with a primary key takes files over.
        return
    lacking = [entry for entry in entries if not files.holds_partition_columns(entry.file)]
    if lacking:
        raise UnsupportedError(
            f"{len(lacking)} data files of {files.name} were taken over (the first is "
            f"{lacking[0].file.file_name}), and may have the values of {', '.join(old)} in the "
            "names of their folders only; rewrite the table first (lakewright sort-compact "
            f"{files.name} --by {_sortable(files)}), which writes the columns"
        )


def _sortable(files: TableFiles) -> str:
    """A column by which any table can be sorted, so that all of its files are rewritten.

    A full compaction leaves a file that is alone in its partition.
    """
    plain = (f for f in files.schema.fields if isinstance(f.type, AtomicType))
    return min(plain, key=lambda field: field.name in files.schema.partition_keys).name


def check_nothing_waits(files: TableFiles) -> None:
    """Refuse while rows or readers wait that know the table by its present keys."""
    waiting = pending_batches(files)
    if waiting:
        raise UnsupportedError(
            f"{files.name} has {len(waiting)} pending batches, staged under its present partition "
            f"keys (the first by {waiting[0].commit_user}); commit or abort them first (lakewright "
            f"pending commit {files.name} {waiting[0].commit_user}, or abort)"
        )
    latest = files.snapshots.latest_id() or 0
    behind = {name: each for name, each in files.references.consumers().items() if each <= latest}
    if behind:
        name, position = min(behind.items())
        raise UnsupportedError(
            f"consumer {name} of {files.name} reads from snapshot {position}, and the latest is "
            f"{latest}; other clients decode the snapshots between them by the new keys, which are "
            "not theirs: let it read to the end, or delete it (lakewright consumer delete "
            f"{files.name} {name}), first{_past_compactions(files, name, position, latest)}"
        )


def _past_compactions(files: TableFiles, name: str, position: int, latest: int) -> str:
    """How a consumer gets past snapshots that have no rows for it, as those of a respec itself."""
    ahead = range(position, latest + 1)
    kept = set(files.snapshots.ids())
    if not all(each in kept and _has_no_rows(files.snapshots.read(each)) for each in ahead):
        return ""
    return (
        "; these snapshots are compactions without rows for it, as a change of the keys makes "
        f"them, so it misses nothing past them (lakewright consumer set {files.name} {name} "
        f"{latest + 1})"
    )


def _has_no_rows(snapshot: Snapshot) -> bool:
    return snapshot.commit_kind is CommitKind.COMPACT and snapshot.changelog_manifest_list is None


def check_overwrites(files: TableFiles) -> None:
    """Refuse to go on from an overwrite that took values of one partition key for another's.

    A client that opened the table before a key was replaced decodes rows of partitions by its own
    keys. So it removed the partitions of other values than those it was told.

    Raises:
        UnsupportedError: names the snapshot, and the way back.
    """
    latest, since_ms = files.snapshots.latest(), keys_since_ms(files)
    for snapshot in () if latest is None else files.snapshots.back_from(latest):
        if snapshot.time_millis < since_ms:
            return
        if snapshot.commit_kind is not CommitKind.OVERWRITE:
            continue
        metas = files.manifests.read_delta_list(snapshot)
        delta = list(files.manifests.entries(metas))
        gone = [each for each in delta if each.kind is FileKind.DELETE]
        # Java tells the latest schema in snapshots and manifests, and its own in data files.
        ids = {snapshot.schema_id, *(meta.schema_id for meta in metas)}
        ids |= {each.file.schema_id for each in delta if each.kind is FileKind.ADD}
        former = _keys_of_others(files, ids)
        own = ", ".join(files.schema.partition_keys)
        if gone and former:
            raise UnsupportedError(
                f"snapshot {snapshot.id} of {files.name} is an overwrite by a client "
                f"({snapshot.commit_user}) that knew its former partition keys "
                f"{', '.join(former[0])}, and took values of {own} for theirs: it "
                f"removed {len(gone)} files of partitions that it did not name. Roll back "
                f"(lakewright rollback {files.name} --snapshot {snapshot.id - 1}), and write what "
                "came since again"
            )


def has_files_of_others(files: TableFiles, entries: Iterable[ManifestEntry]) -> bool:
    """Whether a client wrote files that knew keys with which the table's do not begin."""
    return bool(_keys_of_others(files, {entry.file.schema_id for entry in entries}))


def _keys_of_others(files: TableFiles, schema_ids: Iterable[int]) -> list[tuple[str, ...]]:
    """Keys by which a client decodes other values than its own from rows of the table's keys."""
    own = files.schema.partition_keys
    found = (files.at_schema(schema_id).schema.partition_keys for schema_id in sorted(schema_ids))
    return [keys for keys in found if own[: len(keys)] != keys]
