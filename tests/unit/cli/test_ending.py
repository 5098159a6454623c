"""How a subcommand ends: exit codes, interruptions, and what is not imported on the way."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lakewright.cli import commands
from lakewright.cli.exit_codes import exit_code_of
from lakewright.cli.grammar.command import Described
from lakewright.cli.grammar.root import COMMANDS, ROOT
from lakewright.cli.grammar.verb_index import VERB_INDEX
from lakewright.storage import Catalog, StorageError, Table
from lakewright.storage.errors import (
    AccessError,
    AlreadyExistsError,
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptionError,
    InvalidRequestError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from tests.support.tables.builders import EVENTS, events, new_table, rows
from tests.unit.cli.conftest import Lakewright
from tools.write_verb_index import INDEX, index_text

CODES = {
    InvalidRequestError: 2,
    AlreadyExistsError: 2,
    NotFoundError: 3,
    UnsupportedError: 4,
    CommitConflictError: 5,
    CorruptionError: 6,
    UnavailableError: 7,
    CommitOutcomeUnknownError: 7,
    AccessError: 8,
}


def kinds_below(kind: type[StorageError]) -> Iterator[type[StorageError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from kinds_below(each)


@pytest.mark.parametrize(("category", "code"), CODES.items())
def test_every_failure_of_a_category_has_its_code(category: type[StorageError], code: int) -> None:
    assert {exit_code_of(kind("what happened")) for kind in kinds_below(category)} == {code}


def test_every_category_is_covered_and_documented(lakewright: Lakewright) -> None:
    assert set(StorageError.__subclasses__()) == set(CODES)
    help_text = lakewright(None, "--help").out
    documented = set(map(int, re.findall(r"^ +(\d+)  ", help_text, re.MULTILINE)))
    assert documented >= {0, 1, *CODES.values(), 130, 143}


# --- what is there and what is not -------------------------------------------------------------


def test_what_does_not_exist_ends_with_3(catalog: Catalog, lakewright: Lakewright) -> None:
    new_table(catalog, EVENTS)
    for arguments, said in [
        (("show", "db.nope"), "tables of db: t"),
        (("show", "nope.t"), "databases there: db"),
        (("ls", "nope"), "no database nope"),
        (("files", "db.t", "--snapshot", "1"), "snapshot 1 does not exist"),
    ]:
        ended = lakewright(catalog, *arguments, code=3)
        assert ended.err.startswith("lakewright: error: ")
        assert said in ended.err
        assert ended.err.count("\n") == 1


def test_a_warehouse_that_does_not_exist_is_not_an_empty_one(
    tmp_path: Path, lakewright: Lakewright
) -> None:
    ended = lakewright(None, "--warehouse", str(tmp_path / "typo"), "ls", code=3)
    assert "no warehouse at file://" in ended.err
    assert "$LAKEWRIGHT_WAREHOUSE" in ended.err
    assert not (tmp_path / "typo").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nope",),
        ("tag",),
        ("compact", "--dry-run"),
        ("ls", "--nope"),
        ("show",),
        ("show", "no-dot"),
        ("compact", "db.t", "--engine", "flink"),
        ("compact", "db.t", "--dry-run", "--min-files", "1"),
        ("compact", "db.t", "--dry-run", "--partition", "nonsense"),
        ("compact", "db.t", "--dry-run", "--partition", "nope=1"),
        ("compact", "db.t", "--dry-run", "--partition", "{"),
    ],
)
def test_a_wrong_request_ends_with_2(
    catalog: Catalog, lakewright: Lakewright, arguments: tuple[str, ...]
) -> None:
    new_table(catalog, EVENTS)
    ended = lakewright(catalog, *arguments, code=2)
    assert "error: " in ended.err
    assert "Traceback" not in ended.err


def test_a_store_that_is_not_implemented_ends_with_4(lakewright: Lakewright) -> None:
    ended = lakewright(None, "--warehouse", "gopher://bucket/warehouse", "ls", code=4)
    assert "gopher://" in ended.err


def written_table(catalog: Catalog) -> Table:
    table = new_table(catalog, EVENTS)
    table.write(rows(table, events(0, 3)))
    return table


def test_an_option_that_is_not_implemented_ends_with_4(
    unchecked_catalog: Catalog, lakewright: Lakewright
) -> None:
    table = written_table(unchecked_catalog)
    schema = Path(table.table_files.paths.schema(0))
    text = schema.read_text("utf-8")
    schema.write_text(text.replace('"options": {', '"options": {"query-auth.enabled": "true", '))
    ended = lakewright(unchecked_catalog, "read", "db.t", code=4)
    assert "query-auth.enabled=true" in ended.err


def test_damaged_files_end_with_6(unchecked_catalog: Catalog, lakewright: Lakewright) -> None:
    table = written_table(unchecked_catalog)
    Path(table.table_files.paths.snapshot(1)).write_text("{}", "utf-8")
    ended = lakewright(unchecked_catalog, "read", "db.t", code=6)
    assert "snapshot-1" in ended.err


def test_a_store_that_fails_ends_with_7(unchecked_catalog: Catalog, lakewright: Lakewright) -> None:
    table = written_table(unchecked_catalog)
    hint = Path(table.table_files.paths.latest_hint)
    hint.unlink()
    # A folder in the place of a file cannot be read, even by root.
    hint.mkdir()
    ended = lakewright(unchecked_catalog, "read", "db.t", code=7)
    assert "cannot be reached" in ended.err


class InterruptedInput:
    """Standard input of somebody who presses Ctrl-C."""

    def read(self) -> str:
        raise KeyboardInterrupt


def test_an_interruption_ends_with_130(
    catalog: Catalog, lakewright: Lakewright, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_table(catalog)
    monkeypatch.setattr("sys.stdin", InterruptedInput())
    ended = lakewright(catalog, "compact", "db.t", "--plan", "-", code=130)
    assert not ended.err


# --- help --------------------------------------------------------------------------------------


def commands_below(command: click.Command) -> Iterator[Described]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands_below(below)
    assert isinstance(command, Described)
    yield command


def test_every_command_has_help_with_examples_that_parse() -> None:
    """Whatever a person copies from help is understood; none of it is carried out."""
    found = list(commands_below(ROOT))
    assert len(found) > 40
    for command in found:
        assert command.help, command.name
        lines = command.examples.strip().replace("\\\n", "").splitlines()
        assert lines, command.name
        for line in lines:
            call = re.sub(r'eval "\$\((.*)\)"|(.*) \| source|(.*) > [\w./]+$', r"\1\2\3", line)
            words = shlex.split(call, comments=True)
            parse(ROOT, words[words.index("lakewright") + 1 :])


def parse(group: click.Group, words: list[str], parent: click.Context | None = None) -> None:
    """What `group.invoke` does, up to the command that is named."""
    with group.make_context("lakewright", words, parent=parent) as context:
        rest = [*context._protected_args, *context.args]
        if not rest:
            return
        name, command, below = group.resolve_command(context, rest)
        assert command is not None
        if isinstance(command, click.Group):
            parse(command, below, context)
        else:
            command.make_context(name, below, parent=context)


def test_help_lists_every_command_by_what_it_is_for(lakewright: Lakewright) -> None:
    modules = {each.stem.replace("_", "-") for each in Path(commands.__path__[0]).glob("[a-z]*.py")}
    commanded = {name for names in COMMANDS.values() for name in names}
    assert modules | set(VERB_INDEX) == commanded
    lines = lakewright(None, "--help").lines
    widest = max(len(name) for names in COMMANDS.values() for name in names)
    for purpose, names in COMMANDS.items():
        assert f"{purpose}:" in lines
        for name, says in names.items():
            assert f"  {name:<{widest}}  {says}" in lines


def test_the_index_of_verbs_is_that_of_the_verbs() -> None:
    text = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "-"],
        input=index_text(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert INDEX.read_text() == text, "run tools/write_verb_index.py and `make fix`"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("compct", "db.t"), "Did you mean one of: 'compact'"),
        (("compact", "db.t", "--fulll"), "Did you mean '--full'?"),
        (("tag", "lst", "db.t"), "Did you mean 'list'?"),
        (("compact", "db.t", "--fulll"), "; see lakewright compact --help"),
    ],
)
def test_what_is_misspelt_is_told_with_what_is_near(
    lakewright: Lakewright, arguments: tuple[str, ...], said: str
) -> None:
    ended = lakewright(None, *arguments, code=2)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert said in ended.err


def test_an_unexpected_error_does_not_end_as_a_change_with_warnings(
    lakewright: Lakewright, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: click.Context) -> None:
        raise RuntimeError("a mistake of the program")

    monkeypatch.setattr(ROOT, "invoke", broken)
    ended = lakewright(None, "ls", code=70)
    assert "RuntimeError: a mistake of the program" in ended.err


# --- completion --------------------------------------------------------------------------------


def completed(lakewright: Lakewright, monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    monkeypatch.setenv("_LAKEWRIGHT_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", shlex.join(["lakewright", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    found = [line.split(",", 1)[1] for line in lakewright(None).lines if line]
    monkeypatch.delenv("_LAKEWRIGHT_COMPLETE")
    return found


def test_a_shell_completes_commands_options_and_tables(
    catalog: Catalog, lakewright: Lakewright, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_table(catalog, EVENTS)
    monkeypatch.setenv("LAKEWRIGHT_WAREHOUSE", catalog.uri)
    assert completed(lakewright, monkeypatch, "comp") == ["compact", "completion"]
    assert completed(lakewright, monkeypatch, "compact", "--pl") == ["--plan"]
    assert completed(lakewright, monkeypatch, "read", "d") == ["db.t"]
    assert completed(lakewright, monkeypatch, "tag", "list", "db.t"[:3]) == ["db.t"]
    monkeypatch.setenv("LAKEWRIGHT_WAREHOUSE", catalog.uri + "/nothing")
    assert completed(lakewright, monkeypatch, "read", "d") == []


def test_the_script_for_a_shell_is_printed(
    lakewright: Lakewright, monkeypatch: pytest.MonkeyPatch
) -> None:
    for shell in ("bash", "zsh", "fish"):
        script = lakewright(None, "completion", shell)
        assert f"_LAKEWRIGHT_COMPLETE={shell}_complete" in script.out
    monkeypatch.setenv("SHELL", "/usr/bin/zsh")
    assert "zsh_complete" in lakewright(None, "completion").out
    monkeypatch.setenv("SHELL", "")
    lakewright(None, "completion", code=2)


# --- in a process of its own -------------------------------------------------------------------


def run_alone(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        env={**os.environ, "PYTHONWARNINGS": "error::ResourceWarning"},
    )


RUN = "import sys; from lakewright.cli import main; sys.exit(main())"
# Runs each argument as a command line, and tells what has been imported by then.
IMPORTED = """
import shlex
import sys
from lakewright.cli import main
for line in sys.argv[1:]:
    code = main(shlex.split(line))
    print("imported", code, *sorted({name.split(".")[0] for name in sys.modules}))
