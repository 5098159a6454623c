"""Resource keys: the names under which assets and jobs find the warehouse and Spark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResourceKeys:
    """The keys of the resources; a project with several warehouses gives each its own keys."""

    warehouse: str = "lakewright_warehouse"
    spark: str = "lakewright_spark"

    @classmethod
    def with_prefix(cls, prefix: str) -> ResourceKeys:
        """`<prefix>_warehouse` and `<prefix>_spark`."""
        return cls(warehouse=f"{prefix}_warehouse", spark=f"{prefix}_spark")
