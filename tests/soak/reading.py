"""The soak's readers, each of which compares all tables with the model again and again."""

from __future__ import annotations

import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewright.connectors.log import unrelayed
from lakewright.storage import Catalog
from lakewright.storage.errors import StorageError
from lakewright.storage.operations.iceberg.metadata_files import MetadataFiles
from lakewright.storage.spec.log_options import has_log
from tests.oracles.client import Oracle, OracleError
from tests.soak.model import COLUMNS, Kind, Model
from tests.soak.source import ROWS
from tests.soak.writers import opened

INGESTED = "soak.ingested"
LATEST_BATCHES = 100
_DRIVER = Path(__file__).parents[1] / "oracles" / "duckdb_iceberg.py"
Rows = list[dict[str, Any]]
_REFUSED = (StorageError, OracleError, duckdb.Error, subprocess.CalledProcessError)


class NotYet(Exception):
    """There is nothing to read so far."""


@dataclass(frozen=True)
class Reader:
    """A client that reads: this library."""

    warehouse: Path
    name: str = "lakewright"

    def reads(self, kind: Kind | None) -> bool:
        """Whether it can read a table; None is the one that is ingested."""
        return kind is None or self.name not in kind.unread_by

    def is_behind(self, kind: Kind) -> bool:
        """Whether it sees commits later than they are made."""
        return False

    def rows(self, kind: Kind | None, since: int) -> Rows:
        """The rows, without those of earlier batches."""
        if kind is None:
            return list(Catalog.open(str(self.warehouse)).table(INGESTED).read().to_pylist())
        table = opened(str(self.warehouse), kind)
        return list(table.read(f"n >= {since}" if since else None).to_pylist())


@dataclass(frozen=True)
class Foreign(Reader):
    """A client of Paimon in a process of its own."""

    name: str = ""
    oracle: Oracle | None = None

    def rows(self, kind: Kind | None, since: int) -> Rows:
        assert self.oracle is not None
        table = INGESTED if kind is None else kind.table
        where = [("n", ">=", since)] if since else []
        return self.oracle.read(self.warehouse, table, where=where)


@dataclass(frozen=True)
class Duckdb(Reader):
    """DuckDB: folders of Parquet files, and Iceberg metadata where it has its extension."""

    name: str = "duckdb"
    python: Path = Path()

    def reads(self, kind: Kind | None) -> bool:
        return kind is not None and (kind.folders or (kind.published and self.python.exists()))

    def is_behind(self, kind: Kind) -> bool:
        return kind.published

    def rows(self, kind: Kind | None, since: int) -> Rows:
        assert kind is not None
        if kind.folders:
            files = f"{self.warehouse}/{kind.table.replace('.', '.db/')}/day=*/*.parquet"
            asked = f"FROM read_parquet('{files}', hive_partitioning = true) WHERE n >= {since}"
            with duckdb.connect() as connection:
                found = connection.execute(f"SELECT {', '.join(COLUMNS)} {asked}").fetchall()
            # The type of a partition is guessed from its folder.
            return [dict(zip(COLUMNS, (str(day), *row), strict=True)) for day, *row in found]
        table = Catalog.open(str(self.warehouse)).table(kind.table)
        metadata = MetadataFiles.of(table.table_files)
        version = metadata.hint()
        if version is None:
            raise NotYet
        with tempfile.TemporaryDirectory() as folder:
            output = f"{folder}/rows.parquet"
            command = [str(self.python), str(_DRIVER), metadata.version_path(version), output]
            subprocess.run(command, check=True, capture_output=True, text=True)
            rows = pq.read_table(output)
        return list(rows.filter(pc.field("n") >= since).to_pylist())


