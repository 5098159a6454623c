"""Checks of a declaration beyond the shape of each value.

Every check yields the place and the correction, so that one error lists all problems.
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from lakewright.platform.documents.expectation_catalog import COLUMN_ARGUMENTS, EXPECTATION_KINDS
from lakewright.platform.documents.marked_yaml import Place
from lakewright.platform.documents.wrong_places import Finding, did_you_mean
from lakewright.platform.tables.column_lineage import UpstreamColumn
from lakewright.platform.tables.declarations import (
    ColumnDeclaration,
    ExpectationDeclaration,
    TableDeclaration,
    WriteKind,
)
from lakewright.platform.tables.epoch_units import wrong_unit
from lakewright.platform.tables.former_names import wrong_former_names
from lakewright.platform.tables.maintenance_checks import check_maintenance
from lakewright.platform.tables.partition_checks import check_partitions
from lakewright.platform.tables.refresh_checks import check_refresh, check_times
from lakewright.platform.tables.source_declarations import OnBadRow, SourceDeclaration
from lakewright.platform.tables.source_paths import check_path
from lakewright.platform.tables.source_variables import check_source_variables
from lakewright.platform.tables.stream_checks import check_stream
from lakewright.platform.tables.upkeep_policies import EngineChoice
from lakewright.storage.errors import StorageError
from lakewright.storage.file_reader.path_pattern import PathPattern
from lakewright.storage.secret_texts import kept_secret
from lakewright.storage.spec.commit import OnDuplicate
from lakewright.storage.spec.data_types import AtomicType, DataField, DataType, parse_data_type
from lakewright.storage.spec.extra_columns import ExtraColumns
from lakewright.storage.spec.log_options import LOG_SYSTEM, as_kept
from lakewright.storage.spec.missing_columns import MissingColumns
from lakewright.storage.spec.options import read_options
from lakewright.storage.spec.partition_expiry import ExpiryStrategy, PartitionExpiry
from lakewright.storage.spec.partition_time import PartitionTimes
from lakewright.storage.spec.reader_support import READERS
from lakewright.storage.spec.schema import TableSchema, new_schema
from lakewright.storage.spec.supported_options import check_new_options

# Checks of declared tables; expectations have other names.
SCHEMA_MATCHES = "schema_matches"
STORED_ROWS_FIT = "stored_rows_fit_schema"
NEWEST_PARTITION = "newest_partition_has_rows"
LAG = "lag"
ROWS_LEFT_OUT = "no_rows_left_out"
TABLE_CHECKS = frozenset({SCHEMA_MATCHES, STORED_ROWS_FIT, NEWEST_PARTITION, LAG, ROWS_LEFT_OUT})


_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]*"
_TABLE_NAME = re.compile(rf"{_NAME}\.{_NAME}")
_ASSET_KEY = re.compile(r"[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_DAGSTER_NAME = re.compile(r"[A-Za-z0-9_]+")
_SOURCES = ("python", "sql", "parquet", "orc", "avro", "csv", "json", "stream")
_TEXT_SETTINGS = frozenset({"encoding", "date_format", "timestamp_format"})
_CSV_SETTINGS = frozenset(
    {"delimiter", "header", "nulls", "quote", "escape", "decimal", "thousands"}
)

_OF_SCHEMA = frozenset(
    ((), ("table",), ("columns",), ("partition_keys",), ("primary_key",), ("partitions",))
)


def check_declaration(declaration: TableDeclaration) -> Iterator[Finding]:
    """Every problem of one declaration, without regard to other declarations."""
    checks: Sequence[Callable[[TableDeclaration], Iterator[Finding]]] = (
        _check_names,
        _check_tags,
        _check_columns,
        _check_keys,
        _check_contract,
        _check_source,
        check_source_variables,
        _check_write,
        _check_expectations,
        check_maintenance,
        check_refresh,
    )
    findings = [finding for check in checks for finding in check(declaration)]
    yield from findings
    # The following checks read types and keys, so these must be valid first.
    are_valid = not any(place[:1] in _OF_SCHEMA for place, _ in findings)
    if are_valid and declaration.columns:
        of_partitions = (*_check_schema(declaration), *check_partitions(declaration))
        yield from of_partitions
        if not findings and not of_partitions:
            yield from check_times(declaration)


def check_together(
    declarations: Sequence[TableDeclaration], *, named: Collection[str] = ()
) -> Iterator[tuple[int, Finding]]:
    """Problems between declarations, each with the index of the declaration to change.

    `named` are tables that are declared too, in texts that cannot be used.
    """
    names = {each.table: position for position, each in enumerate(declarations)}
    known = {*names, *named}
    for position, declaration in enumerate(declarations):
        for finding in misspelt_tables(declaration, known):
            yield position, finding
        for finding in _check_upstream_columns(declaration, declarations):
            yield position, finding
    upstreams = {each.table: [up for up in each.upstream if up in names] for each in declarations}
    cycle = _cycle(upstreams)
    if cycle:
        yield (
            names[cycle[0]],
            (("depends_on",), f"tables depend on each other in a circle: {' → '.join(cycle)}"),
        )


def misspelt_tables(declaration: TableDeclaration, known: Collection[str]) -> Iterator[Finding]:
    """The tables that a declaration names, and that are known by almost the same name."""
    for place, other in _named_tables(declaration):
        near = difflib.get_close_matches(other, known, n=1, cutoff=0.8)
        if near and other not in known:
            yield place, f"no table {other!r} is declared; did you mean {near[0]!r}?"


def _named_tables(declaration: TableDeclaration) -> Iterator[tuple[Place, str]]:
    """The other tables that a declaration names; they need not be declared."""
    for at, upstream in enumerate(declaration.depends_on):
        if upstream in declaration.upstream_tables:
            yield ("depends_on", at), upstream
    if declaration.stream is not None and declaration.stream.table is not None:
        yield ("source", "stream", "table"), declaration.stream.table
    for at, expectation in enumerate(declaration.expectations):
        if expectation.sql is not None:
            from lakewright.storage.sql import parse_row_query  # noqa: PLC0415 - see _check_query

            # What cannot be parsed has an error of its own.
            with suppress(StorageError):
                for table in parse_row_query(expectation.sql).tables:
                    yield ("expectations", at, "sql"), table


def _check_upstream_columns(
    declaration: TableDeclaration, declarations: Sequence[TableDeclaration]
) -> Iterator[Finding]:
    columns = {each.table: [column.name for column in each.columns] for each in declarations}
    for at, column in enumerate(declaration.columns):
        for index, text in enumerate(column.made_of):
            upstream = UpstreamColumn.parse(text)
            known = columns.get(upstream.table) if upstream is not None else None
            if upstream is not None and known and upstream.column not in known:
                message = f"{upstream.table} has no column {upstream.column!r}"
                near = did_you_mean(upstream.column, known)
                yield ("columns", at, "from", index), f"{message}; {near}"


def _cycle(upstreams: dict[str, list[str]]) -> list[str]:
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for upstream in upstreams[name]:
            cycle = visit(upstream, [*path, name])
            if cycle:
                return cycle
        done.add(name)
        return []

    for name in upstreams:
        cycle = visit(name, [])
        if cycle:
            return cycle
    return []


def is_table_name(text: str) -> bool:
    """Whether a text may be the name of a declared table."""
    return _TABLE_NAME.fullmatch(text) is not None


def _check_names(declaration: TableDeclaration) -> Iterator[Finding]:
    if not is_table_name(declaration.table):
        yield ("table",), f"{declaration.table!r} is not a table name; write database.table"
    if declaration.group is not None and _DAGSTER_NAME.fullmatch(declaration.group) is None:
        yield ("group",), f"{declaration.group!r} may hold letters, digits and _ only"
    for at, upstream in enumerate(declaration.depends_on):
        is_asset = "." not in upstream and _ASSET_KEY.fullmatch(upstream) is not None
        if not is_table_name(upstream) and not is_asset:
            told = (
                "is neither a table, written database.table, nor the key of an asset, written with "
                "/ between its parts"
            )
            yield ("depends_on", at), f"{upstream!r} {told}"
        if upstream == declaration.table:
            yield ("depends_on", at), "a table cannot depend on itself"


def _check_tags(declaration: TableDeclaration) -> Iterator[Finding]:
    for name, text in declaration.tags.items():
        if kept_secret(name, text) is not None:
            message = "the tag holds a secret, and is shown to all who see the table; leave it out"
            yield ("tags", name), message


def _check_columns(declaration: TableDeclaration) -> Iterator[Finding]:
    if not declaration.columns and declaration.is_written_here:
        yield ("columns",), "a table with a source needs columns; add them"
    for at, message in wrong_former_names(declaration.columns):
        yield ("columns", at, "was"), message
    seen: dict[str, int] = {}
    for at, column in enumerate(declaration.columns):
        if column.name in seen:
            yield ("columns", at, "name"), f"column {column.name!r} is declared twice; rename one"
        seen[column.name] = at
        try:
            data_type = parse_data_type(column.type, lengths_required=True)
        except StorageError as err:
            yield ("columns", at, "type"), str(err)
        else:
            yield from _check_values(column, data_type, ("columns", at))
        for index, text in enumerate(column.made_of):
            place: Place = ("columns", at, "from", index)
            upstream = UpstreamColumn.parse(text)
            if upstream is None:
                yield place, f"{text!r} is not a column of a table; write database.table.column"
            elif upstream.table not in declaration.upstream:
                yield place, f"{upstream.table!r} is not in depends_on; add it there"


def _check_values(
    column: ColumnDeclaration, data_type: DataType, place: Place
) -> Iterator[Finding]:
    """Whether the column can be read from numbers of its unit, and can hold its default."""
    why = None if column.unit is None else wrong_unit(column.unit, data_type)
    if why is not None:
        yield (*place, "from"), f"{why}; leave `from` out, or change the type"
    if column.default is None:
        return
    # Few declarations have defaults, and the others need no Arrow for their checks.
    from lakewright.storage.codec.default_values import unfit_default  # noqa: PLC0415

    reason = unfit_default(DataField(-1, column.name, data_type, default_value=column.default))
    if reason is not None:
        yield (*place, "default"), f"{reason}; choose another default, or none"


def _check_keys(declaration: TableDeclaration) -> Iterator[Finding]:
    columns = [column.name for column in declaration.columns]
    for where in ("partition_keys", "primary_key"):
        names = getattr(declaration, where)
        for at, name in enumerate(names):
            if name not in columns and declaration.columns:
                yield (where, at), f"{name!r} is not a column; {did_you_mean(name, columns)}"
            if name in names[:at]:
                yield (where, at), f"{name!r} is given twice"
        if names and not declaration.columns and declaration.is_written_here:
            return
    if not declaration.columns and declaration.partitions is not None:
        yield ("partitions",), "partitions need the columns to be declared; add columns"
    if declaration.partitions is not None and not declaration.partition_keys:
        yield ("partitions",), "the table has no partition_keys to be partitioned by; add them"


def _check_contract(declaration: TableDeclaration) -> Iterator[Finding]:
    columns = [column.name for column in declaration.columns]
    for at, name in enumerate(declaration.schema_policy.columns):
        if columns and name not in columns:
            near = did_you_mean(name, columns)
            yield ("schema", "columns", at), f"{name!r} is not a column; {near}"
    for at, name in enumerate(declaration.schema_policy.readers):
        if name not in READERS:
            near = did_you_mean(name, READERS)
            yield ("schema", "readers", at), f"what {name!r} can read is not known; {near}"


def _check_source(declaration: TableDeclaration) -> Iterator[Finding]:
    source = declaration.source
    yield from _check_growing(declaration)
    if source is None:
        for where in ("depends_on", "expectations"):
            if getattr(declaration, where):
                yield (where,), f"a table without a source has no {where}; add a source"
        return
    if len(source.given) != 1:
        given = ", ".join(source.given) or "none"
        yield ("source",), f"give exactly one of {', '.join(_SOURCES)}; given: {given}"
    for kind, where in source.given.items():
        if not where.strip() and kind != "stream":
            yield ("source", kind), "it is empty; name a file, a folder or a pattern"
        elif kind not in ("python", "sql", "connector", "stream"):
            yield from _check_path(declaration, kind, where)
    yield from _check_bad_rows(declaration, source)
    if source.options and source.connector is None:
        yield ("source", "options"), "options are those of a connector; name it"
    if source.stream is not None:
        yield from check_stream(declaration)
        if len(source.stream.given) == 1:
            yield from _check_settings(source.of_files)
            yield from _check_csv(declaration, source.of_files)
        return
    yield from _check_settings(source)
    yield from _check_csv(declaration, source)
    if source.python is not None and _FUNCTION.fullmatch(source.python) is None:
        yield (
            ("source", "python"),
            f"{source.python!r} is not the path of a function; write module.path:function",
        )


def _check_growing(declaration: TableDeclaration) -> Iterator[Finding]:
    """Where a run cannot add columns of its source."""
    source, place = declaration.source, ("schema", "evolve")
    if not declaration.grows:
        return
    if source is None:
        yield place, "runs add columns of their source, and the table has none; add a source"
    elif source.stream is not None or source.connector is not None:
        kind = "a stream" if source.stream is not None else "a connector"
        yield place, f"{kind} reads the declared columns only; declare new ones, and leave it out"
    elif source.extra_columns is ExtraColumns.IGNORE:
        yield place, "extra_columns: ignore leaves out the columns that it would add; drop one"
    elif source.missing_columns is MissingColumns.REFUSE:
        yield place, "missing_columns: refuse refuses files from before a new column; drop one"


def _check_bad_rows(declaration: TableDeclaration, source: SourceDeclaration) -> Iterator[Finding]:
    place: Place = ("source", "on_bad_row")
    if source.on_bad_row is OnBadRow.FAIL:
        if "max_bad_rows" in source.model_fields_set:
            yield ("source", "max_bad_rows"), "a run leaves out no rows; give on_bad_row"
    elif source.stream is not None:
        yield place, "a stream stops at a bad row; leave on_bad_row out"
    elif declaration.write.engine is EngineChoice.SPARK:
        yield place, "bad rows are left out by this process; leave `write.engine: spark` out"


def _check_path(declaration: TableDeclaration, kind: str, where: str) -> Iterator[Finding]:
    # The value of a variable is known to the run alone.
    if "://" in where and "${" not in where:
        # What opens stores needs libraries that local paths do without.
        from lakewright.storage.files.file_systems import open_file_system  # noqa: PLC0415

        try:
            open_file_system(PathPattern.parse(where).base)
        except StorageError as err:
            # This message repeats no password, and the other checks would repeat the path.
            yield ("source", kind), str(err)
            return
    try:
        columns = declaration.partition_columns
    except (StorageError, KeyError):
        # The types or keys are wrong: they have errors of their own.
        return
    for message in check_path(where, columns):
        yield ("source", kind), message


def _check_settings(source: SourceDeclaration) -> Iterator[Finding]:
    """Settings that describe files of another format than those of the source."""
    is_text = source.file_format in ("csv", "json")
    for name in sorted(source.model_fields_set & (_TEXT_SETTINGS | _CSV_SETTINGS)):
        if name in _TEXT_SETTINGS and not is_text:
            yield ("source", name), f"{name} describes csv and json files only; leave it out"
        elif name in _CSV_SETTINGS and source.csv is None:
            yield ("source", name), f"{name} describes csv files only; leave it out"
    try:
        # Some codecs, such as `hex` and `rot13`, do not decode bytes to text.
        "a".encode(source.encoding)
    except (LookupError, ValueError):
        message = f"{source.encoding!r} is not an encoding; write for example utf-8 or latin-1"
        yield ("source", "encoding"), message
    for name in ("date_format", "timestamp_format"):
        layout = getattr(source, name)
        if layout is not None and not _tells_moments(layout, with_time=name == "timestamp_format"):
            example = "%d.%m.%Y" if name == "date_format" else "%d.%m.%Y %H:%M:%S"
            message = (
                f"{layout!r} is not a strptime layout that gives a date or a timestamp; write "
                "such as "
            )
            yield ("source", name), f"{message}{example}"


def _check_csv(declaration: TableDeclaration, source: SourceDeclaration) -> Iterator[Finding]:
    if source.csv is None:
        return
    for at, column in enumerate(declaration.columns):
        try:
            is_nested = not isinstance(parse_data_type(column.type), AtomicType)
        except StorageError:
            continue
        if is_nested:
            message = f"a csv cannot hold {column.type}; use parquet, json, or a python source"
            yield ("columns", at, "type"), message
    yield from _check_marks(source)


def _check_marks(source: SourceDeclaration) -> Iterator[Finding]:
    """The characters that have a meaning in a CSV; those without a default may be left out."""
    seen: dict[str, str] = {}
    for name in ("delimiter", "quote", "escape"):
        mark = getattr(source, name)
        if not mark and name != "delimiter":
            continue
        if len(mark) != 1 or not mark.isascii() or mark in "\r\n\0":
            message = f"{mark!r} is not one ASCII character other than a line break"
            yield ("source", name), message
        elif mark in seen:
            yield ("source", name), f"{mark!r} is the {seen[mark]} already; give another"
        seen.setdefault(mark, name)
    for name in ("decimal", "thousands"):
        mark = getattr(source, name)
        if mark or name == "decimal":
            if len(mark) != 1 or mark.isalnum() or mark in "+-\r\n":
                message = f"{mark!r} is not one character that no number has otherwise"
                yield ("source", name), message
            elif name == "thousands" and mark == source.decimal:
                message = f"{mark!r} is the decimal point, too; give `decimal`, such as ','"
                yield ("source", name), message


def _tells_moments(layout: str, *, with_time: bool) -> bool:
    """Whether a date, or a date with hour and minute, can be read back from the layout."""
    probe = dt.datetime(2013, 12, 30, 23, 45) if with_time else dt.datetime(2013, 12, 30)
    try:
        # The column type decides whether a zone is required.
        read = dt.datetime.strptime(probe.replace(tzinfo=dt.UTC).strftime(layout), layout)  # noqa: DTZ007
    except ValueError:
        return False
    return read.replace(tzinfo=None) == probe


def _check_write(declaration: TableDeclaration) -> Iterator[Finding]:
    write_only = declaration.options.get("write-only", "").strip().lower() == "true"
    if declaration.write.compact and write_only:
        yield (
            ("write", "compact"),
            "option write-only forbids writers to compact; drop one of the two",
        )
    if declaration.write.on_duplicate is OnDuplicate.REFUSE:
        if declaration.stream is not None:
            message = "a stream may change a key several times in a batch; leave it out"
            yield ("write", "on_duplicate"), message
        elif not declaration.primary_key:
            yield ("write", "on_duplicate"), "the table has no primary_key; leave it out"
    mode = declaration.write.mode
    if mode is WriteKind.UPSERT and not declaration.primary_key:
        yield ("write", "mode"), "upsert needs a primary_key; add one, or write append or overwrite"
    if mode is WriteKind.APPEND and declaration.primary_key:
        yield (
            ("write", "mode"),
            "a table with a primary_key replaces rows of the same key; write upsert",
        )


def _check_expectations(declaration: TableDeclaration) -> Iterator[Finding]:
    names: Counter[str] = Counter()
    for at, expectation in enumerate(declaration.expectations):
        place: Place = ("expectations", at)
        for inner, message in _check_expectation(expectation, declaration):
            yield (*place, *inner), message
        if expectation.sql is not None and expectation.name is None:
            continue
        name = expectation.check_name
        names[name] += 1
        if name in TABLE_CHECKS:
            yield (
                (*place, "name"),
                f"{name!r} is a check of every table; give this one another name",
            )
        if names[name] == 2:
            yield place, f"a second check would be called {name!r}; give this one a name"
        if _DAGSTER_NAME.fullmatch(name) is None:
            message = f"{name!r} cannot name a check; give it a name of letters, digits and _"
            yield (*place, "name"), message


def _check_expectation(
    expectation: ExpectationDeclaration, declaration: TableDeclaration
) -> Iterator[Finding]:
    if (expectation.expect is None) == (expectation.sql is None):
        yield (), "give either expect, an expectation of Great Expectations, or sql, a query"
        return
    if expectation.sql is not None:
        yield from _check_query(expectation, expectation.sql)
        return
    if "show" in expectation.model_fields_set:
        yield ("show",), "show is for the rows that a query returns; leave it out"
    kind = EXPECTATION_KINDS.get(expectation.kind)
    if kind is None:
        near = did_you_mean(expectation.kind, EXPECTATION_KINDS)
        if not near.startswith("did"):
            near = "see the gallery of Great Expectations for their names"
        yield ("expect",), f"there is no expectation {expectation.expect!r}; {near}"
        return
    for argument in expectation.arguments:
        if argument not in kind.arguments:
            known = did_you_mean(argument, kind.arguments)
            yield (argument,), f"{kind.name} has no argument {argument!r}; {known}"
    for argument in kind.required:
        if argument not in expectation.arguments:
            yield (), f"{kind.name} needs the argument {argument!r}"
    mostly = expectation.arguments.get("mostly", 1)
    if isinstance(mostly, bool) or not isinstance(mostly, (int, float)) or not 0 <= mostly <= 1:
        yield ("mostly",), f"mostly is {mostly!r}; it is a share of rows from 0 to 1"
    for argument in COLUMN_ARGUMENTS:
        given = expectation.arguments.get(argument, "")
        names = given if isinstance(given, (list, tuple)) else [given]
        if not all(isinstance(each, str) for each in names):
            yield (argument,), f"{given!r} names no column; write a name, or a list of names"
    columns = [column.name for column in declaration.columns]
    for name in expectation.columns:
        if name not in columns:
            yield (
                (),
                f"{name!r} is not a column of {declaration.table}; {did_you_mean(name, columns)}",
            )


def _check_query(expectation: ExpectationDeclaration, sql: str) -> Iterator[Finding]:
    # Few declarations have queries, and the others do without the parser.
    from lakewright.storage.sql import parse_row_query  # noqa: PLC0415

    try:
        parse_row_query(sql)
    except StorageError as err:
        yield ("sql",), err.message
    if expectation.name is None:
        yield (), "a query needs a name for its asset check; add `name`"
    for argument in expectation.arguments:
        yield (argument,), f"a query has no argument {argument!r}; write it into the query"


def _check_schema(declaration: TableDeclaration) -> Iterator[Finding]:
    plain = declaration.model_copy(update={"distribution": None})
    try:
        new_schema(plain.schema_spec, time_millis=0)
    except StorageError as err:
        yield ("primary_key" if declaration.primary_key else "columns",), str(err)
        return
    try:
        schema = new_schema(declaration.schema_spec, time_millis=0)
    except StorageError as err:
        yield ("distribution",), str(err)
        return
    try:
        if LOG_SYSTEM in schema.options:
            schema = replace(schema, options=as_kept(schema.options))
            # Few tables have a log.
            from lakewright.connectors.log.table_log import TableLog  # noqa: PLC0415

            TableLog.of(declaration.table, schema)
        check_new_options(schema, table=declaration.table)
        # Other clients allow numbers without units; a person who declares `7` means days.
        read_options(schema, table=declaration.table, bare_numbers=False)
    except StorageError as err:
        option = err.details.get("option")
        named = isinstance(option, str) and option in declaration.options
        yield ("options", str(option)) if named else ("options",), str(err)
        return
    yield from _check_partition_times(declaration, schema)


def _check_partition_times(declaration: TableDeclaration, schema: TableSchema) -> Iterator[Finding]:
    """Check that the keys give the time from which partitions are to expire."""
    policy = declaration.maintenance.partitions
    said = [each for each in ("pattern", "formatter", "older_than") if getattr(policy, each)]
    options = PartitionExpiry(schema, declaration.table)
    by_values = (policy.strategy or options.strategy) is ExpiryStrategy.VALUES_TIME
    if not said or not by_values or not schema.partition_keys:
        return
    times = PartitionTimes(
        policy.pattern or options.times.pattern, policy.formatter or options.times.formatter
    )
    try:
        times.check()
    except StorageError:
        # Told of the formatter itself.
        return
    try:
        times.check_gives_times(schema.partition_fields, table=declaration.table)
    except StorageError as err:
        yield ("maintenance", "partitions", said[0]), str(err)
