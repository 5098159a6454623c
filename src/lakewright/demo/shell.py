"""Runs commands of the command line in this process, and tells what they print."""

from __future__ import annotations

import contextlib
import io
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lakewright.cli import main
from lakewright.storage.errors import UnavailableError


@dataclass(frozen=True, slots=True)
class Shell:
    """The commands run in a folder, on a warehouse."""

    folder: Path
    warehouse: str
    line: Callable[[str], object]

    def run(self, command: str, *, most_lines: int | None = None) -> str:
        """What the command printed, of which so many lines are told.

        Raises:
            UnavailableError: it failed.
        """
        self.line(f"    $ lakewright {command}")
        told = io.StringIO()
        with (
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(told),
            contextlib.redirect_stderr(told),
        ):
            code = main(["--warehouse", self.warehouse, *shlex.split(command)])
        lines = told.getvalue().splitlines()
        for text in lines[:most_lines]:
            self.line(f"      {text}".rstrip())
        if most_lines is not None and len(lines) > most_lines:
            self.line(f"      … {len(lines) - most_lines} more lines")
        if code:
            raise UnavailableError(f"`lakewright {command}` ended with {code}: {told.getvalue()}")
        return told.getvalue()