@dataclass
class Reading:
    """What all readers saw of all tables."""

    kinds: Sequence[Kind]
    done: Callable[[Kind], list[int]]
    seconds: Callable[[], float]
    # Of the table that is ingested, by day: the last round published, and the last asked for.
    published: dict[str, int]
    asked: dict[str, int]
    faults: list[str]
    reads: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    # Of tables that follow a source: the batches that some reader has seen whole, when each batch
    # was at the source, and how far readers found the table behind it.
    seen: dict[str, int] = field(default_factory=dict)
    noted: dict[str, list[float]] = field(default_factory=dict)
    lags: list[dict[str, Any]] = field(default_factory=list)
    warehouse: Path = Path()

    def compare(self, reader: Reader, model: Model, *, whole: bool = False) -> None:
        """Read every table once; `whole` after the end, when all of it has to be there."""
        for kind in self.kinds:
            if reader.reads(kind):
                self._compare(reader, model, kind, whole=whole)
        if reader.reads(None):
            self._compare_ingested(reader)

    def _compare(self, reader: Reader, model: Model, kind: Kind, *, whole: bool) -> None:
        is_behind = not whole and reader.is_behind(kind)
        least = [0] * len(kind.writers) if is_behind else self.least(kind, whole=whole)
        # A row of an append table keeps its batch, so the latest batches may be read alone.
        is_partial = not (whole or kind.keyed or is_behind)
        since = max(0, min(self.least(kind)) - LATEST_BATCHES) if is_partial else 0
        began = self.seconds()
        rows = self._rows(reader, kind, since)
        if rows is None:
            return
        most = [each + 1 for each in self.done(kind)]
        if self.is_of_job(kind):
            most = [1 << 60]
        found = list(model.faults(kind, rows, least, most, since))
        self.faults += [f"{self.seconds()} s, {reader.name}: {each}" for each in found]
        if kind.streamed and not found and not is_behind:
            # The last batch may have come in part.
            batches = max((row["n"] for row in rows), default=-1)
            self.seen[kind.name] = max(self.seen.get(kind.name, 0), batches)
            self._note_lag(kind, batches + 1, began)

    def is_of_job(self, kind: Kind) -> bool:
        """Whether a job writes the table, whose source nothing else knows."""
        return kind.streamed and kind.made_by != "dagster"

    def least(self, kind: Kind, *, whole: bool = False) -> list[int]:
        """The batches that a reader has to see by now."""
        if kind.streamed and (self.is_of_job(kind) or not whole):
            return [self.seen.get(kind.name, 0)]
        return self.done(kind)

    def lag_batches(self, kind: Kind) -> int:
        """How many batches of the source are not in a table that follows it."""
        table = Catalog.open(str(self.warehouse)).table(kind.table)
        latest = pc.max(table.read(columns=["n"])["n"]).as_py()
        return self.done(kind)[0] - (0 if latest is None else int(latest) + 1)

    def _note_lag(self, kind: Kind, batches: int, began: float) -> None:
        noted = self.noted.get(kind.name)
        if noted is not None:
            waiting = noted[batches:]
            lag = max(0.0, round(began - waiting[0], 1)) if waiting else 0.0
            self.lags.append({"seconds": began, "table": kind.table, "lag": lag})

    def _compare_ingested(self, reader: Reader) -> None:
        before = dict(self.published)
        rows = self._rows(reader, None, 0)
        if rows is None:
            return
        for day in self.asked:
            found = Counter(row["round"] for row in rows if row["dt"] == day)
            expected = [{r: ROWS} for r in range(max(before[day], 1), self.asked[day] + 1)]
            if found not in [*expected, *([{}] if before[day] == 0 else [])]:
                self.faults.append(
                    f"{self.seconds()} s, {reader.name}: {INGESTED}: {day} has rows by round "
                    f"{dict(found)}, of round {before[day]} to {self.asked[day]}"
                )

    def _rows(self, reader: Reader, kind: Kind | None, since: int) -> Rows | None:
        try:
            rows = reader.rows(kind, since)
        except NotYet:
            return None
        except _REFUSED as error:
            if not self._is_new(kind):
                said = error.stderr if isinstance(error, subprocess.CalledProcessError) else error
                table = INGESTED if kind is None else kind.table
                self.refused.append(
                    f"{reader.name} at {self.seconds()} s: {table}: {said}".strip()[-400:]
                )
            return None
        self.reads[reader.name] += 1
        return rows

    def _is_new(self, kind: Kind | None) -> bool:
        """Whether a table may lack, as nothing was written into it so far."""
        if kind is None:
            return not any(self.published.values())
        return not any(self.least(kind)) and (kind.streamed or kind.folders)


def behind(reading: Reading) -> Iterator[str]:
    """The tables that lack batches of their source, and those whose log lacks commits."""
    catalog = Catalog.open(str(reading.warehouse))
    for kind in reading.kinds:
        if not kind.streamed or reading.is_of_job(kind) or not any(reading.done(kind)):
            continue
        if not catalog.table_exists(kind.table) or reading.lag_batches(kind) > 0:
            yield f"{kind.table} is behind its source"
            continue
        table = catalog.table(kind.table)
        if has_log(table.schema.options) and unrelayed(table):
            yield f"the log of {kind.table} is behind it"
