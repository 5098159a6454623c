"""Whatever files, plans, declarations, filters and arguments hold: an error of ours, or none.

One file of a table is damaged at a time, as bytes or in what it says. Then all that only looks is
asked, and now and then what writes and deletes. With `--hypothesis-profile=deep` this tries twenty
times as many.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakewright.demo
from lakewright.cli import main
from lakewright.cli.grammar.root import ROOT
from lakewright.platform.documents.yaml_files import DeclarationError, Problem
from lakewright.platform.orchestration.dagster_checks import check_for_dagster
from lakewright.platform.policies.policy_files import load_policies
from lakewright.platform.tables.declaration_files import load_declarations
from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidPredicate, StorageError
from lakewright.storage.spec.schema import TableSchema, new_schema
from lakewright.storage.sql import parse_where
from tests.support.tables.builders import (
    compact,
    events,
    expire,
    new_table,
    remove_orphans,
    rows,
    spec,
)
from tests.support.tables.environment import FixedEnv
from tests.support.tables.foreign_metadata import root_of, table_of_everything
from tests.support.tally import tally
from tests.support.values.mutations import (
    DEEP,
    mutated_bytes,
    mutated_json,
    mutated_records,
    mutated_text,
)

# An example that goes through all verbs of a table takes as long as a hundred texts.
WHOLE_TABLES = settings(max_examples=max(5, settings().max_examples // 20))
ONE_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A table that stays as it is: a file that was changed is put back."""
    catalog = Catalog.open(str(tmp_path_factory.mktemp("whole")), env=FixedEnv())
    table = table_of_everything(catalog)
    expire(table, keep=7)
    return table


JSON_FILES = (
    "schema/schema-0",
    "snapshot/snapshot-9",
    "snapshot/snapshot-4",
    "tag/tag-kept",
    "consumer/consumer-reader",
    "branch/branch-side/snapshot/snapshot-3",
    "branch/branch-side/schema/schema-0",
    "changelog/changelog-*",
    "statistics/stat-*",
    ".lakewright/leases/book-*",
    ".lakewright/condemned/*.json",
    ".lakewright/condemned/*.list",
    ".lakewright/pending/*/batch-1",
)
AVRO_FILES = ("manifest/manifest-0*", "manifest/manifest-list-*", "manifest/index-manifest-*")
OTHER_FILES = ("snapshot/LATEST", "snapshot/EARLIEST", "index/index-*")


def looks(table: Table) -> Iterator[Callable[[], object]]:
    """What only looks; a table is opened again, so that its schema is read too."""
    catalog = Catalog(
        table.table_files.fs, str(root_of(table).parent.parent), table.table_files.env
    )
    yield lambda: catalog.table("db.t").read()
    yield table.read
    yield table.history.snapshots
    yield table.history.tags
    yield table.history.branches
    yield table.history.consumers
    yield table.upkeep.leases
    yield table.history.changelogs
    yield table.upkeep.condemned
    yield table.pending_batches
    yield lambda: table.at().partitions()
    yield lambda: table.at().statistics()
    yield lambda: table.at(tag="kept").read()
    yield lambda: table.history.at_branch("side").read()
    yield lambda: table.lookup([{"day": "a", "id": 1}])
    yield lambda: table.upkeep.plan_compact(full=True)
    yield lambda: table.upkeep.plan_expire_snapshots(
        retain_min=1, retain_max=1, time_retained_ms=0, grace_ms=0
    )
    yield lambda: table.upkeep.plan_remove_orphans(older_than_ms=0, even_recent=True)
    yield lambda: table.history.plan_rollback(tag="kept", grace_ms=0)
    yield lambda: table.upkeep.plan_collect(early=True)
    yield lambda: table.history.plan_fast_forward("side", grace_ms=0)
    for name in ("files", "manifests", "table_indexes", "statistics", "schemas", "tags", "buckets"):
        yield lambda name=name: table.inspect.table(name)  # type: ignore[misc]


def changes(table: Table) -> Iterator[Callable[[], object]]:
    """What writes and deletes."""
    yield lambda: table.write(rows(table, events(3, 5)))
    yield lambda: compact(table, full=True)
    yield lambda: table.commit_pending("stream")
    yield lambda: table.upkeep.run(table.upkeep.plan_analyze())
    yield lambda: table.history.run(table.history.plan_delete_branch("side", grace_ms=0))
    yield lambda: table.history.run(table.history.plan_delete_tags("kept", grace_ms=0))
    yield lambda: expire(table)
    yield lambda: remove_orphans(table)
    yield lambda: table.upkeep.run(table.upkeep.plan_collect(early=True))
    yield lambda: table.history.run(table.history.plan_rollback(snapshot=8, grace_ms=0))


