"""The Dagster component: tables declared in YAML beside a project's `defs.yaml`.

type: lakewright.component.LakehouseTables
attributes:
  warehouse: /data/warehouse
  tables: [tables]
"""

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import dagster as dg
from pydantic import Field

from lakewright.definitions import build_definitions
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import SparkResource, WarehouseResource


@functools.cache
def _warehouse(uri: str | None) -> WarehouseResource:
    """One resource for one place, which is what lets several components share a key."""
    return WarehouseResource(uri=uri)


@functools.cache
def _spark(
    master: str | None, remote: str | None, conf: frozenset[tuple[str, str]]
) -> SparkResource:
    return SparkResource(master=master, remote=remote, conf=dict(sorted(conf)))


class LakehouseTables(dg.Component, dg.Model, dg.Resolvable):
    """Paimon tables as assets, with the jobs, sensors and schedules that keep them."""

    tables: Annotated[
        Sequence[str],
        Field(description="Files and folders of declarations, relative to the component's folder."),
    ] = ("tables",)
    warehouse: Annotated[
        str | None,
        Field(description="Path or URI of the warehouse; without one, LAKEWRIGHT_WAREHOUSE says."),
    ] = None
    policies: Annotated[
        Sequence[str],
        Field(description="Policy files and folders, relative to the component's folder."),
    ] = ()
    adopt: Annotated[
        Sequence[str],
        Field(description="Patterns of database.table: tables of the warehouse that are kept too."),
    ] = ()
    spark_master: Annotated[str | None, Field(description="Spark master URL.")] = None
    spark_remote: Annotated[str | None, Field(description="Spark Connect address.")] = None
    spark_conf: Annotated[Mapping[str, str], Field(description="Further Spark settings.")] = {}
    resource_prefix: Annotated[
        str,
        Field(description="What resource keys begin with; a second warehouse needs another one."),
    ] = "lakewright"

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The definitions of the declared tables.

        Raises:
            DeclarationError: something is wrong with the declarations; all of it is listed.
        """
        here = Path(context.path)
        folder = here if here.is_dir() else here.parent
        return build_definitions(
            [folder / each for each in self.tables],
            warehouse=_warehouse(self.warehouse),
            spark=_spark(self.spark_master, self.spark_remote, frozenset(self.spark_conf.items())),
            resources=ResourceKeys.with_prefix(self.resource_prefix),
            policies=[folder / each for each in self.policies],
            adopted=self.adopt,
            group=re.sub(r"\W", "_", folder.name),
        )
