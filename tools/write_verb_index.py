"""Writes the index of the verbs that help and the lookup of commands read: `make verb-index`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from lakewright.platform.ingest.merge_rows import MERGE_ROWS
from lakewright.platform.ingest.validate_schema import VALIDATE_SCHEMA
from lakewright.platform.upkeep.procedure import AnyProcedure
from lakewright.platform.upkeep.procedures import PROCEDURES

INDEX = Path(__file__).parent.parent / "src/lakewright/cli/grammar/verb_index.py"
_HEAD = '''"""The commands of verbs, without their modules; written by tools/write_verb_index.py."""

from __future__ import annotations

from typing import NamedTuple


class IndexedVerb(NamedTuple):
    """What help says of a verb, and where it is defined."""

    purpose: str
    summary: str
    module: str
    constant: str


VERB_INDEX = {
'''


def index_text() -> str:
    """The module, as the verbs have it."""
    lines = [_HEAD]
    for verb in (*PROCEDURES.values(), MERGE_ROWS, VALIDATE_SCHEMA):
        if verb.command is None or not verb.command.purpose:
            continue
        module, constant = _defined(verb)
        lines += [
            f'    "{verb.name.replace("_", "-")}": IndexedVerb(\n',
            f'        "{verb.command.purpose}",\n',
            f'        "{verb.summary}",\n',
            f'        "{module}",\n',
            f'        "{constant}",\n',
            "    ),\n",
        ]
    return "".join([*lines, "}\n"])


def _defined(verb: AnyProcedure) -> tuple[str, str]:
    module = verb.report.__module__
    if not module.startswith("lakewright."):
        module = verb.plan.__module__
    (constant,) = [name for name, value in vars(import_module(module)).items() if value is verb]
    return module, constant


if __name__ == "__main__":
    INDEX.write_text(index_text())
    sys.stdout.write(f"wrote {INDEX.name}\n")
