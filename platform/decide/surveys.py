"""Recorded surveys: a table of the warehouse with the states that tables were seen in.

It is an append table, `lakewright.surveys`, partitioned by month (UTC). A state is recorded if it
differs from the one before: at most every ten minutes, and whenever upkeep acts on the table; one
that stays is recorded once a day. Rows of the warehouse's own records are left out, since each
recording would be a change of them. Its option `partition.expiration-time` lets months go after 400
days.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakewright.platform.decide.survey_rows import (
    FIGURES,
    HealthFigures,
    figures_of_row,
    fingerprint_of,
    is_placed,
    state_of_row,
    survey_columns,
    survey_row,
)
from lakewright.platform.decide.upkeep_state import UpkeepState
from lakewright.platform.ledger.action_rows import MONTH
from lakewright.platform.ledger.ledger import LEDGER, rows_where
from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.predicate import Predicate

SURVEYS, ALERTS = "lakewright.surveys", "lakewright.alerts"
# What Lakewright itself writes into a warehouse; it is kept also in shadow.
OWN_TABLES = frozenset({LEDGER, SURVEYS, ALERTS})
# Their expiry waits for so many snapshots, since its row in the ledger is a snapshot again.
LEAST_EXPIRED_OF_OWN = 10
_COMMENT = "the states of this warehouse's tables, as upkeep saw them"
_OPTIONS = {
    "partition.expiration-time": "400 d",
    "partition.timestamp-pattern": "$month-01",
    "partition.timestamp-formatter": "yyyy-MM-dd",
}
_KEY = ("table_name", "taken_ms")
_EVERY_MS = 600_000
# A state that holds is recorded again, so that no reader looks back for longer.
HOLDS_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Surveys:
    """The recorded surveys of a warehouse; making this value reads nothing."""

    catalog: Catalog
    name: str = SURVEYS

    def exists(self) -> bool:
        return self.catalog.table_exists(self.name)

    def create(self) -> Table:
        """The table; it is made if it is missing.

        Raises:
            InvalidRequestError: a table of the name is another's.
        """
        table = self.catalog.create_table(
            self.name,
            survey_columns(),
            partition_keys=[MONTH],
            comment=_COMMENT,
            options=_OPTIONS,
            if_not_exists=True,
        )
        missing = set(survey_columns()) - {each.name for each in table.schema.fields}
        if missing or table.schema.primary_keys:
            raise InvalidRequestError(
                f"{self.name} is not a table of Lakewright's surveys: it has no column "
                f"{min(missing, default=MONTH)!r}, or a primary key; rename that table"
            )
        return table

    def record(self, states: Sequence[UpkeepState]) -> None:
        """Append states in one commit.

        Raises:
            StorageError: the table cannot be written.
        """
        if not states:
            return
        table = self.create()
        names = table.arrow_schema.names
        rows = [{name: row.get(name) for name in names} for row in map(survey_row, states)]
        table.write(pa.Table.from_pylist(rows, schema=table.arrow_schema))

    def states(
        self, *, table: str | None = None, since_ms: int | None = None, most: int | None = None
    ) -> tuple[UpkeepState, ...]:
        """The states that were seen since a moment, oldest first; at most so many of a table."""
        where = rows_where("taken_ms", table_name=table, since_ms=since_ms)
        rows = self._thinned(where, [*_KEY, "state"], most)
        found = (state_of_row(row) for row in rows)
        states = [each for each in found if each is not None]
        return tuple(sorted(states, key=lambda each: (each.survey.taken_ms, each.survey.table)))

    def figures(
        self, *, table: str | None = None, since_ms: int | None = None, most: int | None = None
    ) -> tuple[HealthFigures, ...]:
        """The figures of tables since a moment, oldest first; at most so many of a table."""
        where = rows_where("taken_ms", table_name=table, since_ms=since_ms)
        found = [figures_of_row(row) for row in self._thinned(where, FIGURES, most)]
        return tuple(sorted(found, key=lambda each: (each.taken_ms, each.table)))

    def last(self, *, since_ms: int) -> dict[str, tuple[str, str, int]]:
        """By table its uuid, fingerprint and moment when it was last recorded."""
        columns = ["table_name", "table_uuid", "fingerprint", "taken_ms"]
        found: dict[str, tuple[str, str, int]] = {}
        where = rows_where("taken_ms", since_ms=since_ms)
        for row in sorted(self._read(where, columns), key=lambda row: int(row["taken_ms"])):
            found[row["table_name"]] = (row["table_uuid"], row["fingerprint"], row["taken_ms"])
        return found

    def _thinned(
        self, where: Predicate | None, columns: Iterable[str], most: int | None
    ) -> Iterator[dict[str, Any]]:
        """The rows; of a table with more than `most` those at even distances, and the last."""
        if most is None:
            yield from self._read(where, columns)
            return
        moments: dict[str, list[int]] = defaultdict(list)
        for row in self._read(where, _KEY):
            moments[row["table_name"]].append(row["taken_ms"])
        kept = {name: _some(sorted(these), most) for name, these in moments.items()}
        for row in self._read(where, columns):
            # What was recorded since the first reading is left to the next one.
            if row["taken_ms"] in kept.get(row["table_name"], ()):
                yield row

    def _read(self, where: Predicate | None, columns: Iterable[str]) -> Iterator[dict[str, Any]]:
        if self.exists():
            for batch in self.catalog.table(self.name).scan(where, [*columns]).batches():
                yield from (row for row in batch.to_pylist() if is_placed(row))


def _some(moments: Sequence[int], most: int) -> frozenset[int]:
    if len(moments) <= most:
        return frozenset(moments)
    step = len(moments) / most
    return frozenset((*(moments[int(at * step)] for at in range(most)), moments[-1]))


@dataclass(slots=True)
class SurveyLog:
    """Records the states of looks, each once, and remembers which ones were recorded."""

    surveys: Surveys
    _last: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    _is_read: bool = False
    _recorded_ms: int = 0
    _acted: set[str] = field(default_factory=set)

    def record(
        self, states: Mapping[str, UpkeepState], *, acting: Collection[str], now_ms: int
    ) -> int:
        """Record the states that changed, and return their number.

        Of the tables that upkeep is `acting` on, the state before is recorded at once, and the
        next state that is seen.

        Raises:
            StorageError: the recorded surveys cannot be read or written.
        """
        if not self._is_read:
            self._is_read = True
            self._last = self.surveys.last(since_ms=max(now_ms - 2 * HOLDS_MS, 0))
            self._recorded_ms = max((each[2] for each in self._last.values()), default=0)
        at_once = {*acting, *self._acted}
        is_time = now_ms - self._recorded_ms >= _EVERY_MS
        changed = [
            state
            for name, state in states.items()
            if name not in OWN_TABLES
            and (is_time or name in at_once)
            and self._is_news(state, now_ms)
        ]
        self.surveys.record(changed)
        for state in changed:
            name = state.survey.table
            self._last[name] = (state.survey.uuid, fingerprint_of(state), now_ms)
        self._acted = {*acting, *(self._acted - {each.survey.table for each in changed})}
        if changed:
            self._recorded_ms = now_ms
        return len(changed)

    def _is_news(self, state: UpkeepState, now_ms: int) -> bool:
        uuid, fingerprint, at_ms = self._last.get(state.survey.table, ("", "", 0))
        is_other = (state.survey.uuid, fingerprint_of(state)) != (uuid, fingerprint)
        return is_other or now_ms - at_ms >= HOLDS_MS
