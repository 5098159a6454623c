"""What all plans are: values that say what a verb would do, and travel as JSON.

A plan is made without changing anything, may be shown, kept or sent elsewhere, and is
carried out as it stands or refused because the table has changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Protocol, Self, Union, get_args, get_origin, get_type_hints

from lakewright.storage.errors import InvalidRequestError


class Plan:
    """A dataclass that says what a verb would do to a table."""

    __slots__ = ()

    def to_json(self) -> str:
        """The plan as JSON; values that are no JSON, such as dates of partitions, as text."""
        return json.dumps(asdict(self), default=_as_json)  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`; values that are no JSON come back as text, which plans take.

        Raises:
            InvalidRequestError: the text is no JSON, or a part of it is missing or is not what it
                should be; the message says where.
        """
        try:
            loaded = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidRequestError(f"it is no JSON: {error}") from error
        data = _checked(Mapping, loaded, "")
        # Whoever shows a plan may put beside it what is no part of it.
        own = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        plan = _read(cls, {name: value for name, value in data.items() if name in own}, "")
        assert isinstance(plan, cls)
        return plan


@dataclass(frozen=True, slots=True)
class UnreachableFile:
    """A file to delete; a path below the table's root."""

    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionPlan(Plan):
    """What a verb would take away: at least files, each of them kept by nothing else."""

    table: str
    files: tuple[UnreachableFile, ...]

    @property
    def bytes(self) -> int:
        """Size of the files."""
        return sum(file.size_bytes for file in self.files)


class RewriteTask(Protocol):
    """A part of a table whose files become other ones, holding the same rows."""

    @property
    def files(self) -> tuple[str, ...]: ...

    @property
    def bytes(self) -> int: ...

    @property
    def rows(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritePlan(Plan):
    """What a verb would write anew, as of one snapshot."""

    table: str
    snapshot_id: int | None
    tasks: tuple[RewriteTask, ...]

    @property
    def files_before(self) -> int:
        return sum(len(task.files) for task in self.tasks)

    @property
    def bytes_before(self) -> int:
        return sum(task.bytes for task in self.tasks)

    @property
    def rows(self) -> int:
        """Rows to read, before merging."""
        return sum(task.rows for task in self.tasks)


def _as_json(value: object) -> object:
    match value:
        case Enum():
            return value.value
        case bytes():
            return value.hex()
        case _:
            return str(value)


def _read(kind: Any, data: Any, place: str) -> Any:
    """A value of a type that plans are made of, from JSON; `place` is where it stands."""
    if get_origin(kind) in (Union, UnionType):
        (present,) = (each for each in get_args(kind) if each is not NoneType)
        return None if data is None else _read(present, data, place)
    if get_origin(kind) is tuple:
        item, _ = get_args(kind)
        items = enumerate(_checked(list, data, place))
        return tuple(_read(item, each, f"{place}[{at}]") for at, each in items)
    if isinstance(kind, type) and is_dataclass(kind):
        return _read_parts(kind, _checked(Mapping, data, place), place)
    if isinstance(kind, type) and issubclass(kind, Enum):
        known = [each.value for each in kind]
        if data not in known:
            raise InvalidRequestError(f"{place}: {data!r} is none of {', '.join(map(str, known))}")
        return kind(data)
    return _checked(get_origin(kind) or kind, data, place)


def _read_parts(kind: type[Any], given: Mapping[str, Any], place: str) -> Any:
    hints = get_type_hints(kind)
    inside = f"{place}." if place else ""
    known = fields(kind)
    for name in sorted(given.keys() - {field.name for field in known}):
        raise InvalidRequestError(f"{inside}{name} is no part of a plan")
    for field in known:
        is_needed = field.default is MISSING and field.default_factory is MISSING
        if is_needed and field.name not in given:
            raise InvalidRequestError(f"{inside}{field.name} is missing")
    read = {name: _read(hints[name], value, f"{inside}{name}") for name, value in given.items()}
    return kind(**read)


_KINDS = {
    int: "a whole number",
    bool: "true or false",
    str: "text",
    list: "a list",
    Mapping: "an object",
    dict: "an object",
}


def _checked(kind: Any, data: Any, place: str) -> Any:
    # A truth value would pass for a number.
    if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        wanted = _KINDS.get(kind) or kind.__name__
        raise InvalidRequestError(f"{place or 'the whole'}: {data!r} is not {wanted}")
    return data
