"""Verbs that can be taken back, on every kind of table, for tests of reverts.

A test compares with a twin: a table on which the same was done, but for the verb.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakewright.storage import Catalog, Table
from lakewright.storage.operations.running.engine import LocalEngine
from tests.support.tables.builders import compact, events, new_table, rows

_KEYS = ("day", "id")


@dataclass(frozen=True)
class Kind:
    """A kind of table, by day; `columns` are those of events by default."""

    keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def table(self, catalog: Catalog, name: str = "db.t") -> Table:
        return new_table(
            catalog, name=name, keys=self.keys, partitions=("day",), options=self.options
        )


KINDS: dict[str, Kind] = {
    "append": Kind(),
    "append in buckets": Kind(options={"bucket": "2", "bucket-key": "id"}),
    "keyed": Kind(_KEYS, {"bucket": "2"}),
    "dynamic": Kind(_KEYS, {"bucket": "-1", "dynamic-bucket.target-row-num": "3"}),
    "vectors": Kind(_KEYS, {"bucket": "1", "deletion-vectors.enabled": "true"}),
    "partial update": Kind(_KEYS, {"bucket": "1", "merge-engine": "partial-update"}),
    "aggregation": Kind(
        _KEYS,
        {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "listagg"},
    ),
    "first row": Kind(_KEYS, {"bucket": "1", "merge-engine": "first-row"}),
    "telling": Kind(_KEYS, {"bucket": "1", "changelog-producer": "input"}),
}
RETRACTING = ("keyed", "dynamic", "vectors", "telling")

Verb = Callable[[Table], object]


def _engine(table: Table) -> LocalEngine:
    return LocalEngine(env=table.table_files.env)


def _overwrite_partition(table: Table) -> object:
    return table.write(rows(table, events(1, 3, v="over")), mode="overwrite")


def _overwrite_all(table: Table) -> object:
    new = rows(table, events(7, 9, v="over"))
    return table.write(new, mode="overwrite", dynamic=False)


def _append(table: Table) -> object:
    return table.write(rows(table, [*events(2, 5, v="new"), *events(8, 9, day="new", v="new")]))


def _remove_rows(table: Table) -> object:
    return table.write(rows(table, events(0, 3), kinds=["-D"] * 3))


def _write_and_compact(table: Table) -> object:
    _append(table)
    return compact(table, full=True)


VERBS: dict[str, Verb] = {
    "compact": lambda table: compact(table, full=True),
    "sort": lambda table: table.upkeep.sort_compact(by=("id",)),
    "rescale": lambda table: table.upkeep.rescale(3, engine=_engine(table)),
    "drop": lambda table: table.upkeep.drop_partitions(partitions=[{"day": "a"}]),
    "expire partitions": lambda table: table.upkeep.drop_partitions("day >= 'a'"),
    "rename": lambda table: table.upkeep.rename_partition(
        {"day": "a"}, {"day": "z"}, engine=_engine(table)
    ),
    "overwrite a partition": _overwrite_partition,
    "overwrite all": _overwrite_all,
    "append": _append,
    "remove rows": _remove_rows,
    "write and compact": _write_and_compact,
}
_BUCKETED = ("append in buckets", "keyed", "vectors", "partial update", "aggregation", "telling")


def is_tried(kind: str, verb: str) -> bool:
    """Whether a kind of table has a verb."""
    match verb:
        case "rescale":
            return kind in _BUCKETED
        case "sort":
            return kind == "append"
        case "remove rows":
            return kind in RETRACTING
        case _:
            return True


PAIRS = [(kind, verb) for kind in KINDS for verb in VERBS if is_tried(kind, verb)]


def fill(table: Table) -> None:
    """Four commits in two days, whose keys overlap; a compaction is among them."""
    for number, day in enumerate("aba"):
        table.write(rows(table, events(number, number + 4, day=day, v=f"{day}{number}-")))
    compact(table, full=True)
    table.write(rows(table, events(1, 6, day="a", v="last-")))


def made_by(table: Table, verb: Callable[[Table], Any]) -> tuple[int, ...]:
    """The snapshots that a verb makes."""
    before = {each.id for each in table.history.snapshots()}
    verb(table)
    return tuple(each.id for each in table.history.snapshots() if each.id not in before)
