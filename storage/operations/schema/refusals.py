"""Refused changes as findings: those that are impossible, and those that only wait for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakewright.storage.errors import StorageError
from lakewright.storage.spec.schema_change import (
    AddColumn,
    ChangeTableComment,
    MoveColumn,
    RenameColumn,
    ResetOption,
    SchemaChange,
    SetOption,
    path_of,
    path_text,
)
from lakewright.storage.spec.schema_change_text import shown
from lakewright.storage.spec.schema_gate import Finding, Rule, Severity


@dataclass(frozen=True, slots=True)
class Refusal:
    """A change that was not applied, and its error; `change` is None for the result of all.

    `waits_for` is an earlier change of the same plan that was refused. Without it the gate cannot
    tell whether this one is possible.
    """

    change: SchemaChange | None
    error: StorageError
    waits_for: SchemaChange | None = None

    @property
    def finding(self) -> Finding:
        column = getattr(self.change, "column", None)
        details: dict[str, object] = {"error": type(self.error).__name__}
        if self.waits_for is None:
            return Finding(
                rule=Rule.REFUSED,
                severity=Severity.BREAKING,
                column=column,
                message=self.error.message,
                # The message of an error ends with it.
                way_out="",
                details=details,
            )
        what = "the result" if self.change is None else f"the change to {shown(self.change)}"
        return Finding(
            rule=Rule.REFUSED,
            severity=Severity.INFO,
            column=column,
            message=f"{what} cannot be judged without an earlier change, to "
            f"{shown(self.waits_for)}, which is refused",
            way_out="solve that one first",
            details=details,
        )


def refusals_of(refused: Sequence[tuple[SchemaChange | None, StorageError]]) -> tuple[Refusal, ...]:
    """The refusals in their order, each with the earlier one that it waits for, if any."""
    found: list[Refusal] = []
    for change, error in refused:
        earlier = (each.change for each in found if each.change is not None)
        waits_for = next((each for each in earlier if _needs(change, error, each)), None)
        found.append(Refusal(change, error, waits_for))
    return tuple(found)


def _needs(change: SchemaChange | None, error: StorageError, earlier: SchemaChange) -> bool:
    """Whether a change may have failed because an earlier one was not applied."""
    if isinstance(earlier, (SetOption, ResetOption)):
        return _names(error.message, earlier.name)
    if isinstance(earlier, ChangeTableComment):
        return False
    left = _left_by(earlier)
    if change is None or isinstance(change, (SetOption, ResetOption, ChangeTableComment)):
        return _names(error.message, left[-1])
    return any(path[: len(left)] == left for path in _named_by(change))


def _left_by(change: AddColumn | RenameColumn | SchemaChange) -> tuple[str, ...]:
    """The path of the column that a change would leave."""
    path = _path(change)
    return (*path[:-1], change.new_name) if isinstance(change, RenameColumn) else path


def _named_by(change: SchemaChange) -> Iterator[tuple[str, ...]]:
    path = _path(change)
    yield path
    position = change.position if isinstance(change, (AddColumn, MoveColumn)) else None
    if position is not None and position.neighbour is not None:
        yield (*path[:-1], position.neighbour)


def _path(change: SchemaChange) -> tuple[str, ...]:
    try:
        return path_of(getattr(change, "column", ""))
    except StorageError:
        # It was refused for that.
        return ("",)


def _names(message: str, name: str) -> bool:
    quoted = re.escape(name)
    shown_name = re.escape(path_text((name,)))
    return bool(name) and bool(re.search(rf"(?<![\w.-])({quoted}|{shown_name})(?![\w-])", message))
