"""Statements as frozen values: what each one asks for, before any table is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lakewright.storage.spec.schema import Column
from lakewright.storage.spec.schema_change import SchemaChange
from lakewright.storage.spec.table_distribution import TableDistribution
from lakewright.storage.sql.grammar.query import Query

# The columns of a partition clause with their values, in the order of the clause.
Spec = tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """`static` columns have values in the partition clause, `dynamic` ones are only named there."""

    table: str
    overwrite: bool
    static: Spec
    dynamic: tuple[str, ...]
    columns: tuple[str, ...] | None
    by_name: bool
    query: Query


@dataclass(frozen=True, slots=True)
class Select:
    """A query on its own."""

    query: Query


@dataclass(frozen=True, slots=True)
class Explain:
    """What a query would open, without reading a row."""

    query: Query


# --- rows ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """The rows for which a condition of DuckDB's SQL is true; expressions say `alias`."""

    table: str
    alias: str
    where: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """New values, as expressions of DuckDB's SQL, of rows for which a condition is true."""

    table: str
    alias: str
    values: tuple[tuple[str, str], ...]
    where: str | None


@dataclass(frozen=True, slots=True)
class MergeClause:
    """What happens to rows that are `matched`, `not_matched` or `not_matched_by_source`.

    An `update` or `insert` without values takes the columns of the source by their names.
    """

    kind: str
    condition: str | None
    action: str
    values: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeInto:
    """Rows of a query that change those of a table; `on` pairs columns of both."""

    table: str
    alias: str
    source: Query
    source_alias: str
    on: tuple[tuple[str, str], ...]
    and_on: str | None
    clauses: tuple[MergeClause, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """All rows, or those of the partitions that have the values of `spec`."""

    table: str
    spec: Spec


# --- partitions -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShowPartitions:
    """The partitions that have the values of `spec`, all if it is empty."""

    table: str
    spec: Spec


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Each partition with the folder of its files, if the statement says one."""

    table: str
    partitions: tuple[tuple[Spec, str | None], ...]
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class DropPartitions:
    """Each spec names all partitions that have its values; `purge` also deletes plain files."""

    table: str
    specs: tuple[Spec, ...]
    if_exists: bool
    purge: bool


@dataclass(frozen=True, slots=True)
class RenamePartition:
    """Other values for the keys of a partition."""

    table: str
    spec: Spec
    to: Spec


@dataclass(frozen=True, slots=True)
class ExchangePartitions:
    """Partitions that move from `source` to `table`."""

    table: str
    specs: tuple[Spec, ...]
    source: str


@dataclass(frozen=True, slots=True)
class TrackChanges:
    """Whether changes of partitions are tracked: those that have the values of `spec`."""

    table: str
    spec: Spec
    on: bool


@dataclass(frozen=True, slots=True)
class RepairTable:
    """`mode` is add, drop or sync."""

    table: str
    mode: str


# --- looking ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShowDatabases:
    """The databases of the warehouse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowTables:
    """The tables of a database, None for the current one; `extended` shows what they hold."""

    database: str | None
    pattern: str | None
    extended: bool
    spec: Spec


@dataclass(frozen=True, slots=True)
class ShowCreateTable:
    """The statement that makes such a table."""

    table: str


@dataclass(frozen=True, slots=True)
class ShowColumns:
    """The names of the columns of a table."""

    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """`extended` adds what the table or the partition holds; `detail` shows that alone."""

    table: str
    extended: bool = False
    detail: bool = False
    spec: Spec | None = None
    column: str | None = None


# --- tables -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    """A database."""

    name: str
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """A database that goes, with `cascade` with its tables."""

    name: str
    if_exists: bool
    cascade: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """A table; `like` names one whose columns, keys and options it takes, but for parts of it.

    With a `query` it has the columns of that, and its rows. A `temporary` one goes with the
    session.
    """

    table: str
    if_not_exists: bool
    temporary: bool = False
    columns: tuple[Column, ...] = ()
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    comment: str = ""
    distribution: TableDistribution | None = None
    like: str | None = None
    excluding: frozenset[str] = frozenset()
    query: Query | None = None


@dataclass(frozen=True, slots=True)
class DropTable:
    """The table with all that is in it, which can come back for a while without `purge`."""

    table: str
    if_exists: bool
    purge: bool


@dataclass(frozen=True, slots=True)
class UndropTable:
    """A dropped table comes back."""

    table: str


@dataclass(frozen=True, slots=True)
class RenameTable:
    """Another name for a table, which only a metastore gives."""

    table: str
    to: str


@dataclass(frozen=True, slots=True)
class AlterTable:
    """Changes of the schema, made at once.

    `defaults` are the literals of new defaults of columns whose types the statement does not say.
    """

    table: str
    changes: tuple[SchemaChange, ...]
    defaults: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class Compact:
    """Merge small files; `full` rewrites all."""

    table: str
    spec: Spec
    full: bool


@dataclass(frozen=True, slots=True)
class Rescale:
    """Another number of buckets."""

    table: str
    spec: Spec
    buckets: int


@dataclass(frozen=True, slots=True)
class AlterDistribution:
    """Another distribution; a table whose distribution is dropped has the default."""

    table: str
    verb: Literal["ADD", "MODIFY", "DROP"]
    distribution: TableDistribution | None = None


@dataclass(frozen=True, slots=True)
class Respec:
    """Other partition keys."""

    table: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AddPrimaryKey:
    """A primary key for a table without one."""

    table: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A procedure of Paimon, with arguments by position and by name."""

    procedure: str
    values: tuple[object, ...]
    named: tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class Analyze:
    """Statistics of the rows."""

    table: str


# --- the session ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UseDatabase:
    """The database of names without one."""

    name: str


@dataclass(frozen=True, slots=True)
class SetSetting:
    """A setting of the session; without a name, all are shown."""

    name: str | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ResetSetting:
    """A setting, or all, as they were at the start."""

    name: str | None = None


Statement = (
    Insert
    | Delete
    | Update
    | MergeInto
    | Truncate
    | Select
    | Explain
    | ShowPartitions
    | AddPartitions
    | DropPartitions
    | RenamePartition
    | ExchangePartitions
    | TrackChanges
    | RepairTable
    | ShowDatabases
    | ShowTables
    | ShowCreateTable
    | ShowColumns
    | Describe
    | CreateDatabase
    | DropDatabase
    | CreateTable
    | DropTable
    | UndropTable
    | RenameTable
    | AlterTable
    | Compact
    | Rescale
    | AlterDistribution
    | Respec
    | AddPrimaryKey
    | Call
    | Analyze
    | UseDatabase
    | SetSetting
    | ResetSetting
)
