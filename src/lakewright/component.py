"""The Dagster components: tables declared in YAML beside a project's `defs.yaml`.

type: lakewright.component.LakehouseTables
attributes:
  warehouse: /data/warehouse
  tables: [tables]

Or one table, whose declaration is the component:

type: lakewright.component.Table
attributes:
  table: shop.orders
  columns: [{name: id, type: BIGINT}]

Relative paths are relative to the component's folder.
"""

import asyncio
import functools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Self

import dagster as dg
import yaml
from dagster._core.storage.defs_state.base import set_defs_state_storage
from dagster.components import DefsStateConfig, DefsStateConfigArgs, ResolvedDefsStateConfig
from pydantic import BaseModel, ConfigDict, Field

from lakewright.assets.hooks import ShownTable, TableRun
from lakewright.definitions import build_definitions
from lakewright.platform.decide.adopted import parse_adopted, read_adopted, write_adopted
from lakewright.platform.documents.yaml_files import (
    DeclarationError,
    Problem,
    WrittenText,
    documents_in,
    place_from,
)
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import (
    SparkResource,
    WarehouseResource,
    check_no_secret_shown,
)
from lakewright.platform.policies.json_schema import declaration_schema
from lakewright.project.new import EXAMPLE
from lakewright.storage.env import SystemEnv


@functools.cache
def _warehouse(
    uri: str | None, catalog: frozenset[tuple[str, str]] = frozenset()
) -> WarehouseResource:
    """One resource for one place, which is what lets several components share a key."""
    return WarehouseResource(uri=uri, catalog_options=dict(catalog))


@functools.cache
def _spark(
    master: str | None, remote: str | None, conf: frozenset[tuple[str, str]]
) -> SparkResource:
    return SparkResource(master=master, remote=remote, conf=dict(sorted(conf)))


def _folder(context: dg.ComponentLoadContext) -> Path:
    """The folder of a component."""
    here = Path(context.path)
    return here if here.is_dir() else here.parent


class LakehouseTablesScaffolder(dg.Scaffolder[Any]):
    """Makes a component with an example table and its source, so that it can be run at once."""

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        """Write the component, and the example unless there is a folder of tables."""
        # Not beside the definitions, whose folder Dagster searches for more of them.
        root = request.project_root or request.target_path.parent
        warehouse = Path(os.path.relpath(root / "warehouse", request.target_path)).as_posix()
        attributes = {"warehouse": warehouse, "tables": ["tables"]}
        dg.scaffold_component(request, attributes)
        folder = request.target_path / "tables"
        if request.append or folder.exists():
            return
        folder.mkdir()
        for file in EXAMPLE.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())


