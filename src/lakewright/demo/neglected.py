"""A small warehouse that no one maintained: many commits of a few rows, and files of dead writers.

It is written by a clock that is set back by some weeks, so that its snapshots are old today.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from lakewright.storage import Catalog, Table
from lakewright.storage.env import SystemEnv
from lakewright.storage.errors import InvalidRequestError

_DAY_MS = 86_400_000
_OLDEST_MS, _NEWEST_MS = 30 * _DAY_MS, 3 * _DAY_MS
_ROWS = 40
_DAYS = 2
_COLUMNS = {"day": "STRING NOT NULL", "id": "BIGINT NOT NULL", "amount": "BIGINT", "note": "STRING"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Neglected:
    """A table, the number of its commits, and of the files that dead writers left in it."""

    name: str
    commits: int
    keyed: bool = False
    orphans: int = 0
    options: Mapping[str, str] = field(default_factory=dict)


_TABLES = (
    _Neglected(name="logs.clicks", commits=30, orphans=4),
    _Neglected(name="logs.errors", commits=9),
    _Neglected(name="logs.visits", commits=24, options={"file.format": "orc"}),
    _Neglected(name="shop.orders", commits=24, keyed=True, options={"bucket": "1"}),
    _Neglected(name="shop.payments", commits=12, keyed=True, options={"bucket": "1"}),
)


@dataclass(frozen=True, slots=True)
class _EarlierEnv(SystemEnv):
    """The machine's clock, set back."""

    earlier_ms: int

    def now_ms(self) -> int:
        return SystemEnv.now_ms(self) - self.earlier_ms


def make_neglected(warehouse: str) -> tuple[str, ...]:
    """Make the tables that are not there, in a folder; their names.

    Raises:
        InvalidRequestError: the warehouse is not a folder of this machine.
    """
    first = _earlier(warehouse, _OLDEST_MS)
    if first.fs.scheme != "file":
        raise InvalidRequestError(
            f"{first.uri} is not on a local disk, where files can be made old"
        )
    made = [each for each in _TABLES if not first.table_exists(each.name)]
    for each in made:
        table = first.create_table(
            each.name,
            _COLUMNS,
            partition_keys=["day"],
            primary_keys=["day", "id"] if each.keyed else [],
            options=dict(each.options),
        )
        for number in range(each.commits):
            passed_ms = (_OLDEST_MS - _NEWEST_MS) * number // each.commits
            then = _earlier(warehouse, _OLDEST_MS - passed_ms)
            then.table(each.name).write(_rows(each, number))
        _leave_orphans(table, each.orphans)
    return tuple(each.name for each in made)


def _earlier(warehouse: str, earlier_ms: int) -> Catalog:
    return Catalog.open(warehouse, env=_EarlierEnv(earlier_ms), durable=False)


def _rows(table: _Neglected, number: int) -> pa.Table:
    first = 0 if table.keyed else number * _ROWS
    return pa.table(
        {
            "day": [f"2026-01-{1 + number % _DAYS:02}"] * _ROWS,
            "id": list(range(first, first + _ROWS)),
            "amount": [number * each for each in range(_ROWS)],
            "note": [f"commit {number} of {table.name}"] * _ROWS,
        }
    )


def _leave_orphans(table: Table, count: int) -> None:
    """Copies of data files under names that no snapshot has, as old as the first commits."""
    for file in _some_files(Path(table.table_files.paths.root), count):
        orphan = file.with_name(file.name.replace("data-", "data-dead"))
        shutil.copy(file, orphan)
        old = file.stat().st_mtime - _OLDEST_MS / 1000
        os.utime(orphan, (old, old))


def _some_files(folder: Path, count: int) -> Iterator[Path]:
    yield from sorted(folder.glob("day=*/bucket-*/data-*"))[:count]
