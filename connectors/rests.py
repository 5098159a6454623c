"""What a position rests on: facts of the source under which it has a meaning.

    {"phase": "stream", …, "rests on": {"server": "7713…", "table": 16384, "columns": {…}}}
    {"orders": {"0": 42, "1": 40}, "rests on": {"topic orders": "Zx8…"}}

The rows that were read are right as long as the facts behind which they were read hold: the server
is the same, the table is that table, its columns are those columns. A source says its facts anew
for every batch, and a difference is one error. A fact that the position does not have is new, such
as a column that was declared later, and a fact that the source cannot say now is not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from lakewright.connectors.runtime import Offset
from lakewright.storage.errors import SourceChanged

# By the name of a thing, its value as JSON.
Facts = Mapping[str, Any]
# No topic is called so.
RESTS = "rests on"
# Of facts: the declared columns, by name, and the names of the others.
COLUMNS, UNDECLARED = "columns", "undeclared"


def rests_of(offset: Offset) -> Facts:
    """What an offset rests on; nothing if it is of a stream that began without facts."""
    found: Facts = offset.get(RESTS) or {}
    return found


def without_rests(offset: Offset) -> Offset:
    """The place alone that an offset says, for people and for versions."""
    return {name: value for name, value in offset.items() if name != RESTS}


def check_facts(
    owner: str,
    before: Facts,
    now: Facts,
    way: Callable[[str], str],
    *,
    leaving: Collection[str] = (),
) -> None:
    """Compare facts, in their order now; `way` gives what a change means, and the way on.

    `leaving` are those that the source compares by rules of its own.

    Raises:
        SourceChanged: names the first thing that is different, with both values.
    """
    for thing, found in now.items():
        value = before.get(thing)
        if thing in leaving or value is None or found is None or value == found:
            continue
        raise SourceChanged(
            f"{owner}: {thing} is {shown(found)} now, and was {shown(value)} where the stream "
            f"stands; {way(thing)}",
            thing=thing,
            before=value,
            now=found,
        )


def shown(value: object) -> str:
    """A value in a message."""
    if isinstance(value, list):
        return f"({', '.join(map(str, value))})"
    return str(value) if value != "" else "empty"
