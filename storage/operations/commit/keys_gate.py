"""The gate at which a committer asks whether a change of the partition keys is in its way.

A committer waits while another process changes the keys (`respec/`). After ten seconds that process
counts as dead, and the committer ends the change.

* Rows of a primary-key table: with the new keys, or with the old files, as the latest schema says
  (`bridged_base.py`).
* Rows of an append table: its files are restated under the table's keys (`restated_base.py`), and
  so are those of clients that opened the table before its keys changed.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial

from lakewright.storage.errors import UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.bridged_base import ended, put_fence_schema
from lakewright.storage.operations.commit.restated_base import (
    Restatement,
    known_values,
    schemas_with_keys,
)
from lakewright.storage.operations.running.engine import LocalEngine
from lakewright.storage.operations.state.keys_of_files import keys_fit
from lakewright.storage.operations.state.rewrite_schema import check_keys_stay
from lakewright.storage.operations.state.table_state import ANY_KEYS, TableState, latest_state
from lakewright.storage.spec.commit import Change
from lakewright.storage.spec.snapshot import KEYS_CHANGE_PROPERTY, CommitKind, Snapshot

# A process that changes the partition keys needs far less from its first snapshot to its last.
# After this time it counts as dead, and a committer ends the change.
_WITHIN_MS = 10_000
# How long a committer waits before it looks again.
KEYS_POLL_MS = 250

# Builds the change on the latest state; None if there is nothing to change.
BuildChange = Callable[[TableState], Change | None]


class Gate(Enum):
    """What a committer finds: it may commit, wait a moment, or end the change of the keys."""

    OPEN = "open"
    WAIT = "wait"
    END = "end"


def look_at_keys(state: TableState, kind: CommitKind, waited_ms: float) -> Gate:
    """Whether a change of the keys is in the way of a commit on a state.

    Raises:
        SchemaMoved: the keys changed since the table was opened.
    """
    if state.snapshot is None:
        return Gate.OPEN
    files = state.files
    since_ms = files.env.now_ms() - state.snapshot.time_millis
    is_over = max(waited_ms, since_ms) >= _WITHIN_MS
    if not _has_keys(state, kind):
        check_keys_stay(files, files.schemas.latest(table=files.name))
        return Gate.END if is_over else Gate.WAIT
    # Files have the present keys, so nothing is to be ended if the other process died.
    return Gate.WAIT if not is_over and _is_held(files, state.snapshot) else Gate.OPEN


def _has_keys(state: TableState, kind: CommitKind) -> bool:
    """Whether the files that a commit looks at have the table's keys.

    An append to a table without a primary key leaves all files as they are, so it looks at
    manifests alone. With one, its rows would follow late ones, and nothing would tell which came
    later.
    """
    if kind is CommitKind.APPEND and not state.files.schema.has_primary_key:
        return keys_fit(state.files, state.manifests)
    return state.is_settled


def _is_held(files: TableFiles, latest: Snapshot) -> bool:
    """Whether another process is about to change the partition keys, and lets others wait.

    Raises:
        SchemaMoved: the keys changed since the table was opened.
    """
    holder = (latest.properties or {}).get(KEYS_CHANGE_PROPERTY)
    if holder in (None, files.holding):
        return False
    check_keys_stay(files, files.schemas.latest(table=files.name))
    # The snapshot by which a table got its primary key is of the schema before.
    then = files.at_schema(latest.schema_id).schema
    return then.has_primary_key == files.schema.has_primary_key


def waiting_properties(files: TableFiles) -> dict[str, str]:
    """The properties of a snapshot after which others wait, if this process changes the keys."""
    return {} if files.holding is None else {KEYS_CHANGE_PROPERTY: files.holding}


def ending_of_change(files: TableFiles) -> tuple[TableFiles, BuildChange, str]:
    """The commit that brings the latest state to the table's keys: table, change and user.

    Raises:
        UnsupportedError: a file holds several values of a key.
    """
    if files.schema.has_primary_key:
        files = put_fence_schema(files)
        return files, ended, files.env.new_id()
    live = latest_state(files, takes=ANY_KEYS).entries
    schemas = schemas_with_keys(files, {entry.file.schema_id for entry in live})
    lacking = [each for each, alike in schemas.items() if alike is None]
    if lacking:
        raise UnsupportedError(
            f"data files of {files.name} have schema {lacking[0]}, with other partition keys, and "
            "no schema with the present keys has its columns: a client wrote them that opened the "
            "table long ago; run respec with the present keys"
        )
    how = Restatement(
        files=files,
        keys=files.partitions.keys,
        values_of=known_values(files, LocalEngine(env=files.env)),
        schemas={each: alike for each, alike in schemas.items() if alike is not None},
        run_id=files.env.new_id(),
    )
    return files, partial(_restated, how), how.run_id


def _restated(how: Restatement, state: TableState) -> Change | None:
    if state.snapshot is None:
        return None
    return Change(base=how.base(state), statistics=state.snapshot.statistics)
