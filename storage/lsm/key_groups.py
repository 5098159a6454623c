"""Rows of a primary-key table in merge order, the input of merge engines and changelogs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """Key-value rows with the rows of one key adjacent, older before newer.

    `rows` has the columns of data files: `_KEY_…`, `_SEQUENCE_NUMBER`, `_VALUE_KIND`, then
    the table's own. They are ordered by key, by the table's sequence fields, by sequence
    number. `starts` holds the position of each key's first row. `origins` holds the number of the
    file that each row comes from, `positions` its position in that file; both are empty for rows
    from elsewhere.
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
