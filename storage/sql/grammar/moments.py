"""Tables at a moment of their history: `t VERSION AS OF 3`, `t FOR SYSTEM_TIME AS OF '…'`.

`FOR SYSTEM_TIME AS OF s.at` is the moment of each row of another table, as in Flink's lookup joins.
The changes between two moments are `paimon_incremental_query('t', 3, 7)`, as in Paimon's Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakewright.storage.sql.grammar.cursor import Word, split_statements, whole
from lakewright.storage.sql.grammar.query import Query

_CHANGES = "paimon_incremental_query"
_VERSION, _TIME = ("VERSION", "SYSTEM_VERSION"), ("TIMESTAMP", "SYSTEM_TIME")
_OF_ROWS = "SYSTEM_TIME"


@dataclass(frozen=True, slots=True)
class Moment:
    """A state of a table: `version` is an id of a snapshot or a tag, `time` a text or seconds.

    With `after` it is the changes after that snapshot or tag, up to the version. `of_row` is the
    column with the moment of each row of another table, by its parts.
    """

    version: str | None = None
    time: str | int | None = None
    after: str | None = None
    of_row: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TimedText:
    """A query whose tables at moments stand in databases of their own, `databases`.

    The names of the tables stay, and with them what stands before columns.
    """

    text: str
    databases: Mapping[str, tuple[str, Moment]]
    edits: Sequence[tuple[int, int, str]]

    def offset_before(self, offset: int) -> int:
        """The place in the query of a place in `text`."""
        moved = 0
        for start, end, new in self.edits:
            if offset < start + moved:
                break
            if offset < start + moved + len(new):
                return start
            moved += len(new) - (end - start)
        return offset - moved


def with_moments(query: Query) -> TimedText:
    """The query without moments behind its tables.

    Raises:
        InvalidStatement: what follows AS OF is no moment.
    """
    words = [word for cursor in split_statements(query.text) for word in cursor.words]
    databases: dict[str, tuple[str, Moment]] = {}
    edits: list[tuple[int, int, str]] = []
    for at in range(len(words) - 2):
        if words[at].is_word(_CHANGES.upper()) and words[at + 1].is_word("("):
            label, database, moment, edit = _changes(query, words, at)
            databases[label] = (database, moment)
            edits.append(edit)
            continue
        if at == 0 or not (words[at + 1].is_word("AS") and words[at + 2].is_word("OF")):
            continue
        is_version = any(map(words[at].is_word, _VERSION))
        if not is_version and not any(map(words[at].is_word, _TIME)):
            continue
        last = at - 2 if words[at - 1].is_word("FOR") else at - 1
        if last < 0:
            continue
        moment, after = _moment(query, words, at, is_version=is_version)
        first = _begin(words, last)
        dots = [each for each in words[first:last] if each.text == "."]
        database = "" if not dots else query.text[words[first].start : dots[-1].start]
        table = query.text[dots[-1].end if dots else words[first].start : words[last].end]
        said = " ".join(query.text[words[at].start : words[after - 1].end].split())
        label = f"{database} {said}".strip()
        databases[label] = (words[first].text if dots else "", moment)
        quoted = label.replace('"', '""')
        edits.append((words[first].start, words[after - 1].end, f'"{quoted}".{table}'))
    text = query.text
    for start, end, new in reversed(edits):
        text = text[:start] + new + text[end:]
    return TimedText(text, databases, edits)


def _changes(
    query: Query, words: Sequence[Word], at: int
) -> tuple[str, str, Moment, tuple[int, int, str]]:
    """The changes that a call asks for: their label, the database, and the edit of the text."""
    given = words[at + 2 : at + 8]
    signs = [each.text for each in given[1::2]]
    bounds = [each for each in given[2::2] if each.is_text or each.is_whole]
    if len(given) < 6 or not given[0].is_text or signs != [",", ",", ")"] or len(bounds) != 2:
        query.refuse(words[at].start, f"write {_CHANGES}('db.t', 3, 7), with ids or names of tags")
    database, _, table = given[0].text.rpartition(".")
    label = f"{database} changes from {bounds[0].text} to {bounds[1].text}".strip()
    names = (each.replace('"', '""') for each in (label, table))
    moment = Moment(version=bounds[1].text, after=bounds[0].text)
    new = ".".join(f'"{name}"' for name in names)
    return label, database, moment, (words[at].start, given[5].end, new)


def _begin(words: Sequence[Word], last: int) -> int:
    """The first word of the name whose last word is `last`: `db.t`, `db.t$branch_x`."""
    first = last
    while first >= 2 and words[first - 1].text in (".", "$"):
        first -= 2
    return first


def _moment(
    query: Query, words: Sequence[Word], said: int, *, is_version: bool
) -> tuple[Moment, int]:
    """The moment behind `said` AS OF, and the word behind it."""
    at = said + 3
    if at < len(words) - 1 and not is_version and words[at].is_word("TIMESTAMP"):
        at += 1
    word = words[at] if at < len(words) else None
    if word is not None and is_version and (word.is_text or word.is_whole):
        return Moment(version=word.text), at + 1
    if word is not None and not is_version and (word.is_text or word.is_whole):
        return Moment(time=word.text if word.is_text else whole(word.text)), at + 1
    if word is not None and word.is_name and words[said].is_word(_OF_ROWS):
        last = at
        while last + 2 < len(words) and words[last + 1].text == "." and words[last + 2].is_name:
            last += 2
        return Moment(of_row=tuple(each.text for each in words[at : last + 1 : 2])), last + 1
    what = "the id of a snapshot or 'a tag'" if is_version else "'2024-01-31 10:00:00'"
    start = len(query.text) if word is None else word.start
    query.refuse(start, f"expected {what} behind AS OF")
