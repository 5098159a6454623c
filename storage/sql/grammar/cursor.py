"""A cursor over the words of one statement: what a grammar module reads, and its errors.

The words come from sqlglot's tokenizer for Spark's SQL, in which a doubled quote is a quote, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import ClassVar, NoReturn, TypeVar

from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from lakewright.storage.errors import InvalidStatement
from lakewright.storage.secret_texts import covered_text
from lakewright.storage.spec.data_types import TypeRoot
from lakewright.storage.spec.literals import TWO_DIGITS, Moment, bytes_of, plain
from lakewright.storage.spec.schema_change import path_text
from lakewright.storage.sql.grammar.wrong_words import what_does_not_end
from lakewright.storage.sql.where import FilterDialect

Item = TypeVar("Item")

# A number with the letters of its type (7d is a double) is no value and no name, only a text.
# The largest double has 309.
_MOST_DIGITS = 400
_PLAIN, _QUOTED, _TEXT, _NUMBER, _BYTES, _SIGN, _TYPED_NUMBER = range(7)
_WORD = re.compile(r"\S+")
# What is underlined of a text: a word, or one sign.
_SHOWN = re.compile(r"\w+|\S")
_MOST_UNDERLINED, _MOST_BEFORE, _MOST_SHOWN = 40, 60, 100
_KINDS = {
    TokenType.IDENTIFIER: _QUOTED,
    TokenType.STRING: _TEXT,
    TokenType.NUMBER: _NUMBER,
    TokenType.HEX_STRING: _BYTES,
}


class StatementDialect(FilterDialect):
    """The words of every statement, those too whose rest sqlglot would keep as one text."""

    class Tokenizer(FilterDialect.Tokenizer):
        """The settings in which sqlglot expects a dialect's differences."""

        COMMANDS: ClassVar[set[TokenType]] = set()


@dataclass(frozen=True, slots=True)
class Word:
    """A word, quoted name, literal or sign, and where it stands in the text."""

    kind: int
    text: str
    start: int
    end: int

    def is_word(self, text: str) -> bool:
        return self.kind in (_PLAIN, _SIGN) and self.text.upper() == text

    @property
    def is_name(self) -> bool:
        return self.kind in (_PLAIN, _QUOTED)

    @property
    def is_text(self) -> bool:
        return self.kind == _TEXT

    @property
    def is_whole(self) -> bool:
        return self.kind == _NUMBER and self.text.isdecimal()


def split_statements(text: str) -> Iterator[Cursor]:
    """A cursor for each statement of a text; statements end at `;`.

    Raises:
        InvalidStatement: a quote or a comment is not closed.
    """
    try:
        tokens = StatementDialect().tokenize(text)
    except SqlglotError as error:
        start, why = what_does_not_end(text)
        raise wrong_at(text, start, why) from error
    words: list[Word] = []
    for (start, end), group in groupby(tokens, key=lambda each: (each.start, each.end + 1)):
        same = list(group)
        if len(same) > 1:
            # The tokenizer makes a cast of a number with the letters of a type.
            words.append(Word(_TYPED_NUMBER, text[start:end], start, end))
        elif same[0].token_type is not TokenType.SEMICOLON:
            words += _words(same[0], text[start:end])
        else:
            if words:
                yield Cursor(text, words)
            words = []
    if words:
        yield Cursor(text, words)


def ends_statement(text: str) -> bool:
    """Whether the last word of a text is `;`; a comment is none."""
    try:
        tokens = StatementDialect().tokenize(text)
    except SqlglotError:
        return text.rstrip().endswith(";")
    return bool(tokens) and tokens[-1].token_type is TokenType.SEMICOLON


def _words(token: Token, source: str) -> Iterator[Word]:
    kind = _KINDS.get(token.token_type)
    if kind is not None:
        yield Word(kind, token.text, token.start, token.end + 1)
        return
    # The tokenizer makes one token of some pairs of words, such as PARTITIONED BY.
    for found in _WORD.finditer(source):
        part, at = found[0], token.start + found.start()
        kind = _PLAIN if part[0].isalnum() or part[0] == "_" else _SIGN
        yield Word(kind, part, at, at + len(part))


