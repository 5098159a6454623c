"""Resources: the warehouse of the tables, and the Spark session."""

import os
from typing import Any

import dagster as dg
from pydantic import Field

from lakewright.platform.documents.variables import DEFAULT_WAREHOUSE, WAREHOUSE_VARIABLE
from lakewright.storage import Catalog


class WarehouseResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The warehouse that holds the tables."""

    uri: str | None = Field(
        default=None,
        description=(
            "Path or URI of the warehouse, or the address of a Hive metastore "
            f"(thrift://host:9083; default: ${WAREHOUSE_VARIABLE}, else {DEFAULT_WAREHOUSE})."
        ),
    )

    catalog_options: dict[str, str] = Field(
        default_factory=dict,
        description=(
            "Where the catalog keeps its names, such as metastore: jdbc and uri (default: "
            "$LAKEWRIGHT_CATALOG_METASTORE, $LAKEWRIGHT_CATALOG_URI, …)."
        ),
    )

    @property
    def location(self) -> str:
        """The path or URI of the warehouse."""
        return self.uri or os.environ.get(WAREHOUSE_VARIABLE) or DEFAULT_WAREHOUSE

    def catalog(self) -> Catalog:
        """The catalog of its tables."""
        return Catalog.open(self.location, options=self.catalog_options or None)


class SparkResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """A Spark session, started at its first use."""

    master: str | None = Field(
        default=None,
        description="Master URL (default: $LAKEWRIGHT_SPARK_MASTER, else this machine).",
    )
    remote: str | None = Field(
        default=None,
        description="Spark Connect address (default: $LAKEWRIGHT_SPARK_REMOTE).",
    )
    conf: dict[str, str] = Field(default_factory=dict, description="Further Spark settings.")

    def session(self) -> Any:
        """The session; every call in one process returns the same one."""
        from lakewright.storage.spark import build_session

        return build_session("lakewright", master=self.master, remote=self.remote, conf=self.conf)
