"""A reader of changelogs, which checks what readers rely on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.oracles.client import Change
from tests.support.histories.drawing import PARTITION, Overwrite, Row


@dataclass
class Replay:
    """The rows of a table, rebuilt from its changelog only."""

    keys: tuple[str, ...]
    rows: dict[str, Row] = field(default_factory=dict)
    # Whether a change happened that changelogs do not contain.
    lost: bool = False
    # The old value of an update whose new value must come next.
    _pending: str | None = None

    def apply(self, changes: Iterable[Change]) -> None:
        """Apply changes, each of which must fit the present rows."""
        for change in changes:
            key = self._key(change.row)
            there = self.rows.get(key)
            assert self._pending in (None, key), f"no +U for {self._pending} before {change}"
            match change.kind:
                case "+I":
                    assert there is None, f"{change} although there is {there}"
                    self.rows[key] = change.row
                case "-U":
                    assert there == change.row, f"{change} although there is {there}"
                    self._pending = key
                case "+U":
                    assert self._pending == key, f"{change} without a -U before it"
                    self.rows[key] = change.row
                    self._pending = None
                case "-D":
                    assert there == change.row, f"{change} although there is {there}"
                    del self.rows[key]
        assert self._pending is None, f"no +U for {self._pending}"

    def upsert(self, changes: Iterable[Change]) -> None:
        """Apply changes as upserts, without a check against the present rows."""
        for change in changes:
            key = self._key(change.row)
            self.rows.pop(key, None)
            if change.kind in ("+I", "+U"):
                self.rows[key] = change.row

    def overwrite(self, step: Overwrite) -> None:
        """Apply an overwrite, whose removed rows are not in the changelog."""
        touched = {row.get(PARTITION) for row in step.rows}
        gone = touched if step.target == "dynamic" else {step.target}
        self.rows = {
            key: row
            for key, row in self.rows.items()
            if step.target is not None and row.get(PARTITION) not in gone
        }

    def reset(self, rows: Iterable[Row]) -> None:
        """Start from these rows."""
        self.lost = False
        self.rows = {self._key(row): row for row in rows}

    def _key(self, row: Row) -> str:
        return json.dumps([row[name] for name in self.keys])


def comparable_changes(changes: Sequence[Change], keys: Sequence[str]) -> list[Any]:
    """Changes sorted by key, in their order within a key, which two tables share."""
    return sorted(
        ((each.kind, each.row) for each in changes),
        key=lambda change: json.dumps([change[1][name] for name in keys]),
    )