class Cursor:
    """Reads the words of one statement from left to right."""

    def __init__(self, text: str, words: Sequence[Word]) -> None:
        self._all = text
        self._words = words
        self._at = 0

    # --- where the cursor stands ----------------------------------------------------------------

    @property
    def at(self) -> int:
        """The number of the next word, to come back to."""
        return self._at

    @at.setter
    def at(self, number: int) -> None:
        self._at = number

    @property
    def statement(self) -> str:
        """The text of the whole statement."""
        return self._all[self._words[0].start : self._words[-1].end]

    @property
    def around(self) -> str:
        """The text of all statements."""
        return self._all

    @property
    def words(self) -> Sequence[Word]:
        """All words of the statement."""
        return self._words

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._words)

    def rest(self) -> str:
        """The text from here to the end of the statement; the cursor moves there."""
        if self.is_at_end:
            return ""
        start = self._words[self._at].start
        self._at = len(self._words)
        return self._all[start : self._words[-1].end]

    def expression(self, *ends: str) -> str:
        """The text up to one of these words, a comma or the end, outside of parentheses."""
        start, depth = self._at, 0
        while not self.is_at_end:
            word = self._words[self._at]
            if not depth and any(self.peek(each) for each in (*ends, ",", ")")):
                break
            depth += any(map(word.is_word, ("(", "[", "{", "CASE")))
            depth -= any(map(word.is_word, (")", "]", "}", "END")))
            self._at += 1
        if start == self._at:
            self.refuse(f"expected an expression, found {self.shown()}")
        return self._all[self._words[start].start : self._words[self._at - 1].end]

    def mark(self) -> int:
        """Where the next word begins in the text, or where it ends."""
        return self._words[self._at].start if not self.is_at_end else self._words[-1].end

    def refuse(self, message: str, *, back: int = 0) -> NoReturn:
        """Refuse the statement at the next word, or `back` words before it."""
        at = self._at - back
        start = self._words[at].start if at < len(self._words) else self._words[-1].end
        self.refuse_at(start, message)

    def refuse_at(self, start: int, message: str) -> NoReturn:
        """Refuse the statement at a place in the text.

        Raises:
            InvalidStatement: always.
        """
        raise wrong_at(self._all, start, message)

    def shown(self) -> str:
        """The next word, for messages."""
        if self.is_at_end:
            return "the end of the statement"
        word = self._words[self._at]
        return repr(self._all[word.start : word.end])

    # --- words ----------------------------------------------------------------------------------

    def peek(self, *words: str) -> bool:
        """Whether the next words are these, in any case."""
        found = self._words[self._at : self._at + len(words)]
        return len(found) == len(words) and all(map(Word.is_word, found, words))

    def take(self, *words: str) -> bool:
        """Pass over these words if they come next; whether they did."""
        is_next = self.peek(*words)
        if is_next:
            self._at += len(words)
        return is_next

    def take_one(self, *words: str) -> str | None:
        """Pass over one of these words; which, if any comes next."""
        return next((word for word in words if self.take(word)), None)

    def expect(self, *words: str, way_out: str = "") -> None:
        """Pass over these words; anything else is refused."""
        if not self.take(*words):
            rest = f"; {way_out}" if way_out else ""
            self.refuse(f"expected {' '.join(words)}, found {self.shown()}{rest}")

    def expect_end(self, way_out: str = "") -> None:
        """Refuse anything that follows."""
        if not self.is_at_end:
            rest = f"; {way_out}" if way_out else ""
            self.refuse(f"{self.shown()} is not expected here{rest}")

    @property
    def is_named_argument(self) -> bool:
        """Whether a name and `=>` come next."""
        words = self._words[self._at : self._at + 2]
        return len(words) == 2 and words[0].is_name and words[1].is_word("=>")

    # --- names and literals ---------------------------------------------------------------------

    def name(self, what: str) -> str:
        """A plain word or a name in backticks."""
        word = None if self.is_at_end else self._words[self._at]
        if word is None or not word.is_name:
            self.refuse(
                f"expected {what}, found {self.shown()}; a name is a plain word, or stands in "
                "backticks: `a name`"
            )
        self._at += 1
        return word.text

    def table_name(self) -> str:
        """`table` or `database.table`; a system table or branch is `table$name`."""
        parts = [self._table_part()]
        while self.take("."):
            parts.append(self._table_part())
        if len(parts) > 2:
            self.refuse(
                f"{'.'.join(parts)} has {len(parts)} parts; the warehouse is the catalog: write "
                f"{'.'.join(parts[-2:])}",
                back=1,
            )
        return ".".join(parts)

    def _table_part(self) -> str:
        name = self.name("the name of a table")
        while self.take("$"):
            name = f"{name}${self.name('the name of a system table')}"
        return name

    def path(self) -> str:
        """The path of a column, such as `address.city`, as `spec/schema_change.py` writes it."""
        parts = [self.name("the name of a column")]
        while self.take("."):
            parts.append(self.name("the name of a member"))
        return path_text(parts)

    def text(self, what: str) -> str:
        """A text in single or double quotes."""
        word = None if self.is_at_end else self._words[self._at]
        if word is None or word.kind != _TEXT:
            self.refuse(f"expected {what} in quotes, found {self.shown()}")
        self._at += 1
        return word.text

    def take_text(self) -> str | None:
        """A text, if one comes next."""
        if self.is_at_end or self._words[self._at].kind != _TEXT:
            return None
        return self.text("a text")

    def whole_number(self, what: str) -> int:
        """A number without sign and fraction."""
        word = None if self.is_at_end else self._words[self._at]
        if word is None or word.kind != _NUMBER or not word.text.isdecimal():
            self.refuse(f"expected {what}, a whole number, found {self.shown()}")
        self._at += 1
        return whole(word.text)

    def value(self, what: str) -> object:
        """A literal as a Python value; DATE '…' and TIMESTAMP '…' are their texts."""
        return plain(self.literal(what))

    def literal(self, what: str) -> object:
        """A literal as a Python value; DATE '…' and TIMESTAMP '…' are `Moment`."""
        if self.take("NULL"):
            return None
        if (truth := self.take_one("TRUE", "FALSE")) is not None:
            return truth == "TRUE"
        for kind in (TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP):
            if self.take(kind.value):
                return Moment(self.text("a moment"), kind)
        text = self.take_text()
        if text is not None:
            return text
        is_negative = self.take("-")
        word = None if self.is_at_end else self._words[self._at]
        if (
            word is None
            or word.kind not in (_NUMBER, _BYTES)
            or (is_negative and word.kind != _NUMBER)
        ):
            self.refuse(f"expected {what}, found {self.shown()}; text needs quotes: 'a'")
        self._at += 1
        if word.kind == _BYTES:
            found = bytes_of(word.text)
            if found is None:
                raise InvalidStatement(f"X'{word.text:.80}' has half a byte; {TWO_DIGITS}")
            return found
        return number(f"-{word.text}" if is_negative else word.text)

    # --- lists ----------------------------------------------------------------------------------

    def listed(self, one: Callable[[], Item]) -> tuple[Item, ...]:
        """`(one, one, …)`."""
        self.expect("(")
        items = [one()]
        while self.take(","):
            items.append(one())
        if not self.take(")"):
            self.refuse(f"expected , or ) after {self._before()}, found {self.shown()}")
        return tuple(items)

    def separated(self, one: Callable[[], Item]) -> tuple[Item, ...]:
        """`one, one, …`, without parentheses."""
        items = [one()]
        while self.take(","):
            items.append(one())
        return tuple(items)

    def names(self, what: str) -> tuple[str, ...]:
        """`(a, b, …)`."""
        return self.listed(lambda: self.name(what))

    def source_until(self, *ends: str, opens: str = "(<", closes: str = ")>") -> str:
        """The text up to a word of `ends` outside of brackets; the cursor stops there."""
        first, depth = self._at, 0
        while not self.is_at_end:
            word = self._words[self._at]
            if depth == 0 and any(map(word.is_word, ends)):
                break
            depth += sum(word.text.count(each) for each in opens) if word.kind == _SIGN else 0
            depth -= sum(word.text.count(close) for close in closes) if word.kind == _SIGN else 0
            self._at += 1
        if first == self._at:
            return ""
        return self._all[self._words[first].start : self._words[self._at - 1].end]

    def _before(self) -> str:
        word = self._words[self._at - 1]
        return repr(self._all[word.start : word.end])


