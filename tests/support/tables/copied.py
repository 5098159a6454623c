"""A table that many tests begin with: made once by each process, then copied file by file."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from lakewright.storage import Catalog, Table
from tests.support.tables.environment import FixedClock, FixedEnv, SeededIds

# No environment of a test has these seeds: ids in copies and ids of tests never meet.
_SEEDS = itertools.count(0xC0000000)


@dataclass(frozen=True)
class _Made:
    name: str
    # By paths below the table.
    files: dict[str, bytes]
    now_ms: int


_made: dict[Hashable, _Made] = {}


def copied(catalog: Catalog, make: Callable[[Catalog], Table], *arguments: Hashable) -> Table:
    """The table that `make` makes in a warehouse, whose clock reads afterwards as if it had.

    `make` creates one table in an empty warehouse; `arguments` tell apart what it makes.
    """
    env = catalog.env
    if not isinstance(env, FixedEnv):
        # Other clocks and ids cannot be repeated.
        return make(catalog)
    key = (make.__module__, make.__qualname__, arguments, env.clock.now_ms, env.clock.step_ms)
    if key not in _made:
        clock = FixedClock(env.clock.now_ms, env.clock.step_ms)
        _made[key] = _make(make, FixedEnv(clock, SeededIds(next(_SEEDS))))
    made = _made[key]
    database, _, name = made.name.partition(".")
    root = f"{catalog.root}/{database}.db/{name}"
    for path, data in made.files.items():
        catalog.fs.write_bytes(f"{root}/{path}", data)
    env.clock.now_ms = made.now_ms
    return catalog.table(made.name)


def _make(make: Callable[[Catalog], Table], env: FixedEnv) -> _Made:
    with tempfile.TemporaryDirectory() as warehouse:
        table = make(Catalog.open(warehouse, env=env))
        fs, root = table.table_files.fs, table.table_files.paths.root
        files = {
            each.path.removeprefix(f"{root}/"): fs.read_bytes(each.path)
            for each in fs.list_tree(root)
        }
    return _Made(table.name, files, env.clock.now_ms)
