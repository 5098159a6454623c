"""What a run changed in the rejects of a table, on the page of their asset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from lakewright.platform.ingest.rejects import Rejects
from lakewright.platform.orchestration.reports import whole_table_metadata
from lakewright.platform.upkeep.words import counted


def rejects_key(key: dg.AssetKey) -> dg.AssetKey:
    """The key of the rejects of a table, under that of its asset."""
    return dg.AssetKey([*key.path, "rejects"])


def rejects_written(rejects: Rejects, key: dg.AssetKey, what: str) -> dg.AssetMaterialization:
    """What a run changed in the rejects, with the number of their rows by state."""
    table, counts = rejects.found(), rejects.counts()
    metadata: dict[str, Any] = {} if table is None else dict(whole_table_metadata(table))
    by_state: Mapping[str, int] = {f"lakewright/rows_{name}": n for name, n in counts.items()}
    metadata |= {**by_state, "dagster/row_count": sum(counts.values())}
    told = ", ".join(f"{n:,} {name}" for name, n in counts.items())
    return dg.AssetMaterialization(
        key,
        description=f"{what}; {counted(sum(counts.values()), 'row')}: {told or 'none'}",
        metadata=metadata,
    )