def wrong_at(text: str, start: int, message: str) -> InvalidStatement:
    """The error of a word in a text; its detail `excerpt` shows the word underlined."""
    word = _SHOWN.match(text, start)
    length = 1 if word is None else min(len(word[0]), _MOST_UNDERLINED)
    begin = text.rfind("\n", 0, start) + 1
    end = text.find("\n", start)
    line = covered_text(text)[begin : end if end >= 0 else len(text)].replace("\t", " ")
    cut = max(0, start - begin - _MOST_BEFORE)
    shown = line[cut : cut + _MOST_SHOWN]
    excerpt = f"{shown}\n{' ' * (start - begin - cut)}{'^' * length}"
    return InvalidStatement(f"{place(text, start)}: {message}", excerpt=excerpt)


def place(text: str, start: int) -> str:
    """A place in a text, for messages."""
    line = text.count("\n", 0, start) + 1
    return f"line {line}, column {start - text.rfind(chr(10), 0, start)}"


def number(text: str) -> object:
    """The number of a literal: whole, decimal, or with an exponent a double.

    Raises:
        InvalidStatement: it is too large for a double, lacks digits, as in `1e`, or has too many.
    """
    if "e" not in text.lower():
        return Decimal(text) if "." in text else whole(text)
    try:
        found = float(text)
    except ValueError:
        raise InvalidStatement(f"{text} is no number; text needs quotes: 'a'") from None
    if math.isinf(found):
        raise InvalidStatement(f"{text} is larger than every DOUBLE, which ends at 1.8e308")
    return found


def whole(text: str) -> int:
    """The whole number of a literal.

    Raises:
        InvalidStatement: it has more digits than any type holds, which Python may refuse to read.
    """
    if len(text) > _MOST_DIGITS:
        told = f"{text[:20]}… is a number of {len(text.lstrip('-')):,} digits"
        raise InvalidStatement(f"{told}, and {_MOST_DIGITS} are the most")
    return int(text)
