"""Session: statements one after the other, with settings that hold from SET on."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self, assert_never

from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.managed_life import Relays
from lakewright.session import run_external
from lakewright.session.earlier_tries import EarlierTries, changed_tables, statement_user
from lakewright.session.results import StatementResult, done, table_of
from lakewright.session.run_call import call, check_call
from lakewright.session.run_insert import run_insert
from lakewright.session.run_look import (
    columns_of,
    describe,
    show_columns,
    show_create_table,
    show_databases,
    show_tables,
)
from lakewright.session.run_partitions import (
    add_partitions,
    drop_partitions,
    exchange_partitions,
    rename_partition,
    repair_table,
    show_partitions,
    track_changes,
)
from lakewright.session.run_query import check_query, on_duckdb, queried, select
from lakewright.session.run_rows import delete_where, merge_into, truncate, update_where
from lakewright.session.run_tables import (
    add_primary_key,
    alter_distribution,
    alter_table,
    analyze,
    compact,
    create_database,
    create_table,
    create_table_as,
    drop_database,
    drop_table,
    rename_table,
    rescale,
    respec,
    undrop_table,
)
from lakewright.session.settings import DATABASE, SPARK, Settings
from lakewright.storage.catalog import Catalog
from lakewright.storage.errors import (
    CorruptionError,
    DatabaseNotFound,
    InvalidStatement,
    StorageError,
    UnsupportedError,
)
from lakewright.storage.secret_texts import shown_option, shown_options
from lakewright.storage.sql import Parsed, parse_statements
from lakewright.storage.sql.grammar.query import Query
from lakewright.storage.sql.grammar.statements import (
    AddPartitions,
    AddPrimaryKey,
    AlterDistribution,
    AlterTable,
    Analyze,
    Call,
    Compact,
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
    RenameTable,
    RepairTable,
    Rescale,
    ResetSetting,
    Respec,
    Select,
    SetSetting,
    ShowColumns,
    ShowCreateTable,
    ShowDatabases,
    ShowPartitions,
    ShowTables,
    Statement,
    TrackChanges,
    Truncate,
    UndropTable,
    Update,
    UseDatabase,
)

if TYPE_CHECKING:
    from lakewright.session.compiled import CompiledPlan


@dataclass(slots=True, weakref_slot=True)
class Session:
    """Runs statements on a warehouse; `settings` change by SET, RESET and USE.

    With `run_name`, which a repeated run has again with the same statements, each is carried out
    once: its commit is found by that name and its number among the statements of the session.
    `tried_since_ms` is when the first try of the run began, None if this one is the first; without
    it, a commit that has expired since is not missed, and made again.
    """

    catalog: Catalog
    settings: Settings = field(default_factory=Settings)
    run_name: str | None = None
    tried_since_ms: int | None = None
    _number: int = field(default=0, init=False, repr=False)
    _tries: EarlierTries | None = field(default=None, init=False, repr=False)
    _temporary: ExitStack = field(default_factory=ExitStack, init=False, repr=False)
    _relays: Relays = field(default_factory=Relays, init=False, repr=False)
    _hidden: Catalog | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self._hidden = self.catalog.session
        if self.run_name is not None:
            self._tries = EarlierTries(self.run_name, self.tried_since_ms)

    def run(self, text: str) -> Iterator[StatementResult]:
        """Run statements, separated by `;`, each when its result is asked for.

        All are parsed before the first runs. Each is a commit of its own: if one fails, those
        before it have been done, and those after it are not.

        Raises:
            InvalidStatement: one cannot be parsed, or does not fit its table.
        """
        parsed = parse_statements(text)
        if not parsed:
            raise InvalidStatement("there is no statement; write one, such as SHOW TABLES")
        for each, settings in self._with_settings(parsed):
            if isinstance(each, (Select, Explain, Insert, CreateTable)) and each.query is not None:
                check_query(each.query, settings)
        return self._each(parsed)

    def compile(self, text: str) -> CompiledPlan:
        """Plan one SELECT or INSERT: what its external tables take over, checked when it runs.

        Raises:
            InvalidStatement: it is another statement, or more than one.
        """
        # Loaded by a plan alone: DuckDB is a large library.
        from lakewright.session.compiled import compiled  # noqa: PLC0415

        parsed = parse_statements(text)
        if len(parsed) != 1:
            raise InvalidStatement(f"{len(parsed)} statements were given; compile one at a time")
        ((statement, text),) = ((each.statement, each.text) for each in parsed)
        return compiled(self._externals, statement, text, self.settings, self._name)

    def run_compiled(self, plan: CompiledPlan) -> Iterator[StatementResult]:
        """Carry out a plan, if it still holds, with its settings.

        Raises:
            StalePlan: a table was changed since.
            UnsupportedError: a connector has an ability no more.
            CorruptionError: the statement is not that of the tables in the plan.
        """
        from lakewright.session.compiled import check_compiled  # noqa: PLC0415

        check_compiled(self._externals, plan)
        self.settings = Settings(dict(plan.settings))
        of_statement = {(table.name, table.role) for table in self.compile(plan.statement).tables}
        if of_statement != {(table.name, table.role) for table in plan.tables}:
            names = ", ".join(sorted(name for name, _ in of_statement)) or "no external table"
            raise CorruptionError(
                f"the plan is not that of its statement, which reads or writes {names}; compile it "
                "again"
            )
        return self.run(plan.statement)

    def sql(self, text: str) -> StatementResult:
        """Run statements, all of them; the result is that of the last."""
        return list(self.run(text))[-1]

    def _each(self, parsed: Sequence[Parsed]) -> Iterator[StatementResult]:
        if self._tries is not None:
            self._tries.look_at(self.catalog, self._tables_of(parsed))
        for each in parsed:
            self._number += 1
            result = self._of_no_table(each) or self._found(each.statement)
            if result is not None:
                yield replace(result, statement=each.text)
                continue
            for answer in self._followed(each.statement) or [self._ran(each.statement)]:
                for table in changed_tables(each.statement):
                    self._relays.after_commit(self.catalog, self._name(table))
                yield replace(answer, statement=each.text)

    def _followed(self, statement: Statement) -> Iterator[StatementResult] | None:
        """The answers of a statement that follows a table without end."""
        if not self.settings.streaming or not isinstance(statement, (Select, Insert)):
            return None
        from lakewright.session import run_stream  # noqa: PLC0415 - DuckDB is a large library

        externals, query = self._externals, statement.query
        in_spark = isinstance(statement, Insert) and self.settings.engine == SPARK
        endless = run_stream.followed_table(externals, query, self._name, in_spark=in_spark)
        if endless is None:
            if isinstance(statement, Insert) and query.rows is None and self.settings.checkpoint:
                raise UnsupportedError(
                    "stream.checkpoint is set, and the query reads no table that can be followed, "
                    "so a second run would write its rows again; RESET 'stream.checkpoint'"
                )
            return None
        if isinstance(statement, Insert) and in_spark:
            from lakewright.session.spark_stream import follow_into_by_spark  # noqa: PLC0415

            return follow_into_by_spark(externals, statement, self.settings, self._name, endless)
        if isinstance(statement, Insert):
            return run_stream.follow_into(externals, statement, self.settings, self._name, endless)
        return run_stream.follow_query(externals, query, self.settings, self._name, endless)

    def _of_no_table(self, asked: Parsed) -> StatementResult | None:
        """The result of `IF EXISTS` where the table is not there."""
        for name in map(self._name, changed_tables(asked.statement)) if asked.if_exists else ():
            if not self._exists(name):
                return done(f"there is no {name}", table=name)
        return None

    def _tables_of(self, parsed: Sequence[Parsed]) -> Iterator[str]:
        """The tables that statements may commit to, as the database will be when they run."""
        for statement, settings in self._with_settings(parsed):
            # A table without a database is refused when the statement runs.
            with suppress(InvalidStatement):
                for table in changed_tables(statement):
                    yield _full_name(settings, table)

    def _with_settings(self, parsed: Sequence[Parsed]) -> Iterator[tuple[Statement, Settings]]:
        """Statements with the settings that they will find."""
        settings = self.settings
        for each in parsed:
            # A setting that is refused is refused when its statement runs.
            with suppress(StorageError):
                match each.statement:
                    case UseDatabase(name=name):
                        settings = settings.with_value(DATABASE, name)
                    case SetSetting(name=str(name), value=str(value)):
                        settings = settings.with_value(name, value)
                    case ResetSetting(name=name):
                        settings = settings.without(name)
            yield each.statement, settings

    def _found(self, statement: Statement) -> StatementResult | None:
        """The result of a statement that an earlier try of the run has carried out."""
        if self._tries is None:
            return None
        tables = changed_tables(statement)
        names = tuple(self._names(*tables).values())
        if self._tries.have_done(self._number, statement, names):
            return done("done by an earlier try", by_earlier_try=True)
        self._tries.check_known(self.catalog, self._number, statement, names)
        return None

    def close(self) -> None:
        """Drop the temporary tables of the session; it goes on without them."""
        self._temporary.close()
        self.catalog = replace(self.catalog, session=self._hidden)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open_temporary(self) -> None:
        """Make a place for temporary tables, at the first of them."""
        if self.catalog.session is not None:
            return
        self.catalog = self._temporary.enter_context(self.catalog.with_temporary_tables())
        weakref.finalize(self, self._temporary.close)

    @property
    def _externals(self) -> ExternalTables:
        return ExternalTables(self.catalog, self.settings.values)

    def _exists(self, name: str) -> bool:
        return self._externals.has(name) or self.catalog.table_exists(name)

    @property
    def _working(self) -> Catalog:
        """The catalog whose tables name the statement in the users of their commits."""
        if self.run_name is None:
            return self.catalog
        return replace(self.catalog, run=statement_user(self.run_name, self._number))

    def _ran(self, statement: Statement) -> StatementResult:
        match statement:
            case Insert():
                commit = None if self.run_name is None else (self.run_name, self._number)
                return run_insert(self._working, statement, self.settings, self._name, commit)
            case Delete() | Update() | MergeInto() | Truncate():
                return self._change_rows(statement)
            case Select(query=query):
                return select(self.catalog, query, self.settings, self._name)
            case Explain(query=query):
                return self._explain(query)
            case UseDatabase() | SetSetting() | ResetSetting():
                return self._set(statement)
            case ShowDatabases() | ShowTables() | ShowCreateTable() | ShowColumns() | Describe():
                return self._look(statement)
            case DropDatabase(name=name):
                run_external.check_no_definitions(self._externals, name, statement)
                dropped = drop_database(self._working, statement)
                run_external.drop_definitions(self._externals, name)
                if self.settings.database == name:
                    self.settings = self.settings.without(DATABASE)
                return dropped
            case CreateDatabase():
                return create_database(self.catalog, statement)
            case CreateTable(query=Query() as query):
                return self._create_as(statement, query)
            case Call():
                table, given = check_call(statement)
                return call(self._working, self._name(table), given)
            case (
                CreateTable()
                | DropTable()
                | UndropTable()
                | RenameTable()
                | AlterTable()
                | Analyze()
            ):
                return self._of_table(statement)
            case Compact() | Rescale() | AlterDistribution() | Respec() | AddPrimaryKey():
                return self._kept(statement)
            case _:
                return self._of_partitions(statement)

    def _change_rows(self, asked: Delete | Update | MergeInto | Truncate) -> StatementResult:
        name = self._name(asked.table)
        if isinstance(asked, Truncate) and not asked.spec and self._externals.has(name):
            return run_external.truncate(self._externals, name)
        run_external.check_managed(self._externals, name, type(asked).__name__.upper())
        table = self._working.table(self._name(asked.table))
        match asked:
            case Delete():
                return delete_where(self.catalog, table, asked, self._name)
            case Update():
                return update_where(self.catalog, table, asked, self._name)
            case MergeInto(source=query):
                rows = select(self.catalog, query, self.settings, self._name).rows
                assert rows is not None
                return merge_into(table, asked, rows)
            case Truncate():
                return truncate(table, asked)
            case _:
                assert_never(asked)

    def _explain(self, query: Query) -> StatementResult:
        from lakewright.session.explain_query import explained  # noqa: PLC0415

        with on_duckdb(self.catalog, query, self.settings, self._name) as running:
            return explained(running)

    def _create_as(self, asked: CreateTable, query: Query) -> StatementResult:
        """A table with the rows of a query; a query that fails leaves none."""
        name = self._name(asked.table)
        if asked.if_not_exists and self._exists(name):
            return done(f"{name} exists already", table=name, created=False)
        if asked.temporary:
            self._open_temporary()
        externals = self._externals
        with queried(self.catalog, query, self.settings, self._name) as (fields, pieces):
            if run_external.is_external(asked, externals, None):
                return run_external.create_as(externals, name, asked, fields, pieces)
            run_external.check_free(externals, name)
            return create_table_as(self._working, name, asked, fields, pieces, self.settings)

    def _of_partitions(
        self,
        asked: ShowPartitions
        | AddPartitions
        | DropPartitions
        | RenamePartition
        | ExchangePartitions
        | TrackChanges
        | RepairTable,
    ) -> StatementResult:
        catalog, name = self._working, self._name(asked.table)
        run_external.check_managed(self._externals, name, "partitions")
        match asked:
            case ShowPartitions():
                return show_partitions(catalog, name, asked)
            case AddPartitions():
                return add_partitions(catalog, name, asked, self.settings)
            case DropPartitions():
                return drop_partitions(catalog, name, asked)
            case RenamePartition():
                return rename_partition(catalog, name, asked)
            case ExchangePartitions():
                return exchange_partitions(catalog, name, self._name(asked.source), asked)
            case TrackChanges():
                return track_changes(catalog, name, asked)
            case RepairTable():
                return repair_table(catalog, name, asked, self.settings)
            case _:
                assert_never(asked)

    def _look(
        self, asked: ShowDatabases | ShowTables | ShowCreateTable | ShowColumns | Describe
    ) -> StatementResult:
        match asked:
            case ShowDatabases():
                return show_databases(self.catalog)
            case ShowTables(extended=False, database=None) if self.settings.database is None:
                return show_tables(self._externals, self.catalog.list_databases(), asked)
            case ShowTables():
                return show_tables(self._externals, [self._database(asked.database)], asked)
            case ShowCreateTable() | ShowColumns() | Describe():
                return self._look_at(asked, self._name(asked.table))
            case _:
                assert_never(asked)

    def _look_at(
        self, asked: ShowCreateTable | ShowColumns | Describe, name: str
    ) -> StatementResult:
        if self._externals.has(name):
            if isinstance(asked, ShowCreateTable):
                return run_external.shown(self._externals, name)
            schema = self._externals.resolved(name).schema
            return show_columns(schema) if isinstance(asked, ShowColumns) else columns_of(schema)
        match asked:
            case ShowCreateTable():
                return show_create_table(name, self._working.table(name).schema)
            case ShowColumns():
                return show_columns(self._working.table(name).schema)
            case Describe():
                return describe(self.catalog, name, asked)

    def _of_table(
        self,
        asked: CreateTable | DropTable | UndropTable | RenameTable | AlterTable | Analyze,
    ) -> StatementResult:
        name, externals = self._name(asked.table), self._externals
        is_external = externals.has(name)
        match asked:
            case CreateTable():
                return self._create(name, asked)
            case DropTable():
                if is_external:
                    return run_external.drop(externals, name)
                return drop_table(self._working, name, asked)
            case UndropTable():
                run_external.check_free(externals, name)
                return undrop_table(self._working, name)
            case RenameTable(to=to):
                if is_external:
                    return run_external.rename(externals, name, self._name(to))
                run_external.check_free(externals, self._name(to))
                return rename_table(self._working, name, self._name(to))
            case AlterTable():
                if is_external:
                    return run_external.alter(externals, name, asked)
                return alter_table(self._working, name, asked)
            case Analyze():
                return analyze(self._working, name)
            case _:
                assert_never(asked)

    def _create(self, name: str, asked: CreateTable) -> StatementResult:
        like = None if asked.like is None else self._name(asked.like)
        if asked.temporary:
            self._open_temporary()
        externals = self._externals
        if run_external.is_external(asked, externals, like):
            return run_external.create(externals, name, asked, like)
        run_external.check_free(externals, name)
        return create_table(self._working, name, asked, like, self.settings)

    def _kept(
        self, asked: Compact | Rescale | AlterDistribution | Respec | AddPrimaryKey
    ) -> StatementResult:
        name = self._name(asked.table)
        run_external.check_managed(self._externals, name, type(asked).__name__.upper())
        match asked:
            case Compact():
                return compact(self._working, name, asked)
            case Rescale():
                return rescale(self._working, name, asked)
            case AlterDistribution():
                return alter_distribution(self._working, name, asked)
            case Respec():
                return respec(self._working, name, asked)
            case AddPrimaryKey():
                return add_primary_key(self._working, name, asked)
            case _:
                assert_never(asked)

    def _set(self, asked: UseDatabase | SetSetting | ResetSetting) -> StatementResult:
        match asked:
            case UseDatabase(name=name):
                if name not in self.catalog.list_databases():
                    have = ", ".join(self.catalog.list_databases()) or "none"
                    raise DatabaseNotFound(f"no database {name}; there are {have}")
                self.settings = self.settings.with_value(DATABASE, name)
                return done(f"database is {name}", database=name)
            case SetSetting(name=str(name), value=str(value)):
                self.settings = self.settings.with_value(name, value)
                shown = shown_option(name, value)
                return done(f"{name} is {shown}", **{name: shown})
            case ResetSetting(name=name):
                self.settings = self.settings.without(name)
                return done(f"{name or 'every setting'} has its default")
            case SetSetting():
                rows = list(shown_options(self.settings.all).items())
                return table_of({"setting": "STRING", "value": "STRING"}, rows)
            case _:
                assert_never(asked)

    # --- names ----------------------------------------------------------------------------------

    def _names(self, *tables: str) -> Mapping[str, str]:
        return {table: self._name(table) for table in tables}

    def _name(self, table: str) -> str:
        return _full_name(self.settings, table)

    def _database(self, said: str | None) -> str:
        database = said or self.settings.database
        if database is None:
            raise InvalidStatement(
                "no database is given; write SHOW TABLES IN db, or USE db before"
            )
        return database


def _full_name(settings: Settings, table: str) -> str:
    """`database.table`, with the database of the settings if the statement says none.

    Raises:
        InvalidStatement: neither says one.
    """
    if "." in table.partition("$")[0]:
        return table
    if settings.database is None:
        raise InvalidStatement(f"{table} is in no database; write db.{table}, or USE db before")
    return f"{settings.database}.{table}"
