"""Column types: the tree a schema's `type` strings and objects stand for.

Source: Paimon specification, chapter Schema. A type prints as the format
writes it (`DECIMAL(10, 2) NOT NULL`), nested ones in the SQL form
(`ARRAY<INT>`, `ROW<a INT, b STRING>`), which `parse_data_type` reads back.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import NoReturn

from lakewright.storage.errors import InvalidSchema, UnsupportedError

# Lengths have 32 bits.
_MOST_DIGITS = 10
# Every part of the library descends into a type by recursion, in stacks of any depth.
_MOST_NESTED = 100
# How much of a type's text an error shows.
_MOST_SHOWN = 200

# 2^31-1: the length that makes VARCHAR a STRING and VARBINARY a BYTES.
MAX_LENGTH = 2**31 - 1
MAX_DECIMAL_PRECISION = 38


class TypeRoot(Enum):
    """Families of atomic types; the value is the name that schemas hold."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DECIMAL = "DECIMAL"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"

    @property
    def is_text(self) -> bool:
        return self in (TypeRoot.CHAR, TypeRoot.VARCHAR)

    @property
    def is_bytes(self) -> bool:
        return self in (TypeRoot.BINARY, TypeRoot.VARBINARY)

    @property
    def is_integer(self) -> bool:
        return self in INTEGER_BITS

    @property
    def is_floating(self) -> bool:
        return self in (TypeRoot.FLOAT, TypeRoot.DOUBLE)

    @property
    def is_timestamp(self) -> bool:
        return self in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


INTEGER_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}


@dataclass(frozen=True, slots=True)
class AtomicType:
    """A type without parts.

    `length` is for text and bytes, `precision` for decimals, times and
    timestamps, `scale` for decimals; the others hold 0.
    """

    root: TypeRoot
    nullable: bool = True
    length: int = 0
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return _atomic_name(self) + _null_suffix(self)


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An ordered list of one element type."""

    element: DataType
    nullable: bool = True

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>{_null_suffix(self)}"


@dataclass(frozen=True, slots=True)
class MapType:
    """Unique keys with a value each."""

    key: DataType
    value: DataType
    nullable: bool = True

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>{_null_suffix(self)}"


@dataclass(frozen=True, slots=True)
class MultisetType:
    """Elements with how often each occurs."""

    element: DataType
    nullable: bool = True

    def __str__(self) -> str:
        return f"MULTISET<{self.element}>{_null_suffix(self)}"


@dataclass(frozen=True, slots=True)
class DataField:
    """A named, typed column or row member; its `id` outlives renames and type changes."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None


@dataclass(frozen=True, slots=True)
class RowType:
    """A fixed sequence of named fields."""

    fields: tuple[DataField, ...]
    nullable: bool = True

    def __str__(self) -> str:
        inner = ", ".join(f"{quote_name(field.name)} {field.type}" for field in self.fields)
        return f"ROW<{inner}>{_null_suffix(self)}"


@dataclass(frozen=True, slots=True)
class OpaqueType:
    """A type whose values are not decoded, such as VARIANT.

    `text` is the type as schema files hold it, without its nullability: text, or a JSON object's.
    """

    text: str
    nullable: bool = True

    def __str__(self) -> str:
        if not self.text.startswith("{"):
            return self.text + _null_suffix(self)
        name, *parts = map(str, json.loads(self.text).values())
        return f"{name}<{', '.join(parts)}>{_null_suffix(self)}"


DataType = AtomicType | ArrayType | MapType | MultisetType | RowType | OpaqueType

STRING = AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH)
BYTES = AtomicType(TypeRoot.VARBINARY, length=MAX_LENGTH)


def not_null(data_type: DataType) -> DataType:
    """The same type, its values required."""
    return replace(data_type, nullable=False)


def nested_fields(data_type: DataType) -> Iterator[DataField]:
    """Every row member inside a type, depth first."""
    match data_type:
        case RowType(fields=fields):
            for field in fields:
                yield field
                yield from nested_fields(field.type)
        case ArrayType(element=inner) | MultisetType(element=inner):
            yield from nested_fields(inner)
        case MapType(key=key, value=value):
            yield from nested_fields(key)
            yield from nested_fields(value)
        case AtomicType() | OpaqueType():
            return