@dg.scaffold_with(LakehouseTablesScaffolder)
class LakehouseTables(dg.StateBackedComponent, dg.Model, dg.Resolvable):
    """Paimon tables as assets, with the jobs, sensors and schedules that keep them.

    Adopted tables become assets from a state file, so that loading lists no warehouse. `dg dev`
    writes it at its start, `dg utils refresh-defs-state` at any time, and the job `refresh_assets`
    when the upkeep sensor sees a new table. New tables are kept before they are in it.
    """

    tables: Annotated[
        Sequence[str],
        Field(description="Files and folders of declarations, relative to the component's folder."),
    ] = ("tables",)
    warehouse: Annotated[
        str | None,
        Field(
            description="Path or URI of the warehouse, relative to the component's folder; "
            "without one, LAKEWRIGHT_WAREHOUSE says."
        ),
    ] = None
    catalog: Annotated[
        Mapping[str, str],
        Field(description="Options of the catalog, such as metastore: jdbc and uri."),
    ] = {}
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

    key_prefix: Annotated[
        Sequence[str],
        Field(description="What the keys of all tables begin with, before database and table."),
    ] = ()

    defs_state: ResolvedDefsStateConfig = DefsStateConfigArgs.local_filesystem()

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> Self:
        """The component; one without adopted tables has no state, so it claims no key for one."""
        loaded = super(dg.StateBackedComponent, cls).load(attributes, context)
        if loaded.warehouse is not None:
            place = place_from(_folder(context), loaded.warehouse)
            # Without a scheme it is a path, of which two components may write the same.
            place = place if "://" in place else os.path.normpath(place)
            loaded = loaded.model_copy(update={"warehouse": place})
        # The name of the state has the options of the catalog.
        check_no_secret_shown(_warehouse(loaded.warehouse, frozenset(loaded.catalog.items())))
        if loaded.adopt:
            context.component_tree.mark_component_defs_state_key(
                defs_state_key=loaded.defs_state_config.key, loc=context.component_loc
            )
        return loaded

    @property
    def defs_state_config(self) -> DefsStateConfig:
        """Where the state file of adopted tables lies."""
        listed = "".join(f",{name}={value}" for name, value in sorted(self.catalog.items()))
        key = f"LakehouseTables[{self._resource.location},{','.join(self.adopt)}{listed}]"
        return DefsStateConfig.from_args(self.defs_state, default_key=key)

    @property
    def _resource(self) -> WarehouseResource:
        return _warehouse(self.warehouse, frozenset(self.catalog.items()))

    def write_state_to_path(self, state_path: Path) -> None:
        """List the adopted tables, and read their schemas and latest snapshots."""
        catalog = self._resource.catalog()
        found = read_adopted(catalog, self.adopt) if self.adopt else ()
        state_path.parent.mkdir(parents=True, exist_ok=True)
        # Runs that begin meanwhile read the state of before.
        written = state_path.with_name(f"{state_path.name}.{SystemEnv().new_id()}")
        written.write_text(write_adopted(found), encoding="utf-8")
        written.replace(state_path)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The definitions; without adopted tables there is no state."""
        if not self.adopt:
            return self.build_defs_from_state(context, None)
        return super().build_defs(context)

    def build_defs_from_state(
        self, context: dg.ComponentLoadContext, state_path: Path | None
    ) -> dg.Definitions:
        """The definitions of the declared tables, and of those in the state.

        Raises:
            DeclarationError: something is wrong with the declarations; all of it is listed.
        """
        folder = _folder(context)
        # Places are shown as they are named here, so `..` is taken out.
        tables = [Path(os.path.normpath(folder / each)) for each in self.tables]
        if "tables" not in self.model_fields_set:
            tables = [each for each in tables if each.exists()]
        return build_definitions(
            tables,
            warehouse=self._resource,
            spark=_spark(self.spark_master, self.spark_remote, frozenset(self.spark_conf.items())),
            resources=ResourceKeys.with_prefix(self.resource_prefix),
            policies=[Path(os.path.normpath(folder / each)) for each in self.policies],
            adopted=self.adopt,
            adopted_tables=()
            if state_path is None
            else parse_adopted(state_path.read_text(encoding="utf-8"), name=str(state_path)),
            group=re.sub(r"\W", "_", folder.name),
            hooks=self,
            refresh=functools.partial(self._refresh, context.project_root) if self.adopt else None,
            others=_declared_in(context),
        )

    def _refresh(self, project_root: Path, instance: dg.DagsterInstance) -> None:
        with set_defs_state_storage(instance.defs_state_storage):
            asyncio.run(self.refresh_state(project_root))

    def get_asset_spec(self, table: ShownTable) -> dg.AssetSpec:
        """The spec of a table's asset; a subclass may return another, also with another key.

        Jobs, checks, sensors and dependencies among the tables of the component follow the key.
        """
        if not self.key_prefix:
            return table.spec
        return table.spec.replace_attributes(key=table.spec.key.with_prefix(self.key_prefix))

    def execute(
        self, context: dg.AssetExecutionContext | dg.OpExecutionContext, run: TableRun
    ) -> Iterator[Any]:
        """The events of one write of rows; a subclass may do something before, after or to each."""
        yield from run.events()


class TableAttributes(BaseModel):
    """The attributes of a table, which are checked as a declaration once templates have values."""

    model_config = ConfigDict(extra="allow")

    @classmethod
    def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
        """The schema of declarations."""
        return declaration_schema()


class TableScaffolder(dg.Scaffolder[Any]):
    """Makes the example table, under the name of the component's folder."""

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        """Write the declaration, and its source beside it."""
        declared = yaml.safe_load((EXAMPLE / "orders.yaml").read_text(encoding="utf-8"))
        name = re.sub(r"\W", "_", request.target_path.name)
        dg.scaffold_component(request, {**declared, "table": f"shop.{name}"})
        source = EXAMPLE / declared["source"]["csv"]
        (request.target_path / source.name).write_bytes(source.read_bytes())


@dg.scaffold_with(TableScaffolder)
class Table(dg.Component):
    """A Paimon table as an asset; the attributes are its declaration.

    The component LakehouseTables of the project keeps it in its warehouse. Without one, the
    warehouse is that of LAKEWRIGHT_WAREHOUSE.
    """

    def __init__(self, written: WrittenText) -> None:
        self.written = written

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """The schema of the attributes."""
        return TableAttributes

    @classmethod
    def load(
        cls,
        attributes: BaseModel | None,  # noqa: ARG003 - Dagster has made dates of words in them
        context: dg.ComponentLoadContext,
    ) -> Self:
        """The component; its declaration is read as the files of declarations are.

        Raises:
            DeclarationError: the file cannot be read.
        """
        problems: list[Problem] = []
        file = _folder(context) / "defs.yaml"
        documents = documents_in(Path(context.path) if context.path.is_file() else file, problems)
        if problems:
            raise DeclarationError(problems)
        instance = context.component_path.instance_key
        document = documents[instance if isinstance(instance, int) else 0]
        given = document.value["attributes"] if isinstance(document.value, dict) else {}
        value = context.resolution_context.resolve_value(given)
        return cls(replace(document, value=value, place=("attributes",)))

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Nothing if another component has the definitions of this table.

        Raises:
            DeclarationError: something is wrong with a declaration; all of it is listed.
        """
        tree = context.component_tree
        if tree.get_all_components(LakehouseTables) or tree.get_all_components(Table)[0] != self:
            return dg.Definitions()
        return build_definitions([], warehouse=_warehouse(None), others=_declared_in(context))


def _declared_in(context: dg.ComponentLoadContext) -> list[WrittenText]:
    """The tables of a project that are components.

    Raises:
        DagsterInvalidDefinitionError: several components may keep them.
    """
    tree = context.component_tree
    found = [each.written for each in tree.get_all_components(Table)]
    if found and len(tree.get_all_components(LakehouseTables)) > 1:
        raise dg.DagsterInvalidDefinitionError(
            "the project has several components LakehouseTables, so that it is unknown which "
            "warehouse its components Table are in; declare these tables in files of `tables`"
        )
    return found
