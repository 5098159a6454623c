"""Rejects: the bad rows of a table's runs, kept in a table beside it until they are settled.

1. A run upserts its bad rows, each by an id of its own, right before it publishes the others: a
   crash in between loses none, and a retry of the run finds the same ids.
2. Once it has published, what earlier runs rejected of the same files is `replaced`, in the
   partitions that it wrote; an append replaces nothing.
3. A replay settles rows as `replayed`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from lakewright.platform.tables.declarations import TableDeclaration, rejects_name
from lakewright.storage import Catalog, Table
from lakewright.storage.file_reader.bad_rows import BadRow
from lakewright.storage.spec.data_types import parse_data_type
from lakewright.storage.spec.schema import Column, SchemaSpec

REJECTS_COLUMNS = {
    "id": ("STRING NOT NULL", "the same for each try of the run"),
    "source": ("STRING", "the file, or the function"),
    "line": ("BIGINT", "where the row begins in a file of text"),
    "text": ("STRING", "the row as the file has it, or as an object of JSON"),
    "reason": ("STRING", "why the row was not taken"),
    "column_name": ("STRING", "the column that does not fit"),
    "partition_name": ("STRING", "the partition of the row, where it is known"),
    "run": ("STRING", "the user of the run's commits"),
    "rejected_at": ("TIMESTAMP_LTZ(3)", "when the run kept the row"),
    "state": ("STRING", "open, replaying, replayed, or replaced by a later run"),
    "settled_by": ("STRING", "the user of the commits that settled it"),
    "settled_at": ("TIMESTAMP_LTZ(3)", "when it was settled"),
    "reading": ("STRING", "how a replay reads the text"),
}
OPEN, REPLAYING, REPLAYED, REPLACED = "open", "replaying", "replayed", "replaced"
STATES = (OPEN, REPLAYING, REPLAYED, REPLACED)
_AT = pa.timestamp("ms", tz="UTC")


@dataclass(frozen=True, kw_only=True)
class Rejects:
    """The rejects of one table; `hidden` are secrets of its source, by variable."""

    catalog: Catalog
    table: str
    hidden: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        return rejects_name(self.table)

    def keep(self, rows: Sequence[BadRow], run: str) -> None:
        """Keep the bad rows of a run; those that an earlier try of it kept are not kept twice."""
        if not rows:
            return
        now = self.catalog.env.now_ms()
        kept, seen = [], Counter[tuple[str, int | None, str]]()
        for row in rows:
            source = self._shown(row.source)
            what = source, row.line, row.text
            seen[what] += 1
            kept.append(
                {
                    "id": _digest(run, *what, seen[what]),
                    "source": source,
                    "line": row.line,
                    "text": row.text,
                    "reason": self._shown(row.reason),
                    "column_name": row.column,
                    "partition_name": row.partition,
                    "run": run,
                    "rejected_at": now,
                    "state": OPEN,
                    "reading": json.dumps(
                        {"header": row.header, "form": row.form.value, "told": row.told}
                    ),
                }
            )
        spec = SchemaSpec(
            columns=tuple(
                Column(name, parse_data_type(kind), comment)
                for name, (kind, comment) in REJECTS_COLUMNS.items()
            ),
            primary_keys=("id",),
            options={"bucket": "1"},
            comment=f"Rows that {self.table} did not take.",
        )
        made = self.catalog.create_table(self.name, spec, if_not_exists=True)
        made.write(_as_table(kept), commit_user=run)

    def _shown(self, text: str) -> str:
        for name, value in self.hidden.items():
            text = text.replace(value, f"${{{name}}}")
        return text

    def found(self) -> Table | None:
        """The table, None if nothing was rejected yet."""
        return self.catalog.table(self.name) if self.catalog.table_exists(self.name) else None

    def rows(self, *states: str) -> list[dict[str, Any]]:
        """The rows in these states."""
        table = self.found()
        if table is None:
            return []
        texts = ", ".join(f"'{state}'" for state in states)
        found = table.read(f"state IN ({texts})")
        for name in ("rejected_at", "settled_at"):
            at = found.column_names.index(name)
            found = found.set_column(at, name, found.column(name).cast(_AT).cast(pa.int64()))
        rows: list[dict[str, Any]] = found.to_pylist()
        return sorted(rows, key=lambda each: (each["source"], each["line"] or 0, each["id"]))

    def counts(self) -> dict[str, int]:
        """The number of rows in each state that any has."""
        table = self.found()
        if table is None:
            return {}
        states = Counter(table.read(columns=["state"]).column("state").to_pylist())
        return {name: states[name] for name in STATES if states[name]}

    def settle(self, rows: Sequence[Mapping[str, Any]], state: str, by: str | None) -> None:
        """Give rows another state."""
        table = self.found()
        if not rows or table is None:
            return
        now = None if by is None else self.catalog.env.now_ms()
        changed = [{**row, "state": state, "settled_by": by, "settled_at": now} for row in rows]
        table.write(_as_table(changed), commit_user=by)

    def replace(
        self,
        run: str,
        *,
        sources: Collection[str] | None,
        written: Callable[[str], bool],
    ) -> None:
        """Settle what earlier runs rejected of sources that a run has read again; None for any.

        `written` says of a partition whether the run wrote it.
        """
        shown = None if sources is None else {self._shown(source) for source in sources}
        replaced = [
            row
            for row in self.rows(OPEN)
            if row["run"] != run
            and (shown is None or row["source"] in shown)
            and (
                # Rows of an unknown partition are judged anew wherever their source is read.
                shown is not None
                if row["partition_name"] is None
                else written(row["partition_name"])
            )
        ]
        self.settle(replaced, REPLACED, run)


def rejects_of(
    catalog: Catalog, declaration: TableDeclaration, hidden: Mapping[str, str]
) -> Rejects | None:
    """What keeps the bad rows of a declared table; None if they are not kept."""
    if not declaration.keeps_rejects:
        return None
    return Rejects(catalog=catalog, table=declaration.table, hidden=hidden)


def _digest(*parts: object) -> str:
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def _as_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    types = {"line": pa.int64(), "rejected_at": _AT, "settled_at": _AT}
    return pa.table(
        {
            name: pa.array([row.get(name) for row in rows], types.get(name, pa.string()))
            for name in REJECTS_COLUMNS
        }
    )
