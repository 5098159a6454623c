"""What the scans of captured tables share: a beginning, chunks of a key, and typed batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa

from lakewright.connectors.rests import Facts
from lakewright.connectors.runtime import Offset, Scan, Split
from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.rows import ROW_KIND_COLUMN

# A key as texts of the server.
Key = Sequence[str]


class CapturingScan(Scan):
    """Reads a table in chunks of its key, and then its changes, which have no end."""

    is_bounded = False

    def earliest(self) -> Offset:
        return {"phase": "begin"}

    @abstractmethod
    def edges(self, after: Key | None, until: Key | None) -> Sequence[Key]:
        """The keys at which chunks between two keys end, without the last one."""

    def chunks(self, start: Offset, end: Offset, rests: Facts) -> Sequence[Split]:
        """The splits of chunks between two offsets; `rests` are the facts behind them."""
        after, until = start.get("after"), end.get("after")
        ends = [after, *self.edges(after, until), until]
        return [("chunk", begin, upto, rests) for begin, upto in pairwise(ends)]


def batch_with_kinds(
    columns: Sequence[pa.Array], kinds: Sequence[str], fields: Sequence[DataField]
) -> pa.RecordBatch:
    """Columns of rows with the kind of each."""
    schema = to_arrow_schema(fields).append(pa.field(ROW_KIND_COLUMN, pa.string()))
    return pa.record_batch([*columns, pa.array(kinds, pa.string())], schema=schema)
