"""What the earlier tries of a run of statements have done, as the commits of their tables tell.

1. A statement has the same number at each try, and statements run one after the other. So the
   commit of one proves that those before it have ended.
2. INSERT commits with the run as its user, and its number as the identifier. Users of the other
   commits begin with the run and the number. Files of a format table are named by both.
3. A commit may have expired since. Then it is unknown what was done, and nothing is repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from lakewright.storage.catalog import Catalog
from lakewright.storage.errors import InvalidRequestError, NotFoundError
from lakewright.storage.operations.format_tables.format_spec import is_format_table
from lakewright.storage.spec.schema_change import DropColumn, RenameColumn
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.sql.grammar.statements import (
    AddPartitions,
    AlterTable,
    Call,
    CreateDatabase,
    CreateTable,
    Delete,
    Describe,
    DropDatabase,
    DropPartitions,
    DropTable,
    ExchangePartitions,
    Explain,
    Insert,
    MergeInto,
    RenamePartition,
    RepairTable,
    ResetSetting,
    Select,
    SetSetting,
    ShowColumns,
    ShowCreateTable,
    ShowDatabases,
    ShowPartitions,
    ShowTables,
    Statement,
    Truncate,
    Update,
    UseDatabase,
)
from lakewright.storage.table import Table

# Statements that change rows, so that a second time is not like the first.
_ENDED_BY_A_COMMIT = (
    *(Insert, Delete, Update, MergeInto, Truncate),
    *(DropPartitions, RenamePartition, ExchangePartitions),
)
_OF_ROWS = (*_ENDED_BY_A_COMMIT, AddPartitions, RepairTable)


def statement_user(run: str, number: int) -> str:
    """What the users of a statement's commits begin with."""
    return f"{run}.statement{number}"


def changed_tables(statement: Statement) -> tuple[str, ...]:
    """The tables that a statement may commit to, the one of its last commit first."""
    match statement:
        case ExchangePartitions(table=table, source=source):
            return (source, table)
        case (CreateDatabase() | DropDatabase() | Call()) | (
            UseDatabase() | SetSetting() | ResetSetting() | Select() | Explain() | Describe()
        ):
            return ()
        case ShowDatabases() | ShowTables() | ShowPartitions():
            return ()
        case ShowCreateTable() | ShowColumns():
            return ()
        case _:
            return (statement.table,)


@dataclass(slots=True)
class EarlierTries:
    """The commits of the tries of a run before this one.

    `since_ms` is when the first try began, None if that is unknown or this one is the first.
    """

    run: str
    since_ms: int | None
    # The last statement that committed to each table.
    _last: dict[str, int] = field(default_factory=dict)
    # Format tables, whose files appear one after the other: only the write knows its end.
    _of_files: set[str] = field(default_factory=set)

    def look_at(self, catalog: Catalog, tables: Iterable[str]) -> None:
        """Look for commits in tables; those that do not exist have none."""
        for name in tables:
            if name not in self._last:
                try:
                    table = catalog.table(name)
                except (NotFoundError, InvalidRequestError):
                    continue
                self._last[name] = max(self._numbers(catalog, table), default=0)

    def _numbers(self, catalog: Catalog, table: Table) -> Iterable[int]:
        """The statements of this run that have written to a table."""
        if is_format_table(table.schema):
            self._of_files.add(table.name)
            return catalog.format_table(table.name).writes_of(self.run)
        return map(self._number_of, table.table_files.snapshots.newest_first())

    def have_done(self, number: int, statement: Statement, tables: tuple[str, ...]) -> bool:
        """Whether a statement has ended that commits to these tables, the last one first."""
        if not tables and not isinstance(statement, (CreateDatabase, DropDatabase)):
            # A later statement may need what it sets or returns.
            return False
        if number < max(self._last.values(), default=0):
            return True
        if not _has_one_end(statement) or tables[0] in self._of_files:
            return False
        return self._last.get(tables[0]) == number

    def check_known(
        self, catalog: Catalog, number: int, statement: Statement, tables: tuple[str, ...]
    ) -> None:
        """Check that a commit of the statement would have been found.

        Raises:
            InvalidRequestError: it may have expired; or the schema changed since the first try.
        """
        if self.since_ms is None:
            return
        if isinstance(statement, _OF_ROWS):
            for name in tables:
                self._check_history(catalog, number, name)
        elif isinstance(statement, AlterTable):
            self._check_schema(catalog, number, statement, tables[0])
        elif isinstance(statement, DropTable):
            self._check_rows_of_others(catalog, number, tables[0])
        elif isinstance(statement, DropDatabase) and statement.name in catalog.list_databases():
            for table in catalog.list_tables(statement.name) if statement.cascade else ():
                self._check_rows_of_others(catalog, number, f"{statement.name}.{table}")

    def _check_history(self, catalog: Catalog, number: int, name: str) -> None:
        table = catalog.table(name)
        snapshots = table.table_files.snapshots
        oldest = next((snapshots.read(each) for each in snapshots.ids()[:1]), None)
        if is_format_table(table.schema) or oldest is None:
            return
        assert self.since_ms is not None
        if oldest.id > 1 and oldest.time_millis > self.since_ms:
            raise InvalidRequestError(
                f"whether an earlier try of this run has carried out statement {number} on {name} "
                f"is not known: snapshots since then have expired, and the oldest is {oldest.id}; "
                f"it was not repeated. Look at the rows of {name}, and run the statements that are "
                "missing in a new run"
            )

    def _check_schema(
        self, catalog: Catalog, number: int, statement: AlterTable, name: str
    ) -> None:
        schema = catalog.table(name).schema
        # A second time, they may mean other columns of the same names.
        by_name = any(
            isinstance(change, (RenameColumn, DropColumn)) for change in statement.changes
        )
        assert self.since_ms is not None
        if by_name and schema.id > 0 and schema.time_millis > self.since_ms:
            raise InvalidRequestError(
                f"whether an earlier try of this run has carried out statement {number} on {name} "
                f"is not known: schema {schema.id} was made since then; it was not repeated. Look "
                f"at the columns of {name}, and run the statements that are missing in a new run"
            )

    def _check_rows_of_others(self, catalog: Catalog, number: int, name: str) -> None:
        """Check that a table which is dropped is not a later one that others have filled."""
        try:
            files = catalog.table(name).table_files
        except NotFoundError:
            return
        made_ms = files.schemas.read(files.schemas.ids()[0]).time_millis
        assert self.since_ms is not None
        others = (each for each in files.snapshots.newest_first() if not self._number_of(each))
        if made_ms > self.since_ms and any(others):
            raise InvalidRequestError(
                f"whether an earlier try of this run has carried out statement {number} on {name} "
                "is not known: this table was created since then, and others have written to it; "
                f"it was not dropped. Look at {name}, and run the statements that are missing in a "
                "new run"
            )

    def _number_of(self, snapshot: Snapshot) -> int:
        """The statement of this run that made a snapshot; 0 for none."""
        if snapshot.commit_user == self.run:
            return snapshot.commit_identifier
        found = re.match(rf"{re.escape(self.run)}\.statement(\d+)-", snapshot.commit_user)
        return 0 if found is None else int(found[1])


def _has_one_end(statement: Statement) -> bool:
    """Whether the last commit to the first of its tables ends a statement."""
    if isinstance(statement, AddPartitions):
        return len(statement.partitions) == 1
    if isinstance(statement, CreateTable):
        return statement.query is not None
    return isinstance(statement, _ENDED_BY_A_COMMIT)
