"""What the earlier tries of a run of statements have done, as the commits of their tables tell.

1. A statement has the same number at each try, and statements run one after the other. So the
   commit of one proves that those before it have ended.
2. INSERT commits with the run as its user, and its number as the identifier. Users of the other
   commits begin with the run and the number.
3. A commit may have expired since. Then it is unknown what was done, and nothing is repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from lakewright.storage.catalog import Catalog
from lakewright.storage.errors import InvalidRequestError, NotFoundError
from lakewright.storage.operations.format_tables.format_spec import TABLE_TYPES, TYPE_OPTION
from lakewright.storage.spec.schema_change import RenameColumn
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.sql.grammar.statements import (
    AddPartitions,
    AlterTable,
    CreateDatabase,
    Describe,
    DropPartitions,
    ExchangePartitions,
    Explain,
    Insert,
    RenamePartition,
    RepairTable,
    ResetSetting,
    Select,
    SetSetting,
    ShowCreateTable,
    ShowDatabases,
    ShowPartitions,
    ShowTables,
    Statement,
    UseDatabase,
)

# Statements that change rows, so that a second time is not like the first.
_OF_ROWS = (
    *(Insert, AddPartitions, DropPartitions, RenamePartition, ExchangePartitions, RepairTable),
)


def statement_user(run: str, number: int) -> str:
    """What the users of a statement's commits begin with."""
    return f"{run}.statement{number}"


def changed_tables(statement: Statement) -> tuple[str, ...]:
    """The tables that a statement may commit to, the one of its last commit first."""
    match statement:
        case ExchangePartitions(table=table, source=source):
            return (source, table)
        case CreateDatabase() | (
            UseDatabase() | SetSetting() | ResetSetting() | Select() | Explain() | Describe()
        ):
            return ()
        case ShowDatabases() | ShowTables() | ShowCreateTable() | ShowPartitions():
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

    def look_at(self, catalog: Catalog, tables: Iterable[str]) -> None:
        """Look for commits in tables; those that do not exist have none."""
        for name in tables:
            if name not in self._last:
                try:
                    snapshots = catalog.table(name).table_files.snapshots.newest_first()
                except (NotFoundError, InvalidRequestError):
                    continue
                self._last[name] = max(map(self._number_of, snapshots), default=0)

    def have_done(self, number: int, statement: Statement, tables: tuple[str, ...]) -> bool:
        """Whether a statement has ended that commits to these tables, the last one first."""
        if not tables and not isinstance(statement, CreateDatabase):
            # A later statement may need what it sets or returns.
            return False
        if number < max(self._last.values(), default=0):
            return True
        return _has_one_end(statement) and self._last.get(tables[0]) == number

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

    def _check_history(self, catalog: Catalog, number: int, name: str) -> None:
        table = catalog.table(name)
        snapshots = table.table_files.snapshots
        oldest = next((snapshots.read(each) for each in snapshots.ids()[:1]), None)
        if table.schema.options.get(TYPE_OPTION) in TABLE_TYPES or oldest is None:
            return
        assert self.since_ms is not None
        if oldest.id > 1 and oldest.time_millis > self.since_ms:
            raise InvalidRequestError(
                f"whether an earlier try of this run has carried out statement {number} on {name} "
                f"is not known: snapshots since then have expired, and the oldest is {oldest.id}; "
                f"it was not repeated. Look at the rows of {name}, and run the statements that are "
                "missing in a new run",
                table=name,
            )

    def _check_schema(
        self, catalog: Catalog, number: int, statement: AlterTable, name: str
    ) -> None:
        schema = catalog.table(name).schema
        renames = any(isinstance(each, RenameColumn) for each in statement.changes)
        assert self.since_ms is not None
        if renames and schema.id > 0 and schema.time_millis > self.since_ms:
            raise InvalidRequestError(
                f"whether an earlier try of this run has carried out statement {number} on {name} "
                f"is not known: schema {schema.id} was made since then; it was not repeated. Look "
                f"at the columns of {name}, and run the statements that are missing in a new run",
                table=name,
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
    return isinstance(statement, (Insert, DropPartitions, RenamePartition, ExchangePartitions))
