"""Tables that are kept without a declaration, as external assets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from lakewright.platform.decide.adopted import AdoptedTable
from lakewright.platform.orchestration.asset_partitions import found_in_data, partitions_def
from lakewright.platform.orchestration.dagster_checks import is_owner
from lakewright.platform.orchestration.names import TableNames, UpkeepNames, usual_key
from lakewright.platform.orchestration.reports import (
    STORAGE_KIND,
    code_reference,
    column_schema,
)
from lakewright.platform.orchestration.upkeep_links import upkeep_links
from lakewright.platform.policies.policies import ResolvedPolicy
from lakewright.platform.tables.partition_keys import PartitionColumn
from lakewright.platform.upkeep.words import time_text
from lakewright.storage.errors import InvalidSchema
from lakewright.storage.spec.data_types import DataType, OpaqueType, parse_data_type


def adopted_spec(
    adopted: AdoptedTable,
    resolved: ResolvedPolicy,
    names: UpkeepNames,
    *,
    location: str | None = None,
) -> dg.AssetSpec:
    """The asset of a table that others write, and that a policy keeps.

    With the code location's name, jobs are links.
    """
    database = adopted.table.partition(".")[0]
    metadata: dict[str, Any] = {
        "dagster/table_name": adopted.table,
        "dagster/storage_kind": STORAGE_KIND,
        "lakewright/small_files_policy": resolved.policy.compaction.small_files,
        **upkeep_links(names, location),
    }
    if resolved.layers:
        # The strongest layer stands in the place of a declaration.
        metadata |= code_reference(resolved.layers[-1].file, resolved.layers[-1].line)
    if adopted.owner:
        metadata["owner"] = adopted.owner
    if adopted.location:
        metadata["dagster/uri"] = adopted.location
    if adopted.columns:
        metadata["dagster/column_schema"] = column_schema(
            ((name, _type(kind), comment) for name, kind, comment in adopted.columns),
            partition_keys=adopted.partition_keys,
            primary_keys=adopted.primary_keys,
        )
    # State files of earlier versions count the rows in files of keyed tables.
    if adopted.rows is not None and not adopted.primary_keys:
        metadata["dagster/row_count"] = adopted.rows
    if adopted.problem is not None:
        metadata["problem"] = adopted.problem
    return dg.AssetSpec(
        key=usual_key(adopted.table),
        description="\n\n".join(_told(adopted, resolved)),
        owners=[adopted.owner] if adopted.owner and is_owner(adopted.owner) else [],
        group_name=re.sub(r"\W", "_", database, flags=re.ASCII),
        kinds={STORAGE_KIND},
        metadata=metadata,
        partitions_def=_partitions(adopted),
    )


def _told(adopted: AdoptedTable, resolved: ResolvedPolicy) -> Iterator[str]:
    """What the table is, in paragraphs: its comment, its keys, its writer, and who keeps it."""
    if adopted.comment:
        yield adopted.comment
    keys = []
    if adopted.primary_keys:
        keys.append(
            f"Primary key {_names(adopted.primary_keys)}, rows of a key are merged by "
            f"`{adopted.merge_engine}`."
        )
    if adopted.partition_keys:
        keys.append(f"Partitioned by {_names(adopted.partition_keys)}.")
    if keys:
        yield " ".join(keys)
    times = []
    if adopted.written_ms is not None:
        times.append(f"Written by `{adopted.writer}`, last at {time_text(adopted.written_ms)}.")
    if adopted.created_ms is not None:
        times.append(f"Created at {time_text(adopted.created_ms)}.")
    if times:
        yield " ".join(times)
    by = f"`{resolved.layers[-1].file}`" if resolved.layers else "the defaults"
    yield f"Kept by {by}, mode {resolved.policy.mode.value}; no declaration names it."


def _names(columns: Sequence[str]) -> str:
    return ", ".join(f"`{column}`" for column in columns)


def _partitions(adopted: AdoptedTable) -> dg.PartitionsDefinition[str] | None:
    """Dynamic partitions, whose keys the upkeep sensor registers; none if no schema was read."""
    types = {name: _type(kind) for name, kind, _ in adopted.columns}
    columns = [
        PartitionColumn(partition_key, types[partition_key])
        for partition_key in adopted.partition_keys
    ]
    scheme = found_in_data(columns)
    return None if scheme is None else partitions_def(scheme, TableNames(adopted.table))


def _type(text: str) -> DataType:
    """A column's type for display; one that is not known is its text, and stops no other table."""
    try:
        return parse_data_type(text)
    except InvalidSchema:
        return OpaqueType(
            text=text.removesuffix(" NOT NULL"), nullable=not text.endswith("NOT NULL")
        )
