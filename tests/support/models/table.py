"""A table as a plain list or dict: the expected rows of each read.

Rows are canonical (JSON values, `tests.oracles.canonical`), so -0.0 and 0.0 are two keys and all
NaNs are one, as in the format.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Spec = Mapping[str, Any]


@dataclass
class TableModel:
    """Append tables keep every row; keyed ones the last of each key."""

    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    rows: list[Row] = field(default_factory=list)

    def write(self, new: Iterable[Row], kinds: Sequence[str] | None = None) -> None:
        """Append, or upsert and delete by key, one row after the other."""
        listed = list(new)
        for row, kind in zip(listed, kinds or ["+I"] * len(listed), strict=True):
            if self.primary_keys:
                self.rows = [each for each in self.rows if self._key(each) != self._key(row)]
            if kind in ("+I", "+U"):
                self.rows.append(row)

    def overwrite(
        self, new: Iterable[Row], *, spec: Spec | None = None, dynamic: bool = False
    ) -> None:
        """Replace the rows of the partitions that match `spec`.

        With `dynamic`, only partitions of the new rows are replaced.
        """
        listed = list(new)
        touched = {self._partition(row) for row in listed}

        def stays(row: Row) -> bool:
            inside = all(row[name] == value for name, value in (spec or {}).items())
            return not inside or (dynamic and self._partition(row) not in touched)

        self.rows = [row for row in self.rows if stays(row)]
        self.write(listed)

    def comparable(self) -> list[str]:
        """The rows in the form of `tests.support.tables.builders.comparable`."""
        return sorted(json.dumps(row, sort_keys=True) for row in self.rows)

    def _key(self, row: Row) -> str:
        return json.dumps([row[name] for name in self.primary_keys])

    def _partition(self, row: Row) -> str:
        return json.dumps([row[name] for name in self.partition_keys])
