"""The demo's neglected warehouse: adopted, watched in shadow, kept, accounted for, taken back.

Its commands are those that a person types. They run in this process, in the warehouse's folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from lakewright.demo.neglected import make_neglected
from lakewright.demo.shell import Shell
from lakewright.platform.documents.variables import DEFAULT_WAREHOUSE
from lakewright.storage.errors import UnavailableError

_POLICY = "policy.yaml"
_RUN = re.compile(r"undo (\w+) reverts")
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
    shell = Shell(folder, DEFAULT_WAREHOUSE, line)
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
