"""Progress of a long command on a terminal: a spinner with the step's name, or a bar."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from lakewright.cli.output.terminal import console_of, is_terminal

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress, TaskID
    from rich.progress import Task as ProgressTask


class Steps(Protocol):
    """The receiver of a command's steps."""

    def begin(self, name: str, total: int | None = None) -> None:
        """Begin the next step; `parts` is the number of its parts, if known."""
        ...

    def advance(self, parts: int = 1) -> None:
        """Mark more parts of the step as done."""
        ...

    def reach(self, name: str, done: int, total: int | None) -> None:
        """Show how far the step is, under a name of its own; the total may change or be unknown."""
        ...


@contextmanager
def shown_steps() -> Iterator[Steps]:
    """Show steps on standard error while the block runs; a pipe shows none."""
    if not is_terminal(sys.stderr):
        yield _Silent()
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    class OfKnownTotal(ProgressColumn):
        """A column that is empty while the number of parts is unknown."""

        def __init__(self, column: ProgressColumn) -> None:
            super().__init__()
            self._column = column

        def render(self, task: ProgressTask) -> RenderableType:
            return "" if task.total is None else self._column.render(task)

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        OfKnownTotal(BarColumn(bar_width=30)),
        OfKnownTotal(MofNCompleteColumn()),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console_of(sys.stderr), transient=True) as progress:
        yield _Shown(progress)


class _Silent:
    def begin(self, name: str, total: int | None = None) -> None:
        pass

    def advance(self, parts: int = 1) -> None:
        pass

    def reach(self, name: str, done: int, total: int | None) -> None:
        pass


class _Shown:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None
        self._has_told = False

    def begin(self, name: str, total: int | None = None) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(name, total=total)
        self._has_told = False

    def advance(self, parts: int = 1) -> None:
        if self._task is not None:
            self._progress.advance(self._task, parts)

    def reach(self, name: str, done: int, total: int | None) -> None:
        if self._task is None:
            self.begin(name, total)
        assert self._task is not None
        # The first is drawn at once: a quick step may end before the next frame.
        self._progress.update(
            self._task, description=name, completed=done, total=total, refresh=not self._has_told
        )
        self._has_told = True
