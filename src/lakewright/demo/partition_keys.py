"""The demo's change of partition keys: flights by day and airport, and by day again.

1. A run splits the files that hold several airports, and restates all files under both keys.
2. A run restates them under the former key, and writes no data file.

After each run the table is read whole, and its rows are compared with those of before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa

from lakewright.demo.dagster_server import DagsterServer
from lakewright.platform.orchestration.names import UPKEEP, TableNames
from lakewright.platform.orchestration.schema_reports import RESPEC_JOB
from lakewright.storage import Table
from lakewright.storage.errors import CorruptionError

FORMER_KEYS = ("dt",)
FINER_KEYS = ("dt", "origin")


def keys_to_give(table: Table, finer: tuple[str, ...] = FINER_KEYS) -> tuple[tuple[str, ...], ...]:
    """The partition keys that the demo has still to give a table by day, in order."""
    if table.schema.partition_keys == finer:
        return (FORMER_KEYS,)
    known = table.inspect.schemas().column("partition_keys").to_pylist()
    if list(finer) in [json.loads(each) for each in known]:
        return ()
    return (finer, FORMER_KEYS)


def give_keys(server: DagsterServer, name: str, keys: tuple[str, ...]) -> str:
    """Launch the run that gives a table these partition keys; the run's id."""
    config = TableNames(name).run_config(RESPEC_JOB, {"keys": list(keys)})
    return server.launch_job(UPKEEP, config)


def all_rows(table: Table) -> pa.Table:
    """The rows of a table in an order that its files do not decide."""
    rows = table.read()
    return rows.sort_by([(name, "ascending") for name in rows.column_names])


def check_rows(name: str, before: pa.Table, after: pa.Table) -> None:
    """Check that a change of partition keys left the rows.

    Raises:
        CorruptionError: the rows are not those of before.
    """
    if not after.equals(before):
        raise CorruptionError(
            f"the change of partition keys left {after.num_rows:,} rows in {name} that are not "
            f"the {before.num_rows:,} rows of before; roll back to the snapshot before it"
        )


def told(name: str, facts: Mapping[str, int | str], before: pa.Table, after: pa.Table) -> str:
    """What a run did to a table by its own facts, in a line.

    Raises:
        CorruptionError: the rows are not those of before.
    """
    check_rows(name, before, after)
    fact = {label.removeprefix("lakewright/"): value for label, value in facts.items()}
    return (
        f"{fact['keys_before']} → {fact['keys_after']}: {fact['files_split']:,} files split, "
        f"{fact['files_restated']:,} restated where they lie; partitions "
        f"{fact['partitions_before']:,} → {fact['partitions_after']:,}; all {after.num_rows:,} "
        "rows as before"
    )
