"""What a person sees on a terminal: tables that fit, colours, and what a long command is at."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from lakewright.storage import Catalog
from tests.support.tables.builders import EVENTS, events, new_table, rows

_CODES = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]|\r")


def on_terminal(
    catalog: Catalog, *arguments: str, columns: int, code: int = 0, **environment: str
) -> str:
    """All that a terminal of so many columns gets from a command, which ends with this code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    inherited = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "lakewright.cli", "--warehouse", catalog.uri, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**inherited, "TERM": "xterm-256color", **environment},
    )
    os.close(theirs)
    printed = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # What a terminal says when no process has it open any more.
            break
        if not piece:
            break
        printed += piece
    os.close(ours)
    assert process.wait() == code, printed
    return printed.decode()


def lines_of(printed: str) -> list[str]:
    return [line.rstrip() for line in _CODES.sub("", printed).split("\n")]


@pytest.fixture
def long_values(catalog: Catalog) -> Catalog:
    table = new_table(catalog, EVENTS)
    for start in (0, 2):
        table.write(rows(table, events(start, start + 2, v="a long value " * 20)))
    return catalog


@pytest.mark.parametrize(
    ("command", "columns"),
    [("ls", 60), ("show db.t", 40), ("snapshots db.t", 80), ("files db.t", 40), ("read db.t", 30)],
)
@pytest.mark.sampled(1)
def test_no_line_is_wider_than_the_terminal(
    long_values: Catalog, command: str, columns: int
) -> None:
    printed = on_terminal(long_values, *command.split(), columns=columns)
    wide = [line for line in lines_of(printed) if len(line) > columns]
    # A place is a path, and paths have no end where they could be cut.
    assert not [line for line in wide if "file://" not in line]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("command", "title"),
    [("top --once", "table"), ("ls", "table"), ("explain db.t --policy {policy}", "setting")],
)
def test_a_row_stays_a_row_in_eighty_columns(
    long_values: Catalog, tmp_path: Path, command: str, title: str
) -> None:
    (tmp_path / "policy.yaml").write_text(
        "warehouse: {compaction: {min_bytes: 0 b, small_files: 5}}\n"
    )
    words = command.format(policy=tmp_path / "policy.yaml").split()
    lines = lines_of(on_terminal(long_values, *words, columns=80))
    assert max(len(line) for line in lines if "://" not in line) <= 80
    assert sum(line.split()[:1] == [title] for line in lines) == 1, lines


@pytest.mark.parametrize("columns", [26, 40, 80])
@pytest.mark.sampled(1)
def test_adopt_prints_a_table_at_any_width(catalog: Catalog, columns: int) -> None:
    table = new_table(catalog, EVENTS)
    for start in range(6):
        table.write(rows(table, events(start, start + 1)))
    lines = lines_of(on_terminal(catalog, "adopt", columns=columns))
    head = next(at for at, line in enumerate(lines) if line.startswith("──"))
    assert max(map(len, lines[head - 1 : head + 4])) <= columns
    assert lines[head - 1].split()[0] == "table"
    assert "debt" in lines[head - 1]
    assert lines[head + 1].split()[0] == "db.t"


def test_listings_lose_nothing_on_a_narrow_terminal(long_values: Catalog) -> None:
    users = [each.commit_user for each in long_values.table("db.t").history.snapshots()]
    for columns in (40, 100):
        printed = on_terminal(long_values, "snapshots", "db.t", columns=columns)
        # A value that goes on below begins where it began above.
        folded = "".join(line.rsplit("  ", 1)[-1] for line in lines_of(printed))
        assert all(user in folded for user in users), printed


def test_long_findings_are_blocks_on_a_narrow_terminal_and_rows_on_a_wide_one(
    long_values: Catalog,
) -> None:
    words = ("alter", "db.t", "--drop", "day", "--type", "v:INT", "--dry-run")
    narrow = lines_of(on_terminal(long_values, *words, columns=80, code=2))
    assert max(map(len, narrow)) <= 80
    (at, other) = [at for at, line in enumerate(narrow) if line.startswith("  severity ")]
    assert [line.split()[0] for line in narrow[at : at + 4]] == [
        "severity",
        "rule",
        "column",
        "message",
    ]
    assert narrow[other - 1] == ""
    wide = lines_of(on_terminal(long_values, *words, columns=240, code=2))
    assert [line.split()[:3] for line in wide if line.startswith("severity")] == [
        ["severity", "rule", "column"]
    ]


def test_rows_are_cut_to_a_narrow_terminal(long_values: Catalog) -> None:
    lines = lines_of(on_terminal(long_values, "read", "db.t", columns=40))
    assert lines[2].endswith("…")
    assert len(lines[2]) == 40
    assert lines[6] == "(4 rows)"


def test_a_long_command_says_what_it_is_at(long_values: Catalog) -> None:
    printed = on_terminal(long_values, "compact", "db.t", "--full", columns=100)
    assert "planning compact" in printed
    assert "0/1" in printed
    assert lines_of(printed)[-2].startswith("snapshot 3 of db.t: 1 task in ")


def test_an_expiry_shows_how_many_snapshots_of_how_many_are_gone(catalog: Catalog) -> None:
    table = new_table(catalog, EVENTS, options={"snapshot.expire.limit": "1"})
    for start in range(6):
        table.write(rows(table, events(start, start + 1)))
    limits = ("--retain-min", "1", "--retain-max", "1", "--older-than", "0s")
    printed = on_terminal(catalog, "expire-snapshots", "db.t", *limits, columns=120)
    assert re.search(r"expire-snapshots: .* [1-5]/5 ", _CODES.sub("", printed))


def test_a_removal_of_orphans_counts_the_files_that_it_looks_at(
    catalog: Catalog,
) -> None:
    table = new_table(catalog, EVENTS)
    for start in range(3):
        table.write(rows(table, events(start, start + 1)))
        table.stage(rows(table, events(start, start + 1)))
    printed = on_terminal(
        catalog, "remove-orphans", "db.t", "--older-than", "0s", "--even-recent", columns=120
    )
    files = sum(len(found) for _, _, found in os.walk(table.table_files.paths.root))
    shown = _CODES.sub("", printed)
    # The records came later, and the files of the tables' root are not looked at.
    looked = int(re.search(r"remove-orphans: (\d+) files looked at", shown)[1])  # type: ignore[index]
    assert 9 < looked <= files


@pytest.mark.deep
def test_colours_are_left_out_where_that_is_asked_for(long_values: Catalog) -> None:
    coloured = on_terminal(long_values, "show", "db.t", columns=100)
    assert "\x1b[1m" in coloured
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        plain = on_terminal(long_values, "show", "db.t", columns=100, **environment)
        assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", plain)
        assert "location" in plain
