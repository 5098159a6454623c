"""Rows of a primary-key table in merge order: what merge engines and changelogs work on."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """Key-value rows, those of one key side by side, the later overriding the earlier.

    `rows` has the columns of data files: `_KEY_…`, `_SEQUENCE_NUMBER`, `_VALUE_KIND`, then
    the table's own. They are ordered by key, by the table's sequence fields, by sequence
    number. `starts` holds the position of each key's first row. `origins` says which
    file of those read a row comes from, `positions` which of that file's rows it is;
    both are empty where rows do not come from files.
    """

    rows: pa.Table
    starts: np.ndarray
    origins: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    positions: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def key_count(self) -> int:
        return len(self.starts)

    @property
    def ends(self) -> np.ndarray:
        """The position after each key's last row."""
        return np.append(self.starts[1:], self.rows.num_rows)
