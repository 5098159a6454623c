"""How a subcommand ends: exit codes, interruptions, and what is not imported on the way."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewright.cli import main
from lakewright.cli.exit_codes import exit_code_of
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
from tests.support.builders import EVENTS, events, new_table, rows
from tests.unit.cli.conftest import Lakewright

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
    documented = set(map(int, re.findall(r"^  (\d+)  ", help_text, re.MULTILINE)))
    assert documented >= {0, 1, *CODES.values(), 130}


# --- what is there and what is not -------------------------------------------------------------


def test_what_does_not_exist_ends_with_3(catalog: Catalog, lakewright: Lakewright) -> None:
    new_table(catalog, EVENTS)
    for arguments, said in [
        (("show", "db.nope"), "tables of db: t"),
        (("show", "nope.t"), "databases there: db"),
        (("ls", "nope"), "no database nope"),
        (("files", "db.t", "--snapshot", "1"), "snapshot 1 does not exist"),
    ]:
        ended = lakewright(catalog, *arguments)
        assert ended.code == 3
        assert ended.err.startswith("lakewright: error: ")
        assert said in ended.err
        assert ended.err.count("\n") == 1


def test_a_warehouse_that_does_not_exist_is_not_an_empty_one(
    tmp_path: Path, lakewright: Lakewright
) -> None:
    ended = lakewright(None, "--warehouse", str(tmp_path / "typo"), "ls")
    assert ended.code == 3
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
    ended = lakewright(catalog, *arguments)
    assert ended.code == 2
    assert "error: " in ended.err
    assert "Traceback" not in ended.err


def test_a_store_that_is_not_implemented_ends_with_4(lakewright: Lakewright) -> None:
    ended = lakewright(None, "--warehouse", "gopher://bucket/warehouse", "ls")
    assert ended.code == 4
    assert "gopher://" in ended.err


def written_table(catalog: Catalog) -> Table:
    table = new_table(catalog, EVENTS)
    table.write(rows(table, events(0, 3)))
    return table


def test_an_option_that_is_not_implemented_ends_with_4(
    unchecked_catalog: Catalog, lakewright: Lakewright
) -> None:
    table = written_table(unchecked_catalog)
    schema = Path(table.files.paths.schema(0))
    text = schema.read_text("utf-8")
    schema.write_text(text.replace('"options": {', '"options": {"query-auth.enabled": "true", '))
    ended = lakewright(unchecked_catalog, "read", "db.t")
    assert ended.code == 4
    assert "query-auth.enabled=true" in ended.err


def test_damaged_files_end_with_6(unchecked_catalog: Catalog, lakewright: Lakewright) -> None:
    table = written_table(unchecked_catalog)
    Path(table.files.paths.snapshot(1)).write_text("{}", "utf-8")
    ended = lakewright(unchecked_catalog, "read", "db.t")
    assert ended.code == 6
    assert "snapshot-1" in ended.err


def test_a_store_that_fails_ends_with_7(unchecked_catalog: Catalog, lakewright: Lakewright) -> None:
    table = written_table(unchecked_catalog)
    hint = Path(table.files.paths.latest_hint)
    hint.unlink()
    # A folder in the place of a file cannot be read, whoever asks.
    hint.mkdir()
    ended = lakewright(unchecked_catalog, "read", "db.t")
    assert ended.code == 7
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
    ended = lakewright(catalog, "compact", "db.t", "--plan", "-")
    assert (ended.code, ended.err) == (130, "")


# --- help --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        *("ls", "show", "read", "snapshots", "files", "partitions", "demo", "up"),
        *("plan compact", "plan expire-snapshots", "run compact", "run expire-snapshots"),
        *("tag list", "tag create", "tag rename", "tag delete", "tag expire", "rollback"),
        *("branch list", "branch create", "branch delete", "branch fast-forward"),
        *("consumer list", "consumer set", "consumer delete", "tag", "branch", "consumer"),
        *("changelog list", "changelog expire", "changelog", "remove-orphans", "quarantine"),
        *("quarantine list", "quarantine restore", "quarantine purge"),
    ],
)
def test_help_of_every_subcommand_has_an_example_that_parses(
    lakewright: Lakewright, command: str
) -> None:
    ended = lakewright(None, *command.split(), "--help")
    assert ended.code == 0
    example = ended.out.split("example:\n")[1]
    assert example.strip().startswith(f"lakewright {command.split(maxsplit=1)[0]}")


# --- in a process of its own -------------------------------------------------------------------


def run_alone(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONWARNINGS": "error::ResourceWarning"},
    )


IMPORTED = """
import sys
from lakewright.cli import main
code = main(sys.argv[1:])
print("imported", *sorted({name.split(".")[0] for name in sys.modules}))
sys.exit(code)
"""


@pytest.mark.parametrize(
    "command",
    ["ls", "show db.t", "files db.t", "plan compact db.t", "read db.t --format json"],
)
def test_no_listing_and_no_read_starts_spark_or_dagster(catalog: Catalog, command: str) -> None:
    written_table(catalog)
    ended = run_alone(IMPORTED, "--warehouse", catalog.uri, *command.split())
    assert ended.returncode == 0, ended.stderr
    imported = set(ended.stdout.splitlines()[-1].split()[1:])
    assert "pyarrow" in imported
    assert not imported & {"pyspark", "py4j", "dagster", "great_expectations", "pandas", "sqlglot"}


def test_a_filter_loads_the_parser_and_nothing_of_spark(catalog: Catalog) -> None:
    written_table(catalog)
    ended = run_alone(IMPORTED, "--warehouse", catalog.uri, "read", "db.t", "--where", "id = 1")
    imported = set(ended.stdout.splitlines()[-1].split()[1:])
    assert "sqlglot" in imported
    assert not imported & {"pyspark", "py4j", "dagster", "great_expectations"}


def test_help_imports_no_storage() -> None:
    ended = run_alone(IMPORTED, "--help")
    imported = set(ended.stdout.splitlines()[-1].split()[1:])
    assert not imported & {"pyarrow", "numpy", "fsspec", "sqlglot"}


def test_a_reader_that_goes_away_is_no_error(catalog: Catalog) -> None:
    table = new_table(catalog, EVENTS)
    table.write(rows(table, events(0, 30_000)))
    process = subprocess.Popen(
        [
            *(
                sys.executable,
                "-c",
                "import sys; from lakewright.cli import main; sys.exit(main())",
            ),
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
    assert process.wait(timeout=60) == 141


def test_the_entry_point_is_main() -> None:
    assert callable(main)
    ended = run_alone("from lakewright.cli import main; raise SystemExit(main(['--help']))")
    assert ended.returncode == 0
    assert ended.stdout.startswith("usage: lakewright ")
