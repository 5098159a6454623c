"""CALL: a procedure of Paimon with its arguments, by position or by name."""

from __future__ import annotations

from lakewright.storage.sql.grammar.cursor import Cursor
from lakewright.storage.sql.grammar.partitions import once
from lakewright.storage.sql.grammar.statements import Call


def call(cursor: Cursor) -> Call:
    """`CALL [catalog.]sys.procedure(value, … | name => value, …)`."""
    cursor.expect("CALL")
    words = [cursor.name("sys.procedure")]
    while cursor.take("."):
        words.append(cursor.name("the name of a procedure"))
    if len(words) < 2 or words[-2].lower() != "sys":
        cursor.refuse(f"{'.'.join(words)} is no procedure; write CALL sys.{words[-1]}(…)", back=1)
    values: list[object] = []
    named: list[tuple[str, object]] = []
    seen: set[str] = set()
    cursor.expect("(")
    while not cursor.peek(")"):
        if cursor.is_named_argument:
            name = once(cursor, cursor.name("an argument").lower(), seen)
            cursor.expect("=>")
            named.append((name, cursor.value(f"the value of {name}")))
        elif named:
            cursor.refuse(f"arguments behind {named[-1][0]} need a name, too: name => value")
        else:
            values.append(cursor.value("a value, or name => value"))
        if not cursor.take(","):
            break
    cursor.expect(")")
    return Call(words[-1].lower(), tuple(values), tuple(named))
