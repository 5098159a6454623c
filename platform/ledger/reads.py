"""How often tables are read, as far as query engines' logs tell: a table of the warehouse.

A read leaves no trace in a table, so that somebody has to count: a job that sums up the log of an
engine appends a row for each partition and day to `lakewright.reads`, in which then any client may
write. Upkeep takes the tables and partitions first that are read most.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.predicate import And, Leaf, Operator

READS = "lakewright.reads"
# The mean is that of the last days that have ended.
DAYS = 7
_COMMENT = "how often the partitions of this warehouse's tables were read on a day"
_COLUMNS = {
    "table_name": "STRING NOT NULL",
    "partition_key": "STRING",
    "reads": "BIGINT NOT NULL",
    "day": "STRING NOT NULL",
}
_OPTIONS = {
    "partition.expiration-time": "60 d",
    "partition.timestamp-pattern": "$day",
    "partition.timestamp-formatter": "yyyy-MM-dd",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCount:
    """How often a partition was read on a day (UTC); without a key, the whole table.

    The key is that of the partition in Dagster: `2013-12-03`, or `dt=2013-12-03/hh=07` of several
    columns.
    """

    day: str
    table: str
    partition: str | None
    reads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyReads:
    """The reads of a table a day: those of the whole table, and of single partitions."""

    whole: float = 0.0
    partitions: Mapping[str, float] = field(default_factory=dict)

    def of(self, key: str) -> float:
        """How often a partition is read a day."""
        return self.whole + self.partitions.get(key, 0.0)


@dataclass(slots=True)
class Reads:
    """The counted reads of a warehouse; making this value reads nothing."""

    catalog: Catalog
    name: str = READS
    _known: tuple[object, Mapping[str, DailyReads]] = (None, field(default_factory=dict))

    def exists(self) -> bool:
        return self.catalog.table_exists(self.name)

    def create(self) -> Table:
        """The table; it is made if it is missing.

        Raises:
            InvalidRequestError: a table of the name is another's.
        """
        table = self.catalog.create_table(
            self.name,
            _COLUMNS,
            partition_keys=["day"],
            comment=_COMMENT,
            options=_OPTIONS,
            if_not_exists=True,
        )
        _check_own(table)
        return table

    def record(self, counts: Sequence[ReadCount]) -> None:
        """Append counts in one commit; counts of one partition and day add up.

        Raises:
            InvalidRequestError: a day is no date, or a number is negative.
            StorageError: the table cannot be written.
        """
        for count in counts:
            _check(count)
        if not counts:
            return
        table = self.create()
        rows = [
            {
                "table_name": count.table,
                "partition_key": count.partition,
                "reads": count.reads,
                "day": count.day,
            }
            for count in counts
        ]
        table.write(pa.Table.from_pylist(rows, schema=table.arrow_schema))

    def daily(self, *, now_ms: int) -> Mapping[str, DailyReads]:
        """By table, the mean of the last seven days that have ended (UTC).

        Nothing is read again before the next day or commit.
        """
        if not self.exists():
            return {}
        table = self.catalog.table(self.name)
        _check_own(table)
        today = dt.datetime.fromtimestamp(now_ms / 1000, dt.UTC).date()
        snapshot = table.history.latest_snapshot()
        state = (table.uuid, None if snapshot is None else snapshot.id, today)
        if self._known[0] != state:
            first = today - dt.timedelta(days=DAYS)
            rows = table.read(
                And(
                    (
                        Leaf("day", Operator.GE, (first.isoformat(),)),
                        Leaf("day", Operator.LT, (today.isoformat(),)),
                    )
                )
            )
            self._known = (state, _means(rows))
        return self._known[1]


def _means(rows: pa.Table) -> dict[str, DailyReads]:
    counted = rows.filter(pc.greater(rows.column("reads"), 0))
    sums = counted.group_by(["table_name", "partition_key"]).aggregate([("reads", "sum")])
    whole: dict[str, float] = {}
    partitions: dict[str, dict[str, float]] = {}
    for row in sums.to_pylist():
        name, key, mean = row["table_name"], row["partition_key"], row["reads_sum"] / DAYS
        if key is None:
            whole[name] = mean
        else:
            partitions.setdefault(name, {})[key] = mean
    names: Iterable[str] = sorted(whole.keys() | partitions.keys())
    return {
        name: DailyReads(whole=whole.get(name, 0.0), partitions=partitions.get(name, {}))
        for name in names
    }


def _check(count: ReadCount) -> None:
    try:
        is_day = dt.date.fromisoformat(count.day).isoformat() == count.day
    except ValueError:
        is_day = False
    if not is_day:
        raise InvalidRequestError(
            f"{count.day!r} is no day of reads of {count.table}; write it as 2013-12-03"
        )
    if count.reads < 0:
        raise InvalidRequestError(
            f"{count.table} cannot have been read {count.reads} times; give 0 or more"
        )


def _check_own(table: Table) -> None:
    missing = _COLUMNS.keys() - {each.name for each in table.schema.fields}
    if missing or table.schema.primary_keys:
        raise InvalidRequestError(
            f"{table.name} has no counts of reads: it has no column {min(missing, default='day')!r}"
            ", or a primary key; rename that table"
        )
