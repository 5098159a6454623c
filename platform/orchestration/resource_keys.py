"""Resource keys: where assets and jobs look for the warehouse and for Spark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResourceKeys:
    """Keys of the resources; a project with several warehouses gives each its own."""

    warehouse: str = "lakewright_warehouse"
    spark: str = "lakewright_spark"

    @classmethod
    def with_prefix(cls, prefix: str) -> ResourceKeys:
        """`<prefix>_warehouse` and `<prefix>_spark`."""
        return cls(warehouse=f"{prefix}_warehouse", spark=f"{prefix}_spark")
