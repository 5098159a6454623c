"""An engine on which others do something to the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakewright.storage.operations.running.engine import Result, Task


@dataclass(frozen=True)
class Meddling:
    """Implements `Engine`; others act once the tasks are done, or before the first of them."""

    after: Callable[[], object] = lambda: None
    before: Callable[[], object] = lambda: None
    name: str = "meddling"
    may_repeat: bool = True

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        self.before()
        results = [function(task) for task in tasks]
        self.after()
        return results
