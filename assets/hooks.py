"""Where the subclass of a component has its say: on the spec of each asset, and on each write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import dagster as dg

from lakewright.platform.decide.adopted import AdoptedTable
from lakewright.platform.orchestration.names import AssetKeys
from lakewright.platform.tables.declarations import TableDeclaration


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTable:
    """A table that becomes an asset, and the spec that Lakewright derives for it.

    A declared table has a `declaration`, a table that others write without one is `adopted`.
    """

    spec: dg.AssetSpec
    declaration: TableDeclaration | None = None
    adopted: AdoptedTable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRun:
    """One write of rows to a declared table.

    `events` does the work while it is iterated: it stages, validates and publishes, and yields the
    materialization and the results of the checks. Each call of it would write again. `partitions`
    are the keys that a part of a backfill writes; otherwise the context names them.
    """

    declaration: TableDeclaration
    events: Callable[[], Iterator[Any]]
    partitions: tuple[str, ...] | None = None


class AssetHooks(Protocol):
    """What makes the spec of each asset, and runs each write; the component is one."""

    def get_asset_spec(self, table: ShownTable) -> dg.AssetSpec:
        """The spec that Dagster gets."""

    def execute(
        self, context: dg.AssetExecutionContext | dg.OpExecutionContext, run: TableRun
    ) -> Iterator[Any]:
        """The events of a write; the context is an op's in a backfill."""


class PlainHooks:
    """Changes nothing."""

    def get_asset_spec(self, table: ShownTable) -> dg.AssetSpec:
        return table.spec

    def execute(
        self, context: dg.AssetExecutionContext | dg.OpExecutionContext, run: TableRun
    ) -> Iterator[Any]:
        yield from run.events()


def spec_by_hooks(hooks: AssetHooks, table: ShownTable) -> dg.AssetSpec:
    """The spec of the hooks, if runs can still find the partitions of a declared table by it.

    Raises:
        DagsterInvalidDefinitionError: a declared table has other partitions.
    """
    spec = hooks.get_asset_spec(table)
    was, now = table.spec.partitions_def, spec.partitions_def
    if was != now and table.declaration is not None:
        raise dg.DagsterInvalidDefinitionError(
            f"{type(hooks).__name__}.get_asset_spec changed the partitions_def of "
            f"{table.spec.key.to_user_string()} from {was} to {now}; runs write the table by its "
            "partitions, so return the spec with the partitions_def that it came with"
        )
    return spec


def keys_by_hooks(
    hooks: AssetHooks, specs: Mapping[str, dg.AssetSpec], key_of_new: Callable[[str], dg.AssetKey]
) -> AssetKeys:
    """The keys of tables by their specs; of a table that comes later, `key_of_new` tells.

    Raises:
        DagsterInvalidDefinitionError: two tables have one key.
    """
    tables: dict[dg.AssetKey, str] = {}
    for table, spec in specs.items():
        if (other := tables.setdefault(spec.key, table)) != table:
            raise dg.DagsterInvalidDefinitionError(
                f"{type(hooks).__name__}.get_asset_spec gave {other} and {table} the same key "
                f"{spec.key.to_user_string()}; give each table a key of its own"
            )
    return AssetKeys({table: spec.key for table, spec in specs.items()}, key_of_new)
