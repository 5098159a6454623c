"""Paths of source files: a file, a folder or a pattern, whose `{column}` are partition columns.

`/data/dt={dt}/*.csv` takes the value of `dt` from the names of folders, `{dt:%Y/%m/%d}` from three
levels of them, and `sales_{dt:%Y%m%d}.csv` from the name of the file.
"""

from __future__ import annotations

import datetime as dt
import fnmatch
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.data_types import AtomicType, DataType, TypeRoot
from lakewright.storage.spec.partition import DEFAULT_PARTITION_NAME, escape_path
from lakewright.storage.spec.values import Value, from_python

# Not `${…}`, which is a variable.
_PLACE = re.compile(r"(?<!\$)\{([^{}:]*)(?::([^{}]*))?\}")
_WILD = re.compile(r"[*?\[]")
_ANY_DEPTH = "**"
# The names that Hive and Spark, and those that all of them and Paimon give to the folder of null.
HIVE_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
NULL_FOLDERS = (DEFAULT_PARTITION_NAME, HIVE_NULL_FOLDER)
# The texts of directives of `strptime` that always have as many characters.
_OF_FIXED_LENGTH = {"Y": r"\d{4}", "j": r"\d{3}", "f": r"\d{6}", "%": "%"}
_OF_FIXED_LENGTH |= dict.fromkeys("ymdHIMSUW", r"\d{2}")


class Typed(Protocol):
    """A column whose value a path says."""

    @property
    def name(self) -> str: ...

    @property
    def type(self) -> DataType: ...


@dataclass(frozen=True, slots=True)
class PathPart:
    """One name of a pattern: of a folder, or at the end of a file.

    `columns` has the column of each group of the expression, and the layout of its text if given.
    `nulls` are the texts that stand for null.
    """

    text: str
    expression: re.Pattern[str] | None = None
    columns: tuple[tuple[str, str | None], ...] = ()
    nulls: Collection[str] = NULL_FOLDERS

    @property
    def is_any_depth(self) -> bool:
        return self.text == _ANY_DEPTH

    def matches(self, name: str) -> tuple[str, ...] | None:
        """The texts of the columns in a name; None if the name is another."""
        if self.expression is None:
            return () if name == self.text else None
        found = self.expression.fullmatch(name)
        if found is None:
            return None
        texts = found.groups()
        # As in a shell, a wildcard finds no hidden name; one of `_temporary` is no partition.
        hidden = (".", "_") if self.columns else (".",)
        is_null = any(text in self.nulls for text in texts)
        return None if name.startswith(hidden) and not is_null else texts


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A path of files.

    `base` is the folder before the first name that is a pattern, `parts` are the names from there.
    Without parts, the base is a file or a folder. `nulls` are the names of the folder of null.
    """

    text: str
    base: str
    parts: tuple[PathPart, ...]
    nulls: Collection[str] = NULL_FOLDERS

    @classmethod
    def parse(cls, text: str, *, has_columns: bool = True) -> PathPattern:
        """A path as it is declared; without columns, only wildcards have a meaning."""
        # A layout may have levels: each becomes a place of its own.
        leveled = _PLACE.sub(_each_level, text) if has_columns else text
        scheme, mark, path = leveled.rpartition("://")
        names = path.split("/")
        wild = next(
            (at for at, name in enumerate(names) if _is_pattern(name, has_columns)), len(names)
        )
        base = scheme + mark + "/".join(names[:wild])
        if wild and names[:wild] == [""]:
            base = "/"
        parts = tuple(_part(name, has_columns) for name in names[wild:] if name)
        return cls(text, base or ".", parts)

    @classmethod
    def of_keys(
        cls, base: str, keys: Sequence[str], *, only_values: bool, nulls: Collection[str]
    ) -> PathPattern:
        """The folders `key=value` of partitions, or with `only_values` those of values alone."""
        parts = []
        for key in keys:
            names = {re.escape(key), re.escape(escape_path(key))}
            begin = "" if only_values else f"(?:{'|'.join(sorted(names))})="
            expression = re.compile(rf"{begin}(.*)", re.DOTALL)
            text = f"{{{key}}}" if only_values else f"{key}={{{key}}}"
            parts.append(PathPart(text, expression, ((key, None),), nulls))
        return cls(base, base, tuple(parts), nulls)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns whose values the path tells, each once."""
        return tuple(dict.fromkeys(name for part in self.parts for name, _ in part.columns))

    @property
    def layouts(self) -> Mapping[str, str]:
        """The layouts of moments by column, joined where several names tell one."""
        found: dict[str, list[str]] = {}
        for part in self.parts:
            for name, layout in part.columns:
                if layout is not None:
                    found.setdefault(name, []).append(layout)
        return {name: " ".join(layouts) for name, layouts in found.items()}

    def values(
        self, texts: Mapping[str, Sequence[str]], columns: Sequence[Typed]
    ) -> dict[str, Value]:
        """The values of the columns whose texts are complete.

        Raises:
            InvalidRequestError: a text is not a value of its column.
        """
        wanted: dict[str, int] = {}
        for part in self.parts:
            for name, _ in part.columns:
                wanted[name] = wanted.get(name, 0) + 1
        layouts = self.layouts
        parts: dict[str, Value] = {}
        for column in columns:
            held = texts.get(column.name, ())
            if not held or len(held) < wanted.get(column.name, 0):
                continue
            if any(text in self.nulls for text in held):
                parts[column.name] = None
            elif column.name in layouts:
                moment = read_moment(" ".join(map(unquote, held)), layouts[column.name])
                parts[column.name] = _of_moment(moment, column)
            else:
                if len(set(held)) > 1:
                    raise InvalidRequestError(f"{column.name} has two values: {', '.join(held)}")
                parts[column.name] = folder_value(held[0], column, self.nulls)
        return parts


