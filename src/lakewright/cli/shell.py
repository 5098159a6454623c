"""The shell of `lakewright sql`: lines become statements, with history, completion and a pager."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Form

if TYPE_CHECKING:
    from lakewright.session import Session, StatementResult

_PROMPT, _MORE = "lakewright> ", "        ..> "
_HELP = """\
Statements end with ; and may have several lines.
\\d        the tables          \\d TABLE    its columns, keys and options
\\l        the databases       \\c DB       the database of names without one
\\timing   time of statements  \\format F   table, json or csv
\\i FILE   run a file          \\q          leave"""
_WORDS = """
ADD ALTER ANALYZE AND AS BUCKETS BY CALL CASE CLUSTERED COLUMN COMPACT CREATE DATABASE DATABASES
DELETE DESCRIBE DETAIL DISTINCT DISTRIBUTED DISTRIBUTION DROP EXISTS EXPLAIN EXTENDED FROM GROUP
HASH HAVING IF INSERT INTO JOIN KEY LIMIT MATCHED MERGE METADATA NOT NULL ORDER OVERWRITE
PARTITION PARTITIONED PARTITIONS PRIMARY RENAME REPAIR RESET SELECT SET SHOW TABLE TABLES
TEMPORARY THEN TRUNCATE UNION UPDATE USE USING VALUES WATERMARK WHEN WHERE WITH
"""


@dataclass(slots=True)
class Shell:
    """One session at a terminal; `show` prints a result in a form, `read` reads a file."""

    session: Session
    show: Callable[[Form, StatementResult], None]
    read: Callable[[str], str]
    form: Form = "table"
    is_timed: bool = False
    _names: list[str] = field(default_factory=list)

    def run(self, lines: Iterator[str]) -> None:
        """Run what the lines say, until they end or one says to leave."""
        from lakewright.storage.sql.grammar.cursor import ends_statement

        pending: list[str] = []
        while True:
            try:
                line = self._next(lines, _MORE if pending else _PROMPT)
            except KeyboardInterrupt:
                pending = []
                click.echo("^C")
                continue
            if line is None or (not pending and line.strip() in ("\\q", "quit", "exit", "quit;")):
                return
            if not pending and line.strip().startswith("\\"):
                self._guarded(self._command, line.strip())
            elif line.strip() or pending:
                pending.append(line)
                text = "\n".join(pending)
                if ";" in line and ends_statement(text):
                    pending = []
                    self._guarded(self._statements, text)

    def _next(self, lines: Iterator[str], prompt: str) -> str | None:
        if not sys.stdin.isatty():
            return next(lines, None)
        try:
            return input(prompt)
        except EOFError:
            click.echo()
            return None

    def _guarded(self, work: Callable[[str], None], text: str) -> None:
        """An error of a statement does not end the shell."""
        from lakewright.storage.errors import StorageError

        try:
            work(text)
        except StorageError as error:
            excerpt = error.details.get("excerpt")
            shown = "" if excerpt is None else "\n" + indent(str(excerpt), "  ")
            click.echo(f"error: {error.message}{shown}", err=True)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)

    def _statements(self, text: str) -> None:
        env = self.session.catalog.env
        began = env.now_ms()
        for result in self.session.run(text):
            taken_ms = env.now_ms() - began
            said = io.StringIO()
            with redirect_stdout(said):
                self.show(self.form, result)
            _paged(said.getvalue())
            if self.is_timed:
                click.echo(f"time: {taken_ms / 1000:.3f} s", err=True)
            began = env.now_ms()
        self._names = []

    def _command(self, text: str) -> None:
        from lakewright.storage.errors import InvalidStatement

        word, _, rest = text[1:].partition(" ")
        rest = rest.strip().rstrip(";")
        match word:
            case "d" if rest:
                self._statements(f"DESCRIBE EXTENDED {rest}")
            case "d" | "dt":
                self._statements("SHOW TABLES")
            case "l":
                self._statements("SHOW DATABASES")
            case "c" if rest:
                self._statements(f"USE {rest}")
            case "i" if rest:
                self._statements(self.read(rest))
            case "timing":
                self.is_timed = not self.is_timed
                click.echo(f"timing is {'on' if self.is_timed else 'off'}")
            case "format":
                self.form = "json" if rest == "json" else "csv" if rest == "csv" else "table"
            case "?" | "h" | "help":
                click.echo(_HELP)
            case _:
                raise InvalidStatement(f"\\{word} is no command of the shell; \\? lists them")

    def complete(self, text: str, number: int) -> str | None:
        """The n-th name or word that begins with a text, for readline."""
        if not self._names:
            with suppress(Exception):
                self._names = [*self._known()]
        begins = text.lower()
        found = [name for name in self._names if name.lower().startswith(begins)]
        found += [each for each in _WORDS.split() if text and each.startswith(text.upper())]
        return found[number] if number < len(found) else None

    def _known(self) -> Iterator[str]:
        catalog, own = self.session.catalog, self.session.settings.database
        for database in catalog.list_databases():
            yield database
            for table in catalog.list_tables(database):
                yield f"{database}.{table}"
                if database == own:
                    yield table
                    yield from catalog.table(f"{database}.{table}").schema.field_names


def _paged(text: str) -> None:
    lines = text.count("\n")
    if sys.stdout.isatty() and lines >= shutil.get_terminal_size().lines:
        click.echo_via_pager(text)
    else:
        sys.stdout.write(text)
        sys.stdout.flush()


def run_shell(shell: Shell, lines: Sequence[str] | None = None) -> None:
    """Run a shell at the terminal, with the history of earlier ones."""
    if lines is not None or not sys.stdin.isatty():
        shell.run(iter(sys.stdin if lines is None else lines))
        return
    try:
        import readline
    except ImportError:  # Windows has none.
        shell.run(iter(()))
        return
    history = _history_file()
    with suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(2000)
    readline.set_completer(shell.complete)
    readline.set_completer_delims(" \t\n`'\"(),;=<>")
    readline.parse_and_bind("tab: complete")
    click.echo("Statements end with ; — \\? lists commands, \\q leaves.")
    try:
        shell.run(iter(()))
    finally:
        with suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)
            history.chmod(0o600)


def _history_file() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "lakewright" / "sql_history"
