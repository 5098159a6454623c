"""Tables of a warehouse that are kept without a declaration, as a state file remembers them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

from lakewright.platform.decide.kept_tables import names_of_tables
from lakewright.storage import Catalog, Snapshot, Table
from lakewright.storage.errors import CorruptionError, StorageError
from lakewright.storage.spec.merge_spec import MergeEngine
from lakewright.storage.spec.snapshot import CommitKind

_FORMAT = 1
# So many commits are read to find who writes a table.
_MOST_COMMITS = 5
_SAME_ROWS = (CommitKind.COMPACT, CommitKind.ANALYZE)
# Users of other commits that a policy asks for, by jobs and on the command line.
_OF_UPKEEP = re.compile(
    r"(?:dagster-[0-9a-f-]{36}-|lakewright )(?:rescale|expire[-_]partitions|upkeep)(?:__|[ -])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedTable:
    """What its schema and latest snapshot say of a table; a name alone if they were not read.

    `columns` are names, types and comments. `owner` is as the table's options name it, such as the
    user of the Spark session that made it. `writer` is the commit user of the last commit that was
    not upkeep, at `written_ms`. `problem` says why the table could not be read.
    """

    table: str
    location: str = ""
    comment: str = ""
    owner: str = ""
    columns: tuple[tuple[str, str, str | None], ...] = ()
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    merge_engine: str = ""
    created_ms: int | None = None
    writer: str = ""
    written_ms: int | None = None
    rows: int | None = None
    problem: str | None = None


def read_adopted(
    catalog: Catalog, patterns: Sequence[str], *, most_seconds: float | None = None
) -> tuple[AdoptedTable, ...]:
    """The tables whose names match one of the patterns, by name.

    After `most_seconds`, tables are given by their names alone; zero reads none.

    Raises:
        StorageError: the warehouse itself cannot be listed.
    """
    env = catalog.env
    ends_ms = None if most_seconds is None else env.now_ms() + int(most_seconds * 1000)
    return tuple(
        AdoptedTable(table=name)
        if ends_ms is not None and env.now_ms() >= ends_ms
        else _read(catalog, name)
        for name in names_of_tables(catalog, patterns)
    )


def write_adopted(tables: Sequence[AdoptedTable]) -> str:
    """Tables as the text of a state file."""
    return json.dumps({"format": _FORMAT, "tables": [asdict(table) for table in tables]})


def parse_adopted(text: str, *, name: str = "the state file") -> tuple[AdoptedTable, ...]:
    """The tables of a state file; a file of another version has none, until it is refreshed.

    Raises:
        CorruptionError: the file is another one.
    """
    try:
        return _parsed(json.loads(text))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptionError(
            f"{name} does not hold the adopted tables: {error!r}; write it again, with `dg utils "
            "refresh-defs-state` in the folder of the project",
            path=name,
        ) from error


def _parsed(state: dict[str, Any]) -> tuple[AdoptedTable, ...]:
    if state["format"] != _FORMAT:
        return ()
    return tuple(
        AdoptedTable(
            **{
                **each,
                "columns": tuple(tuple(column) for column in each["columns"]),
                "partition_keys": tuple(each["partition_keys"]),
                "primary_keys": tuple(each["primary_keys"]),
            }
        )
        for each in state["tables"]
    )


def _read(catalog: Catalog, name: str) -> AdoptedTable:
    known = AdoptedTable(table=name)
    try:
        table = catalog.table(name)
        schema = table.schema
        known = replace(
            known,
            location=table.location,
            comment=schema.comment or schema.options.get("comment", ""),
            owner=schema.options.get("owner", ""),
            columns=tuple(
                (field.name, str(field.type), field.description) for field in schema.fields
            ),
            partition_keys=schema.partition_keys,
            primary_keys=schema.primary_keys,
            merge_engine=schema.options.get("merge-engine", MergeEngine.DEDUPLICATE.value)
            if schema.primary_keys
            else "",
            created_ms=table.history.created_ms(),
        )
        latest = table.history.latest_snapshot()
        written = None if latest is None else _last_write(table, latest)
    except StorageError as error:
        return replace(known, problem=str(error))
    if latest is None:
        return replace(known, rows=0)
    if written is not None:
        known = replace(known, writer=written.commit_user, written_ms=written.time_millis)
    # Other tables hold rows in their files that readers do not see.
    counts = not (
        schema.is_keyed or latest.index_manifest is not None or table.options.data_evolution_enabled
    )
    return replace(known, rows=latest.total_record_count if counts else None)


def is_upkeep(commit: Snapshot) -> bool:
    """Whether a commit is the work of upkeep, which writes no new rows."""
    return commit.commit_kind in _SAME_ROWS or bool(_OF_UPKEEP.match(commit.commit_user))


def _last_write(table: Table, latest: Snapshot) -> Snapshot | None:
    """The last commit of rows, if it is one of the last few commits."""
    commits = table.table_files.snapshots.back_from(latest)
    return next(
        (commit for commit in islice(commits, _MOST_COMMITS) if not is_upkeep(commit)), None
    )
