"""Lakewright: upkeep of open lakehouse tables, on Dagster and PySpark.

catalog = lakewright.Catalog.open("./warehouse")
orders = catalog.create_table("shop.orders", rows.schema, partition_keys=["day"])
orders.write(rows)
orders.read("amount > 10")
lakewright.upkeep(catalog, "policy.yaml")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakewright.platform.decide.upkeep import upkeep
    from lakewright.platform.ingest.declare import declare
    from lakewright.platform.ingest.replay_rejects import replay_rejects
    from lakewright.storage import Catalog

__all__ = ["Catalog", "declare", "replay_rejects", "upkeep"]
__version__ = "0.1.0"

# Imported when it is asked for: a command that prints help needs none of it.
_MODULES = {
    "Catalog": "lakewright.storage",
    "declare": "lakewright.platform.ingest.declare",
    "replay_rejects": "lakewright.platform.ingest.replay_rejects",
    "upkeep": "lakewright.platform.decide.upkeep",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'lakewright' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
