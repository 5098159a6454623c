"""The tables that are kept: those declared, or all of a warehouse, each with its policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.declare.upkeep_policies import UpkeepPolicy, WarehousePolicy
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

    `policy_of` gives the policy of a table, from its own `maintenance`, and `warehouse` that of the
    warehouse. Both are asked anew each time, since policy files may change.
    """

    declarations: Mapping[str, TableDeclaration] = field(default_factory=dict)
    adopted: tuple[str, ...] = ()
    policy_of: Callable[[str, UpkeepPolicy | None], UpkeepPolicy] = field(
        default=lambda _, own: own or UpkeepPolicy()
    )
    warehouse: Callable[[], WarehousePolicy] = WarehousePolicy

    def table(self, name: str) -> KeptTable:
        """A table by its name, whether it exists or not."""
        declaration = self.declarations.get(name)
        own = None if declaration is None else declaration.maintenance
        return KeptTable(name=name, policy=self.policy_of(name, own), declaration=declaration)

    def present(self, catalog: Catalog) -> Iterator[str]:
        """The names of kept tables that exist, sorted."""
        if not self.adopted:
            yield from (name for name in sorted(self.declarations) if catalog.table_exists(name))
            return
        for database in sorted(catalog.list_databases()):
            for short in sorted(catalog.list_tables(database)):
                name = f"{database}.{short}"
                if name in self.declarations or self._is_adopted(name):
                    yield name

    def _is_adopted(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.adopted)
