"""The demo's neglected warehouse: adopted, watched in shadow, kept, accounted for, taken back.

Its commands are those that a person types. They run in this process, in the warehouse's folder.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Callable
from pathlib import Path

from lakewright.cli import main
from lakewright.demo.neglected import make_neglected
from lakewright.platform.declare.variables import DEFAULT_WAREHOUSE
from lakewright.storage.errors import UnavailableError

_POLICY = "policy.yaml"
_RUN = re.compile(r"run: .*\((\w+)\)")
_UNDONE = "logs.clicks"


def is_adopted(folder: Path) -> bool:
    """Whether the demo has adopted this warehouse before."""
    return (folder / _POLICY).exists()


def adopt(folder: Path, line: Callable[[str], object]) -> None:
    """Make the warehouse in a folder and take every step with it, each told by its command.

    Raises:
        UnavailableError: a command failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shell = _Shell(folder, line)
    made = make_neglected(str(folder / DEFAULT_WAREHOUSE))
    line(f"    in {folder}: {', '.join(made)}, each of many small commits, weeks ago")
    shell.run(f"adopt {DEFAULT_WAREHOUSE} --policy {_POLICY}")
    shell.run(f"upkeep --policy {_POLICY}")
    line("    $ sed -i 's/mode: shadow/mode: live/' policy.yaml")
    policy = folder / _POLICY
    policy.write_text(policy.read_text().replace("mode: shadow", "mode: live"))
    told = shell.run(f"upkeep --policy {_POLICY}")
    shell.run("savings --by verb")
    found = _RUN.search(told)
    if found is None:
        raise UnavailableError(f"the upkeep of {folder} names no run: {told}")
    shell.run(f"undo {found[1]} --table {_UNDONE}")


class _Shell:
    """Runs commands of the command line in a folder, and tells what they print."""

    def __init__(self, folder: Path, line: Callable[[str], object]) -> None:
        self._folder = folder
        self._line = line

    def run(self, command: str) -> str:
        """What the command printed."""
        self._line(f"    $ lakewright {command}")
        told = io.StringIO()
        with (
            contextlib.chdir(self._folder),
            contextlib.redirect_stdout(told),
            contextlib.redirect_stderr(told),
        ):
            code = main(["--warehouse", DEFAULT_WAREHOUSE, *shlex.split(command)])
        for text in told.getvalue().splitlines():
            self._line(f"      {text}".rstrip())
        if code:
            raise UnavailableError(f"`lakewright {command}` ended with {code}: {told.getvalue()}")
        return told.getvalue()
