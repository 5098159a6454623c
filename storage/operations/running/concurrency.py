"""Using the machine's other cores: reading ahead, and several pieces of work at once.

Arrow and numpy let go of Python's lock while they work, so threads suffice. With one
core, as an `Env` may say, everything runs in the caller's thread and in order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

from lakewright.storage.env import Env

Item = TypeVar("Item")
Result = TypeVar("Result")


def ahead(env: Env, items: Generator[Item, None, None]) -> Generator[Item, None, None]:
    """The same items, the next one made while the caller works on the last.

    They are closed when no more are asked for, and so are the files that they are read from.
    """
    if env.cores() == 1:
        yield from items
        return
    end = object()
    # A generator that runs cannot be closed, so the thread ends before.
    with closing(items) as iterator, ThreadPoolExecutor(1) as thread:
        following = thread.submit(next, iterator, end)
        while (item := following.result()) is not end:
            following = thread.submit(next, iterator, end)
            yield item  # type: ignore[misc]


def map_concurrently(
    env: Env, function: Callable[[Item], Result], items: Sequence[Item]
) -> list[Result]:
    """Results in the order of the items, as many at once as there are cores.

    Raises:
        Exception: what the function raised for the first item that failed, once all are done.
    """
    workers = min(env.cores(), len(items))
    if workers <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(workers) as threads:
        return list(threads.map(function, items))
