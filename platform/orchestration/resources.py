"""Resources: the warehouse of the tables, and the Spark session."""

import os
from typing import Any

import dagster as dg
from pydantic import Field

from lakewright.platform.documents.variables import DEFAULT_WAREHOUSE, WAREHOUSE_VARIABLE
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidOption
from lakewright.storage.secret_texts import kept_secret


def check_no_secret_shown(*resources: dg.ConfigurableResource[Any]) -> None:
    """Refuse resources whose config holds a secret, which Dagster would keep and show.

    What `dg.EnvVar` names is resolved in runs alone.

    Raises:
        InvalidOption: names the setting.
    """
    for resource in resources:
        for field in type(resource).model_fields:
            value = getattr(resource, field)
            given = value if isinstance(value, dict) else {field: value}
            for name, text in given.items():
                if not isinstance(text, str) or isinstance(text, dg.EnvVar):
                    continue
                if (part := kept_secret(name, text)) is not None:
                    raise InvalidOption(
                        f"{name} of {type(resource).__name__} holds a secret"
                        f"{f' ({part})' if part else ''}, which Dagster would show; write "
                        "dg.EnvVar, or leave it out, and put it where the client of the store, "
                        "the database or Spark looks for it",
                        option=name,
                    )


class WarehouseResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The warehouse that holds the tables."""

    uri: str | None = Field(
        default=None,
        description=(
            "Path or URI of the warehouse, its name in a REST catalog, or the address of a Hive "
            "metastore, thrift://host:9083 (default: "
            f"${WAREHOUSE_VARIABLE}, else {DEFAULT_WAREHOUSE})."
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