def ask_all(verbs: Iterator[Callable[[], object]]) -> None:
    for verb in verbs:
        with suppress(StorageError):
            verb()


def damaged(draw: st.DrawFn, path: Path) -> bytes:
    data = path.read_bytes()
    if draw(st.booleans()) and draw(st.booleans()):
        return draw(mutated_bytes(data))
    match data[:1]:
        case b"{":
            read = json.loads(data)
            if read.pop("crc32", None) is not None:
                # As before there were checksums, so that what has changed is looked at.
                read["version"] = 1
            return draw(mutated_json(read))
        case b"O":
            return draw(mutated_records(data))
        case _:
            return draw(mutated_bytes(data))


def file_of(table: Table, pattern: str, draw: st.DrawFn) -> Path:
    found = sorted(each for each in root_of(table).glob(pattern) if each.is_file())
    assert found, pattern
    return draw(st.sampled_from(found))


@pytest.mark.parametrize("pattern", [*JSON_FILES, *AVRO_FILES, *OTHER_FILES])
@WHOLE_TABLES
@given(data=st.data())
@pytest.mark.sampled(2)
def test_all_that_looks_at_a_table_with_a_damaged_file_says_so_in_our_words(
    whole: Table, pattern: str, data: st.DataObject
) -> None:
    path = file_of(whole, pattern, data.draw)
    before = path.read_bytes()
    changed = damaged(data.draw, path)
    path.write_bytes(changed)
    try:
        ask_all(looks(whole))
    finally:
        path.write_bytes(before)
    tally("damaged files of metadata, looked at")


