"""What a statement in the log does to a table, as far as the log has no rows for it.

A statement that names the table and is not known to leave its rows as they are is refused. Servers
have more forms of statements than a parser knows (waits, options between words, comments that are
carried out), so the words are looked at, and an unknown one counts against the statement.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

_QUOTED = r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\""
# As a session with NO_BACKSLASH_ESCAPES quotes.
_QUOTED_PLAINLY = r"`(?:[^`]|``)*`|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\""
# Statements that change rows, or call what may do so; in the log of a server that writes rows, they
# come from sessions that do not.
_CHANGING = ("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH", "IMPORT")
_CALLING = ("SELECT", "CALL", "DO", "EXECUTE", "VALUES", "HANDLER")
# Statements that name tables and leave rows of tables as they are, by their first words.
_HARMLESS = (
    *("ANALYZE", "OPTIMIZE", "CHECK", "GRANT", "REVOKE", "SAVEPOINT", "RELEASE", "SET", "USE"),
    *("LOCK", "UNLOCK", "FLUSH", "COMMIT", "ROLLBACK", "BEGIN", "START", "XA", "PURGE", "CACHE"),
    *("CHECKSUM", "SHOW", "DESCRIBE", "EXPLAIN", "KILL", "SHUTDOWN", "INSTALL", "UNINSTALL"),
)
# What can be made, altered or dropped beside tables.
_OBJECTS = (
    *("INDEX", "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "USER", "ROLE", "SEQUENCE"),
    *("SERVER", "PACKAGE", "TABLESPACE", "LOGFILE", "INSTANCE", "RESOURCE", "SPATIAL"),
)
# Options of a table in ALTER TABLE that change no row; `ENGINE` is looked at.
_OPTIONS = (
    *("COMMENT", "AUTO_INCREMENT", "ROW_FORMAT", "KEY_BLOCK_SIZE", "MAX_ROWS", "MIN_ROWS", "FORCE"),
    *("AVG_ROW_LENGTH", "CHECKSUM", "PACK_KEYS", "DELAY_KEY_WRITE", "STATS_PERSISTENT", "DEFAULT"),
    *("STATS_AUTO_RECALC", "STATS_SAMPLE_PAGES", "TABLESPACE", "COLLATE", "CHARSET", "CHARACTER"),
    *("PAGE_CHECKSUM", "PAGE_COMPRESSED", "PAGE_COMPRESSION_LEVEL", "ENCRYPTED", "COMPRESSION"),
    *("ENCRYPTION", "ENCRYPTION_KEY_ID", "ALGORITHM", "LOCK", "WITH", "WITHOUT", "ORDER"),
    *("ENABLE", "DISABLE", "UNION", "INSERT_METHOD", "SECONDARY_LOAD", "SECONDARY_UNLOAD"),
)
_ON_PARTITIONS = ("ADD", "ANALYZE", "OPTIMIZE", "CHECK", "REBUILD", "REORGANIZE", "COALESCE")
_NO_COLUMN = ("INDEX", "KEY", "PRIMARY", "FOREIGN", "CONSTRAINT", "CHECK", "UNIQUE", "FULLTEXT")
_NEVER_ADDED = ("PERIOD", "SYSTEM")
_MOVING = ("RENAME", "EXCHANGE", "CONVERT")
_NOISE = ("COLUMN", "IF", "NOT", "EXISTS")


def effect(
    statement: str, database: str, captured: tuple[str, str], columns: Collection[str]
) -> str | None:
    """What a statement does to a captured table (database, name) that its rows do not tell.

    `database` is that of the session. None if it does nothing of the kind.
    """
    captured = (captured[0].lower(), captured[1].lower())
    declared = frozenset(column.lower() for column in columns)
    # Whether a backslash escapes is a setting of the session.
    for quoted in (_QUOTED, _QUOTED_PLAINLY) if "\\" in statement else (_QUOTED,):
        found = _Words(_words(statement, quoted), database.lower(), captured, declared).effect()
        if found is not None:
            return found
    return None


def _words(statement: str, quoted: str) -> list[str]:
    # What is quoted, or a comment; words in comments that servers carry out stay.
    comment = rf"({quoted})|/\*M?!\d*|\*/|/\*.*?\*/|(?:--\s|#)[^\n]*"
    plain = re.sub(comment, lambda found: found[1] or " ", statement, flags=re.DOTALL)
    return re.findall(rf"{quoted}|[\w$]+|[^\s\w]", plain, flags=re.DOTALL)


class _Words:
    """The words of one statement."""

    def __init__(
        self,
        words: list[str],
        database: str,
        captured: tuple[str, str],
        columns: frozenset[str],
    ) -> None:
        self._database, self._captured, self._columns = database, captured, columns
        upper = [word.upper() for word in words]
        if upper[:2] == ["SET", "STATEMENT"] and "FOR" in upper:
            # Settings of MariaDB for one statement.
            words = words[upper.index("FOR") + 1 :]
        self._words, self._upper = words, [word.upper() for word in words]

    def effect(self) -> str | None:
        upper = self._upper
        verb = upper[0] if upper else ""
        if verb in ("DROP", "CREATE") and {"DATABASE", "SCHEMA"} & {*upper[1:4]}:
            return self._of_database(verb)
        if verb in _CALLING or verb in _CHANGING:
            # Triggers, views and functions change tables that the statement does not name.
            return "may change rows by a statement (binlog_format is not ROW)"
        if verb in _HARMLESS or not self._names(self._words):
            return None
        at = next((at for at, each in enumerate(upper[:6]) if each in ("TABLE", "TABLES")), None)
        if verb == "TRUNCATE":
            return self._if_places("empties the table", 1 if at is None else at + 1)
        if verb in ("CREATE", "DROP", "ALTER", "RENAME"):
            kinds = upper[1:at] if at is not None else upper[1:]
            if "TEMPORARY" in kinds[:3]:
                return None
            if at is None:
                is_known = bool({*_OBJECTS} & {*kinds}) or kinds[:1] == ["DATABASE"]
                return None if is_known else _UNKNOWN
            if verb != "ALTER" and {*_OBJECTS} & {*kinds}:
                return None
            return self._of_table(verb, at + 1)
        return _UNKNOWN

    def _of_database(self, verb: str) -> str | None:
        is_it = self._captured[0] in map(_name, self._words[2:])
        is_gone = verb == "DROP" or "REPLACE" in self._upper[1:3]
        return "drops the database" if is_it and is_gone else None

    def _of_table(self, verb: str, at: int) -> str | None:
        match verb:
            case "DROP":
                return self._if_places("drops the table", at)
            case "RENAME":
                return self._if_places("renames the table", at)
            case "CREATE":
                is_anew = "REPLACE" in self._upper[1:at]
                return self._if_first("replaces the table", at) if is_anew else None
        rest = _without_noise(self._words[at:])
        place, end = self._place(rest, 0)
        if place == self._captured:
            if "IGNORE" in self._upper[:at]:
                return "leaves out rows that do not fit (IGNORE)"
            return self._alteration(_without_wait(rest[end:]))
        for clause in _clauses(_without_wait(rest[end:])):
            if clause[0].upper() in _MOVING and self._is_moved(clause):
                return "brings rows from another table, or moves them there,"
        return None

    def _is_moved(self, clause: Sequence[str]) -> bool:
        """Whether a clause moves rows or names between its table and the captured one."""
        upper = [each.upper() for each in clause]
        if upper[0] == "RENAME" and upper[1:2] != ["TO"] and upper[1:2] != ["AS"]:
            is_of_column = upper[1:2] in (["COLUMN"], ["INDEX"], ["KEY"])
            return not is_of_column and self._has_place(clause[1:])
        return self._has_place(clause[1:])

    def _alteration(self, words: Sequence[str]) -> str | None:
        for clause in _clauses(words):
            found = self._clause(clause)
            if found is not None:
                return found
        return None

    def _clause(self, clause: Sequence[str]) -> str | None:
        verb, rest = clause[0].upper(), clause[1:]
        upper = [each.upper() for each in rest]
        if upper[:1] in (["PARTITION"], ["TABLESPACE"]) and verb != "TABLESPACE":
            if verb in _ON_PARTITIONS or (verb == "PARTITION" and upper[:1] != ["TABLESPACE"]):
                return None
            return _PARTITION
        if verb in ("PARTITION", "SUBPARTITION", "REMOVE"):
            is_known = upper[:1] in (["BY"], ["PARTITIONING"])
            return None if is_known else _UNKNOWN
        if verb == "CONVERT":
            is_charset = upper[:2] in (["TO", "CHARACTER"], ["TO", "CHARSET"])
            return "changes the character set" if is_charset else _PARTITION
        if verb == "RENAME" and upper[:1] not in (["COLUMN"], ["INDEX"], ["KEY"]):
            return "renames the table"
        if verb in ("MODIFY", "CHANGE", "DROP", "RENAME", "ADD", "ALTER"):
            return self._of_column(verb, rest, upper)
        if verb in ("ENGINE", "TYPE"):
            return None if "INNODB" in upper[:2] else "changes the engine"
        return None if verb in _OPTIONS or not verb[:1].isalnum() else _UNKNOWN

    def _of_column(self, verb: str, rest: Sequence[str], upper: Sequence[str]) -> str | None:
        if upper[:1] and upper[0] in _NEVER_ADDED and "(" not in upper[1:2]:
            return "begins or ends the versions of rows"
        if verb in ("ADD", "ALTER") or (upper[:1] and upper[0] in _NO_COLUMN):
            return None
        named = _without_noise(rest)
        # What gets the name of a declared column is that column from then on.
        names = [_name(named[0])] if named else []
        if verb == "CHANGE":
            names += [_name(each) for each in named[1:2]]
        if verb == "RENAME":
            names += [_name(each) for each in named[2:3]]
        changed = next((name for name in names if name in self._columns), None)
        return None if changed is None else f"changes column {changed}"

    # --- names ---

    def _names(self, words: Sequence[str]) -> bool:
        """Whether the name of the table stands among words."""
        return self._captured[1] in map(_name, words)

    def _has_place(self, words: Sequence[str]) -> bool:
        """Whether the table stands among words, by its name or with its database."""
        return any(
            self._place(words, at)[0] == self._captured
            for at in range(len(words))
            if at == 0 or words[at - 1] != "."
        )

    def _place(self, words: Sequence[str], at: int) -> tuple[tuple[str, str], int]:
        """The table that is named at a place, and where its name ends."""
        if at >= len(words):
            return ("", ""), at
        place, end = (self._database, _name(words[at])), at + 1
        if words[end : end + 1] == ["."] and end + 1 < len(words):
            place, end = (place[1], _name(words[end + 1])), end + 2
        return place, end

    def _if_places(self, what: str, at: int) -> str | None:
        return what if self._has_place(self._words[at:]) else None

    def _if_first(self, what: str, at: int) -> str | None:
        place, _ = self._place(_without_noise(self._words[at:]), 0)
        return what if place == self._captured else None


_UNKNOWN = "is not known to leave the rows"
_PARTITION = "removes or brings rows with a partition"


def _clauses(words: Sequence[str]) -> Iterator[list[str]]:
    clause: list[str] = []
    depth = 0
    for word in words:
        depth += (word == "(") - (word == ")")
        if word == "," and not depth:
            yield from [clause] if clause else []
            clause = []
        else:
            clause.append(word)
    if clause:
        yield clause


def _without_noise(words: Sequence[str]) -> list[str]:
    """The words without those that may stand before a name."""
    found = list(words)
    while found and found[0].upper() in _NOISE:
        del found[0]
    return found


def _without_wait(words: Sequence[str]) -> list[str]:
    """The words behind the name of a table, without how long to wait for it."""
    left_words = list(words)
    if left_words and left_words[0].upper() == "NOWAIT":
        del left_words[0]
    elif left_words and left_words[0].upper() == "WAIT":
        del left_words[:2]
    return left_words


def _name(word: str) -> str:
    # Servers differ in whether case counts, and sessions in whether double quotes are of names.
    for mark in ("`", '"'):
        if len(word) > 1 and word[0] == mark == word[-1]:
            return word[1:-1].replace(mark * 2, mark).lower()
    return word.lower()
