"""The tables that are kept: those declared, or all of a warehouse, each with its policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.declare.policy_watch import PolicyFiles
from lakewright.platform.declare.upkeep_policies import UpkeepMode, UpkeepPolicy, WarehousePolicy
from lakewright.platform.declare.yaml_files import Problem
from lakewright.platform.warehouse.ledger import LEDGER
from lakewright.storage import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTable:
    """One table: its policy, and its declaration if it has one."""

    name: str
    policy: UpkeepPolicy
    declaration: TableDeclaration | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTables:
    """Declared tables, and tables of the warehouse whose names match one of the patterns.

    Policy files that change are read again; `problems` are those of the last reading, and until
    they are put right the policies of before hold.
    """

    files: PolicyFiles
    declarations: Mapping[str, TableDeclaration] = field(default_factory=dict)
    adopted: tuple[str, ...] = ()

    @property
    def warehouse(self) -> WarehousePolicy:
        """The policy of the warehouse as a whole."""
        return self.files.current().policies.warehouse

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with policy files that were edited."""
        return self.files.current().problems

    def table(self, name: str) -> KeptTable:
        """A table by its name, whether it exists or not."""
        policy = self.files.current().policies.of(name).policy
        if name == LEDGER and not policy.freeze:
            # It is written in shadow, too, and would pile up small files.
            policy = policy.model_copy(update={"mode": UpkeepMode.LIVE})
        return KeptTable(name=name, policy=policy, declaration=self.declarations.get(name))

    def present(self, catalog: Catalog) -> Iterator[str]:
        """The names of kept tables that exist, sorted."""
        if not self.adopted:
            yield from (name for name in sorted(self.declarations) if catalog.table_exists(name))
            return
        for name in _names(catalog):
            if name in self.declarations or _matches(name, self.adopted):
                yield name


def names_of_tables(catalog: Catalog, patterns: Sequence[str]) -> Iterator[str]:
    """The names of the tables of a warehouse that match one of the patterns, sorted."""
    return (name for name in _names(catalog) if _matches(name, patterns))


def _names(catalog: Catalog) -> Iterator[str]:
    for database in sorted(catalog.list_databases()):
        for short in sorted(catalog.list_tables(database)):
            yield f"{database}.{short}"


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
