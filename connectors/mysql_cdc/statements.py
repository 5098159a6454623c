"""What a statement in the log does to a table, as far as the log has no rows for it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

_QUOTED = r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\""
# What is quoted, or a comment; words in comments that servers carry out stay.
_COMMENT = re.compile(rf"({_QUOTED})|/\*M?!\d*|\*/|/\*.*?\*/|(?:--\s|#)[^\n]*", re.DOTALL)
_WORD = re.compile(rf"{_QUOTED}|[\w$]+|[^\s\w]", re.DOTALL)
_ROWS = ("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH")
_PARTITIONS = ("TRUNCATE", "DROP", "EXCHANGE", "DISCARD", "IMPORT")
_NO_COLUMN = ("INDEX", "KEY", "PRIMARY", "FOREIGN", "CONSTRAINT", "CHECK", "PERIOD", "SYSTEM")
_NOISE = ("COLUMN", "IF", "EXISTS")


def effect(
    statement: str, database: str, captured: tuple[str, str], columns: Collection[str]
) -> str | None:
    """What a statement does to a captured table (database, name) that its rows do not tell.

    `database` is that of the session. None if it does nothing of the kind.
    """
    words = _WORD.findall(_COMMENT.sub(lambda found: found[1] or " ", statement))
    upper = [each.upper() for each in words]
    if upper[:2] == ["SET", "STATEMENT"] and "FOR" in upper:
        # Settings of MariaDB for one statement.
        words = words[upper.index("FOR") + 1 :]
        upper = [each.upper() for each in words]
    database, captured = database.lower(), (captured[0].lower(), captured[1].lower())
    match upper:
        case [verb, *_] if verb in _ROWS:
            is_it = captured[1] in map(_name, words)
            return "changes rows by a statement (binlog_format is not ROW)" if is_it else None
        case ["TRUNCATE", *_]:
            return _if_captured("empties the table", words[1:], database, captured)
        case ["DROP", "TABLE" | "TABLES", *_]:
            return _if_captured("drops the table", words[2:], database, captured)
        case ["RENAME", "TABLE" | "TABLES", *_]:
            return _if_captured("renames the table", words[2:], database, captured)
        case ["CREATE", "OR", "REPLACE", "TABLE", *_]:
            return _if_captured("replaces the table", words[4:8], database, captured)
        case ["DROP", "DATABASE" | "SCHEMA", *_]:
            return "drops the database" if captured[0] in map(_name, words[2:]) else None
        case ["ALTER", *_] if "TABLE" in upper[1:4]:
            rest = words[upper.index("TABLE") + 1 :]
            places = list(_places(_without_noise(rest), database))
            if not places or places[0][0] != captured:
                return None
            return _alteration(_without_noise(rest)[places[0][1] :], columns)
    return None


def _if_captured(
    what: str, words: Sequence[str], database: str, captured: tuple[str, str]
) -> str | None:
    found = (place for place, _ in _places(_without_noise(words), database))
    return what if captured in found else None


def _places(words: Sequence[str], database: str) -> Iterator[tuple[tuple[str, str], int]]:
    """The tables in a list, with where each ends."""
    at = 0
    while at < len(words):
        place, end = (database, _name(words[at])), at + 1
        if words[end : end + 1] == ["."] and end + 1 < len(words):
            place, end = (place[1], _name(words[end + 1])), end + 2
        yield place, end
        # A comma, or the TO of a rename.
        at = end + 1


def _alteration(words: Sequence[str], columns: Collection[str]) -> str | None:
    for clause in _clauses(words):
        verb, rest = clause[0].upper(), clause[1:]
        upper = [each.upper() for each in rest[:2]]
        if verb in _PARTITIONS and upper[:1] in (["PARTITION"], ["TABLESPACE"]):
            return "removes or brings rows with a partition"
        if verb == "RENAME" and upper[:1] not in (["COLUMN"], ["INDEX"], ["KEY"]):
            return "renames the table"
        is_of_column = verb in ("MODIFY", "CHANGE") or (
            verb in ("DROP", "RENAME") and not {*upper[:1]} & {*_NO_COLUMN}
        )
        if is_of_column:
            named = _without_noise(rest)
            if named and _name(named[0]) in {each.lower() for each in columns}:
                return f"changes column {_name(named[0])}"
    return None


def _clauses(words: Sequence[str]) -> Iterator[list[str]]:
    clause: list[str] = []
    depth = 0
    for each in words:
        depth += (each == "(") - (each == ")")
        if each == "," and not depth:
            yield from [clause] if clause else []
            clause = []
        else:
            clause.append(each)
    if clause:
        yield clause


def _without_noise(words: Sequence[str]) -> list[str]:
    """The words without those that may stand before a name."""
    found = list(words)
    while found and found[0].upper() in (*_NOISE, "TABLE"):
        del found[0]
    return found


def _name(word: str) -> str:
    # Servers differ in whether case counts.
    return (word[1:-1].replace("``", "`") if word.startswith("`") else word).lower()
