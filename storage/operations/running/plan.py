"""Plans: values that describe what a verb would do, with a JSON form.

Planning changes nothing. A caller may show, keep or send a plan. A run carries the plan out, or
refuses it because the table has changed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

from lakewright.storage.codec.json_values import read_object
from lakewright.storage.codec.typed_json import value_of
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.file_names import UnsafeName, place_below
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.values import StoredNumber

# The key of a moment in its stored form, which Python has no value for.
_STORED = "%stored"
# What the run of a plan returns.
ResultT = TypeVar("ResultT")


class Plan(Shown, Generic[ResultT]):
    """A dataclass that describes what a verb would do to a table, and the type of its result."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def table(self) -> str:
            """The name of the table, a field of each plan."""
            ...

    @property
    def work_bytes(self) -> int | None:
        """The bytes that a run reads or writes on an engine; None if it needs none."""
        return None

    def to_json(self) -> str:
        """The plan as JSON; values without a JSON form, such as dates, become text."""
        data = _in_json(asdict(self))  # type: ignore[call-overload]
        return json.dumps(data, default=_as_json, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`; values without a JSON form stay text, which plans accept.

        Raises:
            InvalidRequestError: the text is not JSON, a part is missing or has a wrong type, or a
                path of the plan lies outside of the table.
        """
        own = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        try:
            data = read_object(text)
            # A program that shows a plan may add fields of its own: ignore them.
            return value_of(
                cls, {name: _of_json(each) for name, each in data.items() if name in own}
            )
        except ValueError as error:
            raise InvalidRequestError(str(error)) from error


def check_bucket_count(count: int) -> None:
    """Check that a plan's bucket count is at least one and within the format's limit.

    Raises:
        InvalidRequestError: the count is out of range.
    """
    if not 0 < count < 2**31:
        raise InvalidRequestError(
            f"a plan gives a partition {count} buckets, and 1 to {2**31 - 1} are possible; plan "
            "again"
        )


def check_ids(ids: Sequence[int], table: str) -> None:
    """Check that a plan's ids of snapshots or changelogs are positive and increase.

    Raises:
        InvalidRequestError: an id is not positive, or not above the one before it.
    """
    for before, each in pairwise((0, *ids)):
        if each <= before:
            raise InvalidRequestError(
                f"a plan for {table} names {each} after {before}, and ids are positive and "
                "increase; plan again"
            )


@dataclass(frozen=True, slots=True)
class UnreachableFile:
    """A file to delete, by a path below the table's root."""

    path: str
    size_bytes: int

    def __post_init__(self) -> None:
        # A plan is untrusted input, and this path will be deleted.
        try:
            place_below(self.path)
        except UnsafeName as error:
            raise InvalidRequestError(str(error)) from None
        if self.size_bytes < 0:
            raise InvalidRequestError(
                f"a plan gives {self.path} a size of {self.size_bytes} bytes; plan again"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionPlan(Plan[ResultT]):
    """What a verb would delete: at least files that nothing else references."""

    table: str
    files: tuple[UnreachableFile, ...]

    def __post_init__(self) -> None:
        paths = {file.path for file in self.files}
        if len(paths) < len(self.files):
            raise InvalidRequestError(
                f"a plan for {self.table} names {len(self.files)} files, and {len(paths)} of them "
                "are different; plan again"
            )

    @property
    def bytes(self) -> int:
        """Size of the files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def metadata_bytes(self) -> int:
        """Size of those that are manifests, or lists of them."""
        return sum(
            file.size_bytes for file in self.files if "manifest" in file.path.split("/")[:-1]
        )


class RewriteTask(Protocol):
    """A part of a table whose files are replaced by files with the same rows."""

    @property
    def partition(self) -> dict[str, object]: ...

    @property
    def files(self) -> tuple[str, ...]: ...

    @property
    def bytes(self) -> int: ...

    @property
    def rows(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritePlan(Plan[ResultT]):
    """What a verb would rewrite, as of one snapshot."""

    # Whether the rewrite gives rows the order that `clustering.incremental` asks for.
    sorts: ClassVar[bool] = False

    table: str
    snapshot_id: int | None
    tasks: tuple[RewriteTask, ...]

    @property
    def work_bytes(self) -> int | None:
        return self.bytes_before if self.tasks else None

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


def check_table(plan: Plan[Any], files: TableFiles) -> None:
    """Check that a plan is for a table.

    Raises:
        InvalidRequestError: it is for another one.
    """
    if plan.table != files.name:
        raise InvalidRequestError(f"the plan is for {plan.table}, and this is {files.name}")


def _in_json(value: object) -> object:
    """The value without what JSON lacks: NaN, infinities, and numbers that are moments."""
    match value:
        case dict():
            return {key: _in_json(each) for key, each in value.items()}
        case list() | tuple():
            return [_in_json(each) for each in value]
        case float() if not math.isfinite(value):
            return str(value)
        case StoredNumber():
            return {_STORED: int(value)}
        case _:
            return value


def _of_json(value: object) -> object:
    match value:
        case {"%stored": int(number)}:
            return StoredNumber(number)
        case dict():
            return {key: _of_json(each) for key, each in value.items()}
        case list():
            return [_of_json(each) for each in value]
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
