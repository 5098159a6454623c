"""Paths of source files: a file, a folder or a pattern, whose `{column}` are partition columns.

`/data/dt={dt}/*.csv` takes the value of `dt` from the names of folders, `{dt:%Y/%m/%d}` from three
levels of them, and `sales_{dt:%Y%m%d}.csv` from the name of the file.
"""

from __future__ import annotations

import datetime as dt
import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote

from lakewright.platform.documents.wrong_places import did_you_mean
from lakewright.platform.tables.partition_keys import PartitionColumn
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.data_types import AtomicType, TypeRoot
from lakewright.storage.spec.values import Value, from_python

# Not `${…}`, which is a variable.
_PLACE = re.compile(r"(?<!\$)\{([^{}:]*)(?::([^{}]*))?\}")
_WILD = re.compile(r"[*?\[]")
_ANY_DEPTH = "**"
# The names that Paimon, Hive and Spark give to the folder of null.
NULL_FOLDERS = ("__DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__")
# A moment whose parts all differ shows a layout that leaves one of them out.
_PROBE = dt.datetime(2013, 12, 30, 23, 45)


@dataclass(frozen=True, slots=True)
class PathPart:
    """One name of a pattern: of a folder, or at the end of a file.

    `columns` has the column of each group of the expression, and the layout of its text if given.
    """

    text: str
    expression: re.Pattern[str] | None = None
    columns: tuple[tuple[str, str | None], ...] = ()

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
        is_null = any(text in NULL_FOLDERS for text in texts)
        return None if name.startswith(hidden) and not is_null else texts


@dataclass(frozen=True, slots=True)
class SourcePath:
    """A path of source files.

    `base` is the folder before the first name that is a pattern, `parts` are the names from there.
    Without parts, the base is a file or a folder.
    """

    text: str
    base: str
    parts: tuple[PathPart, ...]

    @classmethod
    def parse(cls, text: str) -> SourcePath:
        """A path as it is declared."""
        # A layout may have levels: each becomes a place of its own.
        leveled = _PLACE.sub(_each_level, text)
        scheme, mark, path = leveled.rpartition("://")
        names = path.split("/")
        wild = next((at for at, name in enumerate(names) if _is_pattern(name)), len(names))
        base = scheme + mark + "/".join(names[:wild])
        if wild and names[:wild] == [""]:
            base = "/"
        parts = tuple(_part(name) for name in names[wild:] if name)
        return cls(text, base or ".", parts)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns whose values the path tells, each once."""
        return tuple(dict.fromkeys(name for each in self.parts for name, _ in each.columns))

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
        self, texts: Mapping[str, Sequence[str]], columns: Sequence[PartitionColumn]
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
        found: dict[str, Value] = {}
        for column in columns:
            held = texts.get(column.name, ())
            if not held or len(held) < wanted.get(column.name, 0):
                continue
            if any(text in NULL_FOLDERS for text in held):
                found[column.name] = None
            elif column.name in layouts:
                moment = _moment(" ".join(map(unquote, held)), layouts[column.name])
                found[column.name] = _of_moment(moment, column)
            else:
                if len(set(held)) > 1:
                    raise InvalidRequestError(f"{column.name} has two values: {', '.join(held)}")
                found[column.name] = from_python(unquote(held[0]), column.type)
        return found


def check_path(text: str, columns: Sequence[PartitionColumn]) -> Iterator[str]:
    """What is wrong with a path, for a table with these partition columns."""
    path = SourcePath.parse(text)
    known = {column.name: column for column in columns}
    for name in path.column_names:
        if name not in known:
            near = did_you_mean(name, known) if known else "the table has no partition_keys"
            yield f"{{{name}}} is not a partition key; {near}"
    for name, layout in path.layouts.items():
        if name in known:
            yield from _check_layout(layout, known[name])
    for name, places in _places(path).items():
        given = [layout for layout in places if layout is not None]
        if given and len(given) < len(places):
            yield f"{{{name}}} has a layout in one place and none in another; give it in both"


def _places(path: SourcePath) -> dict[str, list[str | None]]:
    found: dict[str, list[str | None]] = {}
    for part in path.parts:
        for name, layout in part.columns:
            found.setdefault(name, []).append(layout)
    return found


def _check_layout(layout: str, column: PartitionColumn) -> Iterator[str]:
    root = column.type.root if isinstance(column.type, AtomicType) else None
    if root is not TypeRoot.DATE and root is not TypeRoot.TIMESTAMP and not (root and root.is_text):
        yield (
            f"{{{column.name}:{layout}}} is a layout of dates, and {column.name} is {column.type}; "
            "leave the layout out"
        )
        return
    read: dt.datetime | None = None
    with suppress(InvalidRequestError):
        read = _moment(_PROBE.strftime(layout), layout)
    if read is None or read.date() != _PROBE.date():
        yield (
            f"{layout!r} is not a strptime layout that gives a day; write such as "
            f"{{{column.name}:%Y/%m/%d}}"
        )
    elif root is not TypeRoot.TIMESTAMP and read != dt.datetime(2013, 12, 30):
        yield f"{layout!r} gives a time of day, which {column.name} {column.type} does not hold"


def _moment(text: str, layout: str) -> dt.datetime:
    try:
        # A partition column without a zone holds local times.
        return dt.datetime.strptime(text, layout)  # noqa: DTZ007
    except ValueError:
        raise InvalidRequestError(f"{text!r} does not have the layout {layout!r}") from None


def _of_moment(moment: dt.datetime, column: PartitionColumn) -> Value:
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


def _is_pattern(name: str) -> bool:
    return bool(_WILD.search(name) or _PLACE.search(name))


def _part(name: str) -> PathPart:
    if not _is_pattern(name) or name == _ANY_DEPTH:
        return PathPart(name)
    expression, end = "", 0
    columns: list[tuple[str, str | None]] = []
    for place in _PLACE.finditer(name):
        expression += _of_wildcards(name[end : place.start()]) + "(.+?)"
        columns.append((place[1], place[2]))
        end = place.end()
    expression += _of_wildcards(name[end:])
    return PathPart(name, re.compile(expression, re.DOTALL), tuple(columns))


def _of_wildcards(text: str) -> str:
    """The expression of a part of a name with the wildcards of a shell."""
    # It is closed by an end of text, and stands in a larger expression here.
    translated = fnmatch.translate(text)
    return re.sub(r"\\[Zz]$", "", translated)