@WHOLE_TABLES
@given(data=st.data())
def test_what_writes_and_deletes_beside_a_damaged_file_says_so_in_our_words(
    whole: Table, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("copy")
    copied = folder / "db.db/t"
    shutil.copytree(root_of(whole), copied)
    table = Catalog.open(str(folder), env=FixedEnv()).table("db.t")
    pattern = data.draw(st.sampled_from([*JSON_FILES, *AVRO_FILES, *OTHER_FILES]))
    path = file_of(table, pattern, data.draw)
    path.write_bytes(damaged(data.draw, path))
    try:
        ask_all(changes(table))
    finally:
        shutil.rmtree(folder)
    tally("damaged files of metadata, written beside")


# --- filters -------------------------------------------------------------------------------------

SCHEMA = new_schema(
    spec(
        {
            "a_int": "INT",
            "b_string": "STRING",
            "a_bool": "BOOLEAN",
            "a_date": "DATE",
            "a_time": "TIME(3)",
            "a_timestamp": "TIMESTAMP(6)",
            "a_fine": "TIMESTAMP(9)",
            "a_moment": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
            "a_decimal": "DECIMAL(38, 10)",
            "a_double": "DOUBLE",
            "a_float": "FLOAT",
            "a_bytes": "BYTES",
            "a_list": "ARRAY<INT>",
            "odd name": "BIGINT",
        }
    ),
    time_millis=0,
)
WORDS = st.sampled_from(
    [
        *("=", "<", ">=", "<>", "(", ")", ",", ";", "AND", "OR", "NOT", "IN", "IS", "NULL", "LIKE"),
        *("BETWEEN", "DATE", "TIMESTAMP", "TIME", "X'", "'", '"', "`", "--", "/*", "*/", "\0", "%"),
        *("id", "day", "ts", "0", "-1", "1e3", "1e", "1.5", "true", "9" * 400, "'99999-01-01'"),
        *("'-0001-01-01'", "'0000-00-00'", "'9999-12-31 23:59:60'", "'\ud800'", "\ud800", "NaN"),
        *("'Infinity'", "1e308", "X'0'", "X'zz'", "CAST(", "AS", "INT", "SELECT", "CASE", "x.y.z"),
        *("(" * 400, "NOT " * 400, "- " * 300, "'2024-01-01T00:00:00+99:99'", "INTERVAL '1' DAY"),
    ]
)
FILTERS = st.sampled_from(
    [
        "a_int = 1 AND b_string = 'x'",
        "a_date BETWEEN DATE '2024-01-01' AND DATE '2024-02-01'",
        "NOT ( a_timestamp < TIMESTAMP '2024-01-01 00:00:00' OR a_decimal IS NULL )",
        "b_string LIKE 'x%' AND a_double IN ( 1 , 2.5 , -3 )",
        "a_bytes = X'ff'",
    ]
)


def filter_texts(schema: TableSchema) -> st.SearchStrategy[str]:
    names = st.sampled_from([f"`{each}`" for each in schema.field_names])
    words = st.one_of(WORDS, names, names)
    compared = st.builds(
        lambda name, operator, value: f"{name} {operator} {value}",
        names,
        st.sampled_from(["=", "<", ">=", "<>", "IN (1, ", "LIKE", "IS", "BETWEEN 1 AND"]),
        st.one_of(WORDS, st.text(max_size=12).map(lambda text: f"'{text}'")),
    )
    mutated = st.one_of(FILTERS, compared).flatmap(lambda text: mutated_text(text, words))
    return st.one_of(mutated, compared, st.lists(words, max_size=8).map(" ".join), st.text())


@given(data=st.data())
def test_any_text_is_a_filter_or_is_refused(data: st.DataObject) -> None:
    text = data.draw(filter_texts(SCHEMA))
    with suppress(InvalidPredicate):
        parse_where(text, SCHEMA)
    tally("texts of filters")


@pytest.mark.parametrize("text", ["(" * DEEP, "NOT " * DEEP + "a = 1", "a = " + "-" * DEEP + "1"])
def test_a_filter_nested_without_end_is_refused(text: str) -> None:
    with pytest.raises(InvalidPredicate):
        parse_where(text, SCHEMA)


# --- declarations --------------------------------------------------------------------------------

DECLARATIONS = sorted(Path(lakewright.demo.__file__).parent.glob("tables/*.yaml"))
YAML_WORDS = st.sampled_from(
    [
        *(
            "-",
            ":",
            "?",
            "[",
            "]",
            "{",
            "}",
            "&a",
            "*a",
            "<<:",
            "!!python/object:os.system",
            "!!int",
        ),
        *("|", ">", "'", '"', "\t", "\n", "\n- ", "\n---\n", "%YAML 9.9\n", "\0", "\ud800", "\x07"),
        *(
            "null",
            "~",
            "yes",
            "0x",
            "0o9",
            "1e999",
            "9" * 5_000,
            "2013-02-30",
            "99999-01-01",
            ".nan",
        ),
        *(
            "12:99:99",
            "2001-12-14t21:59:43.10-99:00",
            "!!binary x",
            "!!timestamp x",
            "\ufeff",
            "=",
            "[" * 2_000,
        ),
    ]
)


@ONE_FOLDER
@given(data=st.data())
def test_any_text_is_a_declaration_or_is_refused_with_file_and_line(
    tmp_path: Path, data: st.DataObject
) -> None:
    text = data.draw(st.sampled_from(DECLARATIONS)).read_text("utf-8")
    _read_changed(
        data, text, lambda path: load_declarations([path], check=check_for_dagster), tmp_path
    )
    tally("texts of declarations")


POLICY = """\
warehouse:
  mode: shadow
  budget: {bytes: 500 GB, time: 4h, timezone: UTC}
  snapshots: {time_retained: 7d, retain_min: 3, schedule: "0 3 * * *"}
databases:
  sales: {compaction: {min_bytes: 0 b, small_files: 8, hours: 22:00-06:00}}
patterns:
  - match: "sales.[a-c]*"
    freeze: true
  - {match: "*.tmp_?", partitions: {pattern: $dt, formatter: yyyy-MM-dd}}
tables:
  sales.orders: {sort: {columns: [a, b]}, snapshots: {time_retained: null}}
"""


@ONE_FOLDER
@given(data=st.data())
def test_any_text_is_a_policy_or_is_refused_with_file_and_line(
    tmp_path: Path, data: st.DataObject
) -> None:
    def read(path: Path) -> None:
        policies = load_policies([path])
        for table in ("sales.orders", "web.tmp_1", "", "a", "a.b.c", "\ud800."):
            assert policies.of(table).settings

    _read_changed(data, POLICY, read, tmp_path)
    tally("texts of policies")


def _read_changed(
    data: st.DataObject, text: str, read: Callable[[Path], object], folder: Path
) -> None:
    """Read a changed text; what is refused has a line of it."""
    path = folder / "changed.yaml"
    if data.draw(st.booleans()):
        changed = data.draw(mutated_bytes(text.encode()))
    else:
        changed = data.draw(mutated_text(text, YAML_WORDS)).encode("utf-8", "surrogatepass")
    path.write_bytes(changed)
    problems: tuple[Problem, ...] = ()
    try:
        read(path)
    except DeclarationError as error:
        problems = error.problems
    lines = changed.count(b"\n") + 1
    assert all(1 <= each.line <= lines + 1 and each.message for each in problems), problems


# --- the command line ----------------------------------------------------------------------------

# What the two start is a server of Dagster.
_SERVERS = {"demo", "up"}
VALUES = st.sampled_from(
    [
        *(
            "",
            " ",
            "-1",
            "0",
            "1",
            "3",
            "9" * 30,
            "1e9",
            "nan",
            "x",
            "..",
            "../x",
            "/",
            "a\0b",
            "\ud800",
        ),
        *("a,b", "id", "id,day", "day=a", "day=", "=", "day=a,id=1", "{", "{}", '{"day": 1}', "[]"),
        *(
            '{"day": ' * 3_000,
            '{"id": 1e999}',
            "kept",
            "side",
            "reader",
            "db.t",
            "t",
            "db.x",
            ".",
            "a.b.c",
        ),
        *(
            "2024-01-01",
            "0001-01-01T00:00:00+14:00",
            "9999-12-31T23:59:59-14:00",
            "2024-13-01",
            "1d",
            "7",
        ),
        *(
            "99999999999999999999d",
            "1h",
            "-5min",
            "json",
            "csv",
            "local",
            "full",
            "hilbert",
            "id = 1",
        ),
        *(
            "id = ",
            "day LIKE '%'",
            "1,9",
            "2024-01-01,2024-01-02",
            "kept,kept",
            "files",
            "snapshots",
        ),
    ]
)


def verbs_of(command: click.Command) -> list[tuple[list[str], click.Command]]:
    """Every command by its words."""
    if not isinstance(command, click.Group):
        return [([], command)]
    context = click.Context(command)
    found = []
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        found += [([name, *words], last) for words, last in verbs_of(below)]
    return found


VERBS = [(words, last) for words, last in verbs_of(ROOT) if words[0] not in _SERVERS]


def value_for(param: click.Parameter) -> st.SearchStrategy[str]:
    if param.name == "engine":
        return st.just("local")
    if isinstance(param.type, click.Choice):
        return st.one_of(st.sampled_from(sorted(param.type.choices)), VALUES)
    if param.name == "table_name":
        return st.one_of(st.just("db.t"), st.just("db.t"), VALUES)
    return st.one_of(VALUES, st.text(max_size=5).filter(lambda text: not text.startswith("-")))


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    words, command = draw(st.sampled_from(VERBS))
    line = list(words)
    for param in command.params:
        if param.name in ("warehouse", "plan", "save_plan"):
            continue
        if isinstance(param, click.Argument):
            line.append(draw(value_for(param)))
        elif draw(st.integers(0, 3)) == 0:
            line.append(param.opts[-1])
            if not (isinstance(param, click.Option) and param.is_flag):
                line.append(draw(value_for(param)))
    return line


def ended(warehouse: Path, *arguments: str) -> int:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["--warehouse", str(warehouse), *arguments])
    assert "Traceback" not in err.getvalue()
    assert code in (0, *range(2, 9)), err.getvalue()
    return code


