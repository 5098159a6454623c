"""The request loop of a contestant: one request and one answer per line."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.measure import measured

Request = dict[str, Any]
# The number of rows, and the sum of the column that reveals wrong merges.
Outcome = tuple[int | None, float | None]
# Preparing a request is not timed, the work that it returns is, and computing the outcome is not.
Work = Callable[[], Callable[[], Outcome]]
Prepare = Callable[[Request], Work]


def serve(operations: Mapping[str, Prepare]) -> None:
    """Answer requests until standard input ends, after each request's optional `warm` part.

    Standard output carries only answers: other output goes to standard error.
    """
    answers = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    with os.fdopen(answers, "w", encoding="utf-8") as out:
        for line in sys.stdin:
            request = json.loads(line)
            try:
                answer = _answer(operations, request)
            except Exception as error:  # noqa: BLE001 - a failure is an answer
                traceback.print_exc(file=sys.stderr)
                answer = {"error": f"{type(error).__name__}: {error}"}
            out.write(json.dumps(answer) + "\n")
            out.flush()


def _answer(operations: Mapping[str, Prepare], request: Request) -> dict[str, Any]:
    name = request["operation"]
    first: dict[str, Any] = {}
    if "warm" in request:
        # Only the figures are kept: the rows would count as memory of the next request.
        first = measured(operations[name](request["warm"]))[1]
    outcome, taken = measured(operations[name](request))
    rows, checksum = outcome()
    return {**taken, "rows": rows, "checksum": checksum, "first": first}


def where(request: Request) -> str | None:
    """The filter of a request, as text."""
    if "day" in request:
        return f"day = '{request['day']}'"
    return f"id < {request['below']}" if "below" in request else None


def nothing_to_check() -> Outcome:
    """The outcome of work whose rows a later read of the table checks."""
    return None, None
