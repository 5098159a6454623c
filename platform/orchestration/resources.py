"""Resources: where the tables are, and how Spark is reached."""

import os
from typing import Any

import dagster as dg
from pydantic import Field

from lakewright.platform.declare.variables import DEFAULT_WAREHOUSE, WAREHOUSE_VARIABLE
from lakewright.storage import Catalog


class WarehouseResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The warehouse that holds the tables."""

    uri: str | None = Field(
        default=None,
        description=(
            f"Path or URI of the warehouse; without one, what {WAREHOUSE_VARIABLE} says, "
            f"and {DEFAULT_WAREHOUSE} otherwise."
        ),
    )

    @property
    def location(self) -> str:
        """Where the warehouse is."""
        return self.uri or os.environ.get(WAREHOUSE_VARIABLE) or DEFAULT_WAREHOUSE

    def catalog(self) -> Catalog:
        """The tables in it."""
        return Catalog.open(self.location)


class SparkResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """A Spark session, started when it is first asked for."""

    master: str | None = Field(
        default=None,
        description="Master URL; without one, LAKEWRIGHT_SPARK_MASTER, and this machine otherwise.",
    )
    remote: str | None = Field(
        default=None,
        description="Spark Connect address; without one, LAKEWRIGHT_SPARK_REMOTE.",
    )
    conf: dict[str, str] = Field(default_factory=dict, description="Further Spark settings.")

    def session(self) -> Any:
        """The session; every call in one process gives the same."""
        from lakewright.storage.spark import build_session

        return build_session("lakewright", master=self.master, remote=self.remote, conf=self.conf)