def quote_name(name: str) -> str:
    """A name as the SQL form of a type writes it, in backticks where it must be."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return name
    return "`" + name.replace("`", "``") + "`"


def quote_parts(name: str) -> str:
    """The name of a table, `database.table`, as SQL writes it."""
    return ".".join(quote_name(part) for part in name.split("."))


def _null_suffix(data_type: DataType) -> str:
    return "" if data_type.nullable else " NOT NULL"


def _atomic_name(data_type: AtomicType) -> str:
    match data_type.root:
        case TypeRoot.VARCHAR if data_type.length == MAX_LENGTH:
            return "STRING"
        case TypeRoot.VARBINARY if data_type.length == MAX_LENGTH:
            return "BYTES"
        case TypeRoot.CHAR | TypeRoot.VARCHAR | TypeRoot.BINARY | TypeRoot.VARBINARY:
            return f"{data_type.root.value}({data_type.length})"
        case TypeRoot.DECIMAL:
            return f"DECIMAL({data_type.precision}, {data_type.scale})"
        case TypeRoot.TIME | TypeRoot.TIMESTAMP:
            return f"{data_type.root.value}({data_type.precision})"
        case TypeRoot.TIMESTAMP_LTZ:
            return f"TIMESTAMP({data_type.precision}) WITH LOCAL TIME ZONE"
        case root:
            return str(root.value)


def opaque_type(text: str) -> OpaqueType | None:
    """A type of schema files that this release does not know; None if it knows the name."""
    name = re.match(r"[A-Za-z_][A-Za-z0-9_]*", text)
    if name is None or name[0].upper() in _KNOWN_NAMES:
        return None
    required = re.search(r"\s+NOT\s+NULL\s*$", text, re.IGNORECASE)
    plain = text[: required.start()] if required else text
    return OpaqueType(plain, required is None)


def is_opaque(data_type: DataType) -> bool:
    """Whether values of a type, or parts of them, are not decoded."""
    match data_type:
        case AtomicType() | OpaqueType():
            return isinstance(data_type, OpaqueType)
        case ArrayType(element=element) | MultisetType(element=element):
            return is_opaque(element)
        case MapType(key=key, value=value):
            return is_opaque(key) or is_opaque(value)
        case RowType(fields=fields):
            return any(is_opaque(field.type) for field in fields)


def not_decoded(data_type: DataType, column: str | None = None) -> UnsupportedError:
    """The error for a column whose values somebody asks for."""
    named = "a column" if column is None else f"column {column}"
    return UnsupportedError(
        f"{named} is of type {data_type}, whose values are not read or written by this release; "
        "leave it out of the columns",
        **({} if column is None else {"column": column}),
    )


# --- reading ---------------------------------------------------------------------------------

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|'(?:[^']|'')*'|[A-Za-z_][A-Za-z0-9_]*|\d+|[<>(),])")

# Other spellings the format's own parser takes.
_ALIASES = {
    "INTEGER": TypeRoot.INT,
    "NUMERIC": TypeRoot.DECIMAL,
    "DEC": TypeRoot.DECIMAL,
}
# Names of other systems, and the type that is meant.
_NAMES_ELSEWHERE = {
    "BOOL": "BOOLEAN",
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "INT32": "INT",
    "LONG": "BIGINT",
    "INT64": "BIGINT",
    "REAL": "FLOAT",
    "FLOAT32": "FLOAT",
    "FLOAT64": "DOUBLE",
    "NUMBER": "DECIMAL(p, s)",
    "STR": "STRING",
    "TEXT": "STRING",
    "BYTEA": "BYTES",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMP_NTZ": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMP WITH LOCAL TIME ZONE",
    "LIST": "ARRAY<…>",
}
_LATER_TYPES = {"VARIANT", "BLOB", "VECTOR", "GEOMETRY", "GEOGRAPHY"}
_UNSIZED = {"STRING", "BYTES", "ARRAY", "MAP", "MULTISET", "ROW"}
_KNOWN_NAMES = {*TypeRoot.__members__, *_ALIASES, *_UNSIZED}


def parse_data_type(text: str, *, lengths_required: bool = False) -> DataType:
    """Read a type from its printed form.

    Members of rows get id -1; a schema gives them their ids. In the format a text or bytes type
    without a length has the length 1; `lengths_required` refuses it, as a person rarely means it.

    Raises:
        InvalidSchema: the text is not a type of the format, or its numbers are out of range.
    """
    parser = _Parser(text, lengths_required=lengths_required)
    result = parser.data_type()
    parser.expect_end()
    return result


class _Parser:
    """Recursive descent over the tokens of one type."""

    def __init__(self, text: str, *, lengths_required: bool) -> None:
        self.text = text
        self.lengths_required = lengths_required
        self.tokens: list[str] = []
        position = 0
        stripped = text.rstrip()
        while position < len(stripped):
            match = _TOKEN.match(stripped, position)
            if match is None:
                raise InvalidSchema(
                    f"type {text!r} is not understood at {stripped[position:]!r}; "
                    "write for example BIGINT, DECIMAL(10, 2) NOT NULL or ARRAY<INT>"
                )
            self.tokens.append(match.group(1))
            position = match.end()
        self.position = 0
        self.depth = 0

    def data_type(self) -> DataType:
        self.depth += 1
        if self.depth > _MOST_NESTED:
            self._fail(f"it is nested more than {_MOST_NESTED} times")
        inner = self._without_nullability()
        self.depth -= 1
        if self._accept("NOT"):
            self._expect("NULL")
            return replace(inner, nullable=False)
        self._accept("NULL")
        return inner

    def expect_end(self) -> None:
        if self.position != len(self.tokens):
            self._fail(f"unexpected {self.tokens[self.position]!r}")

    def _without_nullability(self) -> DataType:
        word = self._next().upper()
        match word:
            case "ARRAY":
                return ArrayType(self._bracketed())
            case "MULTISET":
                return MultisetType(self._bracketed())
            case "MAP":
                self._expect("<")
                key = self.data_type()
                self._expect(",")
                value = self.data_type()
                self._expect(">")
                return MapType(key, value)
            case "ROW" | "STRUCT":
                return self._row()
            case "STRING":
                return STRING
            case "BYTES":
                return BYTES
            case "DOUBLE":
                self._accept("PRECISION")
                return AtomicType(TypeRoot.DOUBLE)
            case "CHAR" | "VARCHAR" | "BINARY" | "VARBINARY":
                return self._sized(TypeRoot(word))
            case "DECIMAL" | "NUMERIC" | "DEC":
                return self._decimal()
            case "TIME":
                return AtomicType(TypeRoot.TIME, precision=self._precision(default=0))
            case "TIMESTAMP":
                return self._timestamp()
            case "TIMESTAMP_LTZ":
                return AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=self._precision(default=6))
            case _ if word in _LATER_TYPES:
                self._fail(f"{word} is not implemented")
            case _:
                root = _ALIASES.get(word) or TypeRoot.__members__.get(word)
                if root is None:
                    self._fail(f"{word} is not a type{_did_you_mean(word)}")
                return AtomicType(root)

    def _bracketed(self) -> DataType:
        self._expect("<")
        inner = self.data_type()
        self._expect(">")
        return inner

    def _row(self) -> RowType:
        self._expect("<")
        fields = []
        while True:
            name = self._next()
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            fields.append(DataField(-1, name, self.data_type()))
            if not self._accept(","):
                break
        self._expect(">")
        return RowType(tuple(fields))

    def _sized(self, root: TypeRoot) -> AtomicType:
        numbers = self._numbers()
        if not numbers and self.lengths_required:
            whole = "STRING" if root.is_text else "BYTES"
            self._fail(f"{root.value} has no length; write {whole} or {root.value}(n)")
        length = numbers[0] if numbers else 1
        if not 1 <= length <= MAX_LENGTH:
            self._fail(f"length {length} is not between 1 and {MAX_LENGTH}")
        return AtomicType(root, length=length)

    def _decimal(self) -> AtomicType:
        numbers = self._numbers() or [10]
        precision = numbers[0]
        scale = numbers[1] if len(numbers) > 1 else 0
        if not 1 <= precision <= MAX_DECIMAL_PRECISION:
            self._fail(f"precision {precision} is not between 1 and {MAX_DECIMAL_PRECISION}")
        if not 0 <= scale <= precision:
            self._fail(f"scale {scale} is not between 0 and the precision {precision}")
        return AtomicType(TypeRoot.DECIMAL, precision=precision, scale=scale)

    def _timestamp(self) -> AtomicType:
        precision = self._precision(default=6)
        root = TypeRoot.TIMESTAMP
        if self._accept("WITH"):
            if self._accept("LOCAL"):
                root = TypeRoot.TIMESTAMP_LTZ
            else:
                self._fail("TIMESTAMP WITH TIME ZONE is not a type; use WITH LOCAL TIME ZONE")
            self._expect("TIME")
            self._expect("ZONE")
        elif self._accept("WITHOUT"):
            self._expect("TIME")
            self._expect("ZONE")
        return AtomicType(root, precision=precision)

    def _precision(self, *, default: int) -> int:
        numbers = self._numbers()
        precision = numbers[0] if numbers else default
        if not 0 <= precision <= 9:
            self._fail(f"precision {precision} is not between 0 and 9")
        return precision

    def _numbers(self) -> list[int]:
        if not self._accept("("):
            return []
        numbers = [self._number()]
        while self._accept(","):
            numbers.append(self._number())
        self._expect(")")
        return numbers

    def _number(self) -> int:
        token = self._next()
        if not (token.isascii() and token.isdigit() and len(token) <= _MOST_DIGITS):
            self._fail(f"{token[:_MOST_DIGITS]!r} is not a number of at most {_MOST_DIGITS} digits")
        return int(token)

    def _peek(self, token: str) -> bool:
        rest = self.tokens[self.position : self.position + 1]
        return bool(rest) and rest[0].upper() == token

    def _accept(self, token: str) -> bool:
        if self._peek(token):
            self.position += 1
            return True
        return False

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            found = self.tokens[self.position : self.position + 1] or ["the end"]
            self._fail(f"{token} expected, {found[0]} found")

    def _next(self) -> str:
        if self.position >= len(self.tokens):
            self._fail("it ends too early")
        self.position += 1
        return self.tokens[self.position - 1]

    def _fail(self, reason: str) -> NoReturn:
        shown = self.text if len(self.text) <= _MOST_SHOWN else f"{self.text[:_MOST_SHOWN]}…"
        raise InvalidSchema(f"type {shown!r} is not understood: {reason}")


def _did_you_mean(word: str) -> str:
    known = _KNOWN_NAMES - _ALIASES.keys()
    near = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    meant = _NAMES_ELSEWHERE.get(word) or (near[0] if near else None)
    return "" if meant is None else f"; did you mean {meant}?"
