"""What all plans are: values that say what a verb would do, and travel as JSON.

A plan is made without changing anything, may be shown, kept or sent elsewhere, and is
carried out as it stands or refused because the table has changed.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Protocol, Self

from lakewright.storage.codec.json_values import read_object
from lakewright.storage.codec.typed_json import value_of
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.file_names import UnsafeName, place_below


class Plan:
    """A dataclass that says what a verb would do to a table."""

    __slots__ = ()

    def to_json(self) -> str:
        """The plan as JSON; values that are no JSON, such as dates of partitions, as text."""
        data = _finite(asdict(self))  # type: ignore[call-overload]
        return json.dumps(data, default=_as_json, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`; values that are no JSON come back as text, which plans take.

        Raises:
            InvalidRequestError: the text is no JSON, a part is missing or something else than it
                should be, or a file that the plan names is none of the table.
        """
        own = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        try:
            data = read_object(text)
            # A program that shows a plan may put beside it what is no part of it.
            return value_of(cls, {name: value for name, value in data.items() if name in own})
        except ValueError as error:
            raise InvalidRequestError(str(error)) from error


@dataclass(frozen=True, slots=True)
class UnreachableFile:
    """A file to delete; a path below the table's root."""

    path: str
    size_bytes: int

    def __post_init__(self) -> None:
        # A plan may come from anywhere, and this one is about to delete.
        try:
            place_below(self.path)
        except UnsafeName as error:
            raise InvalidRequestError(str(error)) from None


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
    def partition(self) -> dict[str, object]: ...

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


def _finite(value: object) -> object:
    """The value with the numbers that JSON has not, NaN and infinities of partitions, as text."""
    match value:
        case dict():
            return {key: _finite(each) for key, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
        case float() if not math.isfinite(value):
            return str(value)
        case _:
            return value


def _as_json(value: object) -> object:
    match value:
        case Enum():
            return value.value
        case bytes():
            return value.hex()
        case _:
            return str(value)
