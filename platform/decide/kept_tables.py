"""The tables that are kept: those declared, or all of a warehouse, each with its policy."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from lakewright.platform.decide.surveys import LEAST_EXPIRED_OF_OWN, OWN_TABLES
from lakewright.platform.documents.yaml_files import Problem
from lakewright.platform.policies.policies import DayBudget, PolicySet
from lakewright.platform.policies.policy_watch import CurrentPolicies, PolicyFiles
from lakewright.platform.tables.declaration_files import WrongDeclaration
from lakewright.platform.tables.declarations import TableDeclaration, rejects_name
from lakewright.platform.tables.upkeep_policies import (
    CompactionPolicy,
    IcebergPolicy,
    ManifestPolicy,
    RespecPolicy,
    SortPolicy,
    UpkeepMode,
    UpkeepPolicy,
    WarehousePolicy,
)
from lakewright.platform.upkeep.words import counted
from lakewright.storage import Catalog
from lakewright.storage.errors import TableNotFound

# What is said beside a mistake in a policy file.
IN_FORCE = "upkeep uses the last valid policies until this is right"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTable:
    """One table: its policy, and its declaration if it has one.

    `declared_keys` are the partition keys that a declaration says, None if none does. `problems`
    are those of the policy files, if the policy is one of before.
    """

    name: str
    policy: UpkeepPolicy
    declaration: TableDeclaration | None = None
    declared_keys: tuple[str, ...] | None = None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTables:
    """Declared tables, and tables of the warehouse whose names match one of the patterns.

    Policy files that change are read again; `problems` are those of the last reading, and until
    they are put right tables are looked at by the policies of before. A table that one of the
    `wrong` declarations is about, or may be about, is not kept until that is put right: it may say
    that more is to stay than the policies do.
    """

    files: PolicyFiles
    declarations: Mapping[str, TableDeclaration] = field(default_factory=dict)
    adopted: tuple[str, ...] = ()
    wrong: tuple[WrongDeclaration, ...] = ()

    @property
    def rejects(self) -> frozenset[str]:
        """The names of the tables that keep the bad rows of declared ones; they may not exist."""
        kept = (
            declaration for declaration in self.declarations.values() if declaration.keeps_rejects
        )
        return frozenset(rejects_name(each.table) for each in kept)

    @property
    def warehouse(self) -> WarehousePolicy:
        """The policy of the warehouse as a whole."""
        return self.files.current().policies.warehouse

    def budgets_of(self, table: str) -> tuple[DayBudget, ...]:
        """The budgets of a day that cover a table."""
        return self.files.current().policies.budgets_of(table)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with policy files that were edited."""
        return self.files.current().problems

    def table(self, name: str, policies: PolicySet | None = None) -> KeptTable:
        """A table by its name, whether it exists or not.

        `policies` are those of now: a caller that asks for many tables looks at the files once.
        """
        current = CurrentPolicies(policies) if policies is not None else self.files.current()
        known = current.policies
        return KeptTable(
            name=name,
            policy=policy_to_keep(name, known.of(name).policy),
            declaration=self.declarations.get(name),
            declared_keys=known.declared_keys.get(name),
            problems=current.problems,
        )

    def withheld_by(self, name: str) -> WrongDeclaration | None:
        """The wrong declaration because of which a table is not kept; None if it is."""
        found = next((each for each in self.wrong if each.table == name), None)
        if found is not None or name in self.declarations or name in OWN_TABLES:
            return found
        # It is not known which table this one is about.
        return next((each for each in self.wrong if each.table is None), None)

    def present(self, catalog: Catalog) -> Iterator[str]:
        """The names of kept tables that exist, sorted."""
        if not self.adopted:
            named = sorted({*self.declarations, *self.rejects})
            yield from (name for name in named if catalog.table_exists(name))
            return
        named_here = {*self.declarations, *self.rejects}
        for name in _names(catalog):
            is_kept = name in named_here or _matches(name, self.adopted)
            if is_kept and self.withheld_by(name) is None:
                yield name


def policy_to_keep(table: str, policy: UpkeepPolicy) -> UpkeepPolicy:
    """The policy by which a table is kept: as written, but for tables of Lakewright itself.

    Each verb on the ledger appends a row to it: a file, a manifest and a snapshot. What a verb
    takes away must be more than that, or its own row makes it due again. So thresholds are never
    below the defaults, and nothing is sorted.
    """
    if table not in OWN_TABLES or policy.freeze:
        return policy
    compaction, manifests, snapshots = policy.compaction, policy.manifests, policy.snapshots
    least = CompactionPolicy()
    bounds = {
        name: max(getattr(compaction, name), getattr(least, name))
        for name in ("small_files", "min_bytes", "at_latest")
    }
    min_count = max(manifests.min_count, ManifestPolicy().min_count)
    if snapshots.max_deletes is not None:
        most = max(snapshots.max_deletes, LEAST_EXPIRED_OF_OWN)
        snapshots = snapshots.model_copy(update={"max_deletes": most})
    return policy.model_copy(
        update={
            # They are written in shadow, too, and would pile up small files.
            "mode": UpkeepMode.LIVE,
            "compaction": compaction.model_copy(update=bounds),
            "manifests": manifests.model_copy(update={"min_count": min_count}),
            "snapshots": snapshots,
            "sort": SortPolicy(),
            # Their partition keys are those by which this platform reads them.
            "respec": RespecPolicy(),
            # Each verb on the ledger, this one too, appends a row to it.
            "iceberg": IcebergPolicy(),
        }
    )


def names_of_tables(catalog: Catalog, patterns: Sequence[str]) -> Iterator[str]:
    """The names of the tables of a warehouse that match one of the patterns, sorted."""
    return (name for name in _names(catalog) if _matches(name, patterns))


def check_patterns(patterns: Sequence[str], tables: Collection[str]) -> None:
    """Check that each pattern matches a table.

    Raises:
        TableNotFound: one matches none of the tables.
    """
    for pattern in patterns:
        if any(_matches(name, (pattern,)) for name in tables):
            continue
        near = difflib.get_close_matches(pattern, sorted(tables), n=1, cutoff=0.6)
        hint = f"did you mean {near[0]!r}?" if near else "`lakewright ls` lists them"
        if "." not in pattern and any(name.startswith(f"{pattern}.") for name in tables):
            hint = f"did you mean '{pattern}.*', all tables of the database?"
        raise TableNotFound(f"{pattern!r} matches none of {counted(len(tables), 'table')}; {hint}")


def _names(catalog: Catalog) -> Iterator[str]:
    for database in sorted(catalog.list_databases()):
        for short in sorted(catalog.list_tables(database)):
            yield f"{database}.{short}"


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