def folder_value(text: str, column: Typed, nulls: Collection[str] = NULL_FOLDERS) -> Value:
    """The value that a folder's name says of a column.

    Raises:
        InvalidRequestError: the text is not a value of the column.
    """
    return None if text in nulls else from_python(unquote(text), column.type)


def values_of_folders(folders: Sequence[str], columns: Mapping[str, Typed]) -> dict[str, Value]:
    """The values of columns that folders `key=value` say; others say nothing.

    Raises:
        InvalidRequestError: names the folder whose name is no value of its column.
    """
    found: dict[str, Value] = {}
    for folder in folders:
        key, is_pair, text = folder.partition("=")
        column = columns.get(unquote(key)) if is_pair else None
        if column is None:
            continue
        try:
            found[column.name] = folder_value(text, column)
        except InvalidRequestError as error:
            raise InvalidRequestError(
                f"folder {folder} is no value of column {column.name}: {error.message}",
                column=column.name,
            ) from error
    return found


def read_moment(text: str, layout: str) -> dt.datetime:
    """A text as a moment.

    Raises:
        InvalidRequestError: it does not have the layout.
    """
    try:
        # A partition column without a zone holds local times.
        return dt.datetime.strptime(text, layout)  # noqa: DTZ007
    except ValueError:
        raise InvalidRequestError(f"{text!r} does not have the layout {layout!r}") from None


def _of_moment(moment: dt.datetime, column: Typed) -> Value:
    assert isinstance(column.type, AtomicType)
    if column.type.root is TypeRoot.TIMESTAMP:
        return from_python(moment, column.type)
    if column.type.root is TypeRoot.DATE:
        return from_python(moment.date(), column.type)
    return from_python(moment.date().isoformat(), column.type)


def _each_level(place: re.Match[str]) -> str:
    name, layout = place.groups()
    if layout is None or "/" not in layout:
        return place.group()
    return "/".join(f"{{{name}:{level}}}" for level in layout.split("/"))


def unclear_places(path: PathPattern) -> list[str]:
    """The places of columns beside a wildcard or another place: where their values end is unclear.

    A layout whose directives all have a fixed length says it.
    """
    found = []
    for part in path.parts:
        for place in _PLACE.finditer(part.text):
            before, after = part.text[: place.start()], part.text[place.end() :]
            beside = before.endswith(("*", "?", "]", "}")) or after.startswith(("*", "?", "[", "{"))
            if beside and _fixed(place[2]) is None:
                found.append(place.group())
    return found


def _fixed(layout: str | None) -> str | None:
    """The expression of texts of a layout; None if they have no fixed length."""
    if layout is None:
        return None
    pieces = re.split(r"%(.)", layout)
    directives = [_OF_FIXED_LENGTH.get(piece) for piece in pieces[1::2]]
    if None in directives:
        return None
    texts = [re.escape(piece) for piece in pieces[::2]]
    pairs = zip(texts, [*directives, ""], strict=True)
    return "".join(f"{text}{directive}" for text, directive in pairs)


def _is_pattern(name: str, has_columns: bool) -> bool:
    return bool(_WILD.search(name) or (has_columns and _PLACE.search(name)))


def _part(name: str, has_columns: bool) -> PathPart:
    if not _is_pattern(name, has_columns) or name == _ANY_DEPTH:
        return PathPart(name)
    expression, end = "", 0
    columns: list[tuple[str, str | None]] = []
    for place in _PLACE.finditer(name) if has_columns else ():
        # A folder `p=` holds the empty text.
        value = _fixed(place[2]) or ".*?"
        expression += f"{_of_wildcards(name[end : place.start()])}({value})"
        columns.append((place[1], place[2]))
        end = place.end()
    expression += _of_wildcards(name[end:])
    return PathPart(name, re.compile(expression, re.DOTALL), tuple(columns))


def _of_wildcards(text: str) -> str:
    """The expression of a part of a name with the wildcards of a shell."""
    # It is closed by an end of text, and stands in a larger expression here.
    translated = fnmatch.translate(text)
    return re.sub(r"\\[Zz]$", "", translated)
