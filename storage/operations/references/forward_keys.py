"""Refuses a fast-forward in which readers would meet rows of one list of keys under another.

A fast-forward replaces schemas and snapshots one file after another, and a reader decodes the
latest snapshot by the latest schema, whichever these are at the moment. So all of them must have
the same partition keys and the same primary key.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lakewright.storage.codec.binary_row import row_arity
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.branch_files import shell_name
from lakewright.storage.operations.state.live_files import snapshot_manifests
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import Snapshot


def check_keys_agree(
    files: TableFiles,
    seen: TableFiles,
    mine: Mapping[int, Snapshot],
    theirs: Mapping[int, Snapshot],
    *,
    lost: Collection[int],
    shared_id: int,
    schemas_shared: int,
) -> None:
    """Check that every state which main shows on its way to a branch has the same keys.

    `mine` and `theirs` are the snapshots of main and of the branch, `seen`; main loses those in
    `lost`. `schemas_shared` is the first schema id in which the two may differ.

    Raises:
        UnsupportedError: keys differ, or change right now; the message names the way out.
    """
    present, its = _latest(files), _latest(seen)
    _check_stands(files, present)
    _check_stands(seen, its)
    # The latest go first: those of schemas that the branch has not, then those beyond its last.
    left = {each for each in mine if each not in lost or mine[each].schema_id < schemas_shared}
    floor = max((each for each in left if each <= max(theirs)), default=0)
    shown = {mine[each].schema_id for each in mine if each >= floor}
    # The id is of a snapshot before the branch, if the two have none in common.
    is_shared = shared_id in theirs
    due = files.schemas.read(theirs[shared_id].schema_id) if is_shared else present
    main_differs = any(
        _keys(each) != _keys(due) for each in (present, *map(files.schemas.read, shown))
    )
    branch_differs = _keys(its) != _keys(due)
    if not main_differs and not branch_differs:
        return
    name, branch = files.name, seen.paths.branch
    ways = []
    if main_differs and is_shared:
        ways.append(
            f"roll main back to snapshot {shared_id}, the last that both have (lakewright rollback "
            f"{name} --snapshot {shared_id})"
        )
    elif main_differs:
        ways.append(
            f"expire the snapshots of main that have other keys than {_told(present)} (lakewright "
            f"expire-snapshots {name})"
        )
    if branch_differs:
        ways.append(f"give the branch the keys {_told(due)} ({_respec(seen, its, due)})")
    raise UnsupportedError(
        f"main of {name} cannot be forwarded to branch {branch}: main has the keys "
        f"{_told(present)}, the branch {_told(its)}"
        f"{f', and the last snapshot of both {_told(due)}' if is_shared else ''}; meanwhile "
        "readers would take values of one key for those of another. "
        f"First {', and '.join(ways)}; forward then, and change the keys afterwards"
    )


def _respec(seen: TableFiles, its: TableSchema, due: TableSchema) -> str:
    """The command that gives a branch the keys of another schema."""
    command = f"lakewright respec {shell_name(seen)} --keys '{','.join(due.partition_keys)}'"
    if its.primary_keys == due.primary_keys:
        return command
    command += f" --primary-key {','.join(due.primary_keys)}"
    if its.partition_keys == due.partition_keys:
        # A column joins or leaves the primary key as a partition key that comes or goes.
        others = sorted(set(its.primary_keys) ^ set(due.primary_keys))
        command += f", by way of partition keys with {', '.join(others)}"
    return command


def _latest(files: TableFiles) -> TableSchema:
    return files.schemas.latest(table=files.name)


def _keys(schema: TableSchema) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return schema.partition_keys, schema.primary_keys


def _told(schema: TableSchema) -> str:
    keys = ", ".join(schema.partition_keys) or "none"
    primary = ", ".join(schema.primary_keys)
    return f"[{keys}; primary key {primary}]" if primary else f"[{keys}]"


def _check_stands(files: TableFiles, schema: TableSchema) -> None:
    """Check that no process is changing the keys: rows have one value for each, before and after.

    Raises:
        UnsupportedError: names the command that ends the change.
    """
    # A commit that died may have left a higher one, above a gap.
    latest = files.snapshots.latest()
    if latest is None:
        return
    metas = snapshot_manifests(files, latest)
    arity = len(schema.partition_keys)
    # A change of a primary-key table is recorded before it makes schemas, and those come first.
    is_staged = schema.has_primary_key and bool(files.staged_changes.numbers())
    if not is_staged and all(row_arity(e.partition_stats.min_values) == arity for e in metas):
        return
    name = shell_name(files)
    raise UnsupportedError(
        f"a change of the partition keys of {name} is in progress, or was stopped; end it with "
        f"its present keys (lakewright respec {name} --keys '{','.join(schema.partition_keys)}'), "
        "and forward main then"
    )
