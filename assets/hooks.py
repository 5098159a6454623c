"""Where the subclass of a component has its say: on the spec of each asset, and on each write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import dagster as dg

from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.warehouse.adopted import AdoptedTable


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
    """The spec of the hooks, if everything else can still find the asset and its partitions by it.

    Raises:
        DagsterInvalidDefinitionError: it has another key, or a declared table other partitions.
    """
    spec = hooks.get_asset_spec(table)
    for what, was, now in (
        ("key", table.spec.key, spec.key),
        ("partitions_def", table.spec.partitions_def, spec.partitions_def),
    ):
        if was != now and (what == "key" or table.declaration is not None):
            raise dg.DagsterInvalidDefinitionError(
                f"{type(hooks).__name__}.get_asset_spec changed the {what} of "
                f"{table.spec.key.to_user_string()} from {was} to {now}; jobs, checks and the "
                f"upkeep sensor find the table by it, so return the spec with the {what} that it "
                "came with"
            )
    return spec
