"""Uses the machine's other cores: reading ahead, and concurrent calls.

Arrow and numpy release Python's global lock, so threads suffice. With one core in `Env`, all work
runs in the caller's thread and in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

from lakewright.storage.env import Env

Item = TypeVar("Item")
Result = TypeVar("Result")


def ahead(env: Env, items: Generator[Item, None, None]) -> Generator[Item, None, None]:
    """The same items; a thread makes the next item while the caller works on the last.

    The generator is closed when the caller stops, and with it the files that it reads.
    """
    if env.cores() == 1:
        yield from items
        return
    end = object()
    # A running generator cannot be closed, so the thread must end first.
    with closing(items) as iterator, ThreadPoolExecutor(1) as thread:
        following = thread.submit(next, iterator, end)
        while (item := following.result()) is not end:
            following = thread.submit(next, iterator, end)
            yield item  # type: ignore[misc]


def map_concurrently(
    env: Env, function: Callable[[Item], Result], items: Sequence[Item]
) -> list[Result]:
    """Results in the order of the items; as many calls run at once as there are cores.

    Raises:
        Exception: the error of the first failed item, after all calls ended.
    """
    workers = min(env.cores(), len(items))
    if workers <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(workers) as threads:
        return list(threads.map(function, items))


def map_ahead(
    env: Env, function: Callable[[Item], Result], items: Sequence[Item], *, at_once: int
) -> Iterator[Result]:
    """Results in the order of the items, for calls that wait: at most `at_once` are not used yet.

    Raises:
        Exception: the error of the first failed item, after the calls that have begun ended.
    """
    if env.cores() == 1 or min(len(items), at_once) <= 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(at_once) as threads:
        begun: deque[Future[Result]] = deque()
        try:
            for item in items:
                if len(begun) == at_once:
                    yield begun.popleft().result()
                begun.append(threads.submit(function, item))
            while begun:
                yield begun.popleft().result()
        finally:
            for each in begun:
                each.cancel()
