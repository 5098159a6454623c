"""Names: what a table is called in Dagster."""

from __future__ import annotations

from dataclasses import dataclass

import dagster as dg

# The tag by which runs that write or keep a table are found.
TABLE_TAG = "lakewright/table"
# What the run does: ingest, compact or expire_snapshots.
VERB_TAG = "lakewright/verb"


@dataclass(frozen=True, slots=True)
class TableNames:
    """Every name that one table gives rise to."""

    table: str

    @property
    def asset_key(self) -> dg.AssetKey:
        return dg.AssetKey(self.table.split("."))

    @property
    def identifier(self) -> str:
        """The table in names that may hold letters, digits and _ only; `nyc__flights`."""
        return self.table.replace(".", "__").replace("-", "_")

    @property
    def pool(self) -> str:
        """The pool that lets one step at a time keep the table."""
        return f"lakewright/{self.table.replace('.', '/')}"

    @property
    def writers_pool(self) -> str:
        """The pool of those that write it, who never queue behind what keeps it."""
        return f"{self.pool}/write"

    @property
    def dynamic_partitions(self) -> str:
        return f"lakewright/{self.table}"

    def job(self, verb: str) -> str:
        """The job of a verb, and of the step in it, which run config names."""
        return f"{verb}__{self.identifier}"

    def op(self, verb: str) -> str:
        """The definition behind the step; Dagster wants it to have another name."""
        return f"{verb}_op__{self.identifier}"

    def sensor(self, verb: str) -> str:
        return f"{verb}_sensor__{self.identifier}"

    def schedule(self, verb: str) -> str:
        return f"{verb}_schedule__{self.identifier}"

    def tags(self, verb: str) -> dict[str, str]:
        """Tags of the runs of a verb."""
        return {TABLE_TAG: self.table, VERB_TAG: verb}