@WHOLE_TABLES
@given(line=command_lines())
def test_any_arguments_end_with_a_code_that_help_lists(
    whole: Table, tmp_path_factory: pytest.TempPathFactory, line: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("cli")
    shutil.copytree(root_of(whole), folder / "db.db/t")
    try:
        ended(folder, *line)
    finally:
        shutil.rmtree(folder)
    tally("command lines")


PLANNED: dict[str, list[str]] = {
    "compact": ["--full"],
    "sort-compact": ["--by", "v"],
    "rescale": ["--buckets", "3"],
    "expire-snapshots": ["--retain-min", "1", "--retain-max", "1", "--older-than", "1ms"],
    "rollback": ["--snapshot", "7"],
    "tag delete": ["kept"],
    "changelog expire": ["--all"],
    "remove-orphans": [],
}


def plan_of(table: Table, verb: str) -> Any:
    out = io.StringIO()
    warehouse = str(root_of(table).parent.parent)
    with redirect_stdout(out):
        words = (*verb.split(), "db.t", *PLANNED[verb])
        code = main(["--warehouse", warehouse, *words, "--save-plan", "-"])
    assert code == 0
    return json.loads(out.getvalue())


@pytest.mark.parametrize("verb", list(PLANNED))
@WHOLE_TABLES
@given(data=st.data())
def test_any_plan_file_is_carried_out_or_refused(
    whole: Table, tmp_path_factory: pytest.TempPathFactory, verb: str, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("plan")
    if verb == "sort-compact":
        made = new_table(Catalog.open(str(folder), env=FixedEnv()), options={"bucket": "-1"})
        for first in (0, 5):
            made.write(rows(made, events(first, first + 5)))
    else:
        shutil.copytree(root_of(whole), folder / "db.db/t")
        made = Catalog.open(str(folder), env=FixedEnv()).table("db.t")
    plan = plan_of(made, verb)
    text = data.draw(
        st.one_of(mutated_json(plan), mutated_json(plan), mutated_bytes(json.dumps(plan).encode()))
    )
    path = folder / "plan.json"
    path.write_bytes(text)
    try:
        ended(folder, *verb.split(), "db.t", "--plan", str(path))
    finally:
        shutil.rmtree(folder)
    tally("plan files")