"""


def imported_by(*lines: str) -> list[tuple[int, set[str]]]:
    """The exit code of each command line, run one after the other, and the modules known then."""
    ended = run_alone(IMPORTED, *lines)
    assert ended.returncode == 0, ended.stderr
    told = [each.split()[1:] for each in ended.stdout.splitlines() if each.startswith("imported ")]
    assert len(told) == len(lines)
    return [(int(code), set(names)) for code, *names in told]


def test_help_imports_no_storage_and_nothing_that_draws() -> None:
    heavy = {"pyarrow", "numpy", "fsspec", "sqlglot", "pyspark", "dagster", "pydantic"}
    commands = ("--help", "read --help", "ls --nope", "completion bash")
    for _, imported in imported_by(*commands):
        assert "click" in imported
        assert not imported & heavy


def test_a_pipe_gets_neither_colours_nor_bars(catalog: Catalog) -> None:
    written_table(catalog)
    for command in ("compact db.t --full", "read db.t"):
        ended = run_alone(RUN, "--warehouse", catalog.uri, *command.split())
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "\x1b" not in ended.stdout


def test_a_reader_that_goes_away_is_no_error(catalog: Catalog) -> None:
    table = new_table(catalog, EVENTS)
    table.write(rows(table, events(0, 30_000)))
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", RUN),
            *("--warehouse", catalog.uri, "read", "db.t", "--format", "csv"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"id,day,v\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=900) == 141


def test_the_package_is_a_program() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "lakewright.cli", "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0
    assert ended.stdout.startswith("Usage: lakewright ")
