"""One request per line on standard input, one answer per line on standard output, both JSON."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Command = Callable[..., Any]
Describe = Callable[[BaseException], tuple[str, str]]


Where = Sequence[Sequence[Any]]


class Client:
    """What the drivers of clients have in common; `names` are the methods that are commands."""

    names = ""
    # The table of `open`.
    _opened: Any = None

    def commands(self) -> dict[str, Command]:
        return {name: getattr(self, name) for name in self.names.split()}

    def read(
        self,
        warehouse: str,
        table: str,
        snapshot: int | None = None,
        tag: str | None = None,
        where: Where = (),
        options: Mapping[str, str] | None = None,
    ) -> list[dict[str, Any]]:
        travel = dict(options or {})
        if snapshot is not None:
            travel["scan.snapshot-id"] = str(snapshot)
        if tag is not None:
            travel["scan.tag-name"] = tag
        return self._read(self._table(warehouse, table, travel), where)

    def open(self, warehouse: str, table: str) -> None:
        self._opened = self._table(warehouse, table)

    def read_opened(self, where: Where) -> list[dict[str, Any]]:
        return self._read(self._opened, where)

    def _table(self, warehouse: str, table: str, options: Mapping[str, str] | None = None) -> Any:
        raise NotImplementedError

    def _read(self, source: Any, where: Where) -> list[dict[str, Any]]:
        raise NotImplementedError


def describe_python(error: BaseException) -> tuple[str, str]:
    """Type and message of an error, its causes included."""
    messages: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        messages.append(f"{type(cause).__name__}: {cause}" if messages else str(cause))
        cause = cause.__cause__
    return type(error).__name__, "; caused by ".join(messages)


def take_over_stdout() -> int:
    """Keep standard output for answers: whatever else prints there goes to standard error."""
    answers = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return answers


def serve(
    commands: Mapping[str, Command],
    answers: int,
    describe: Describe = describe_python,
    alive: Callable[[], bool] = lambda: True,
) -> None:
    """Answer requests until standard input ends.

    A failing command does not end the loop; a client that is no longer alive does.
    """
    with os.fdopen(answers, "w", encoding="utf-8") as out:
        for line in sys.stdin:
            request = json.loads(line)
            try:
                answer = {"result": commands[request.pop("command")](**request)}
                text = json.dumps(answer, allow_nan=False)
            except Exception as error:  # noqa: BLE001 - every failure is an answer
                traceback.print_exc(file=sys.stderr)
                if not alive():
                    return
                kind, message = describe(error)
                text = json.dumps({"error": kind, "message": message})
            out.write(text + "\n")
            out.flush()
