"""The soak's writers: a process of this library, statements of `lakewright sql`, other clients.

Each notes a batch before it commits it. A writer that was killed, or that failed with an unknown
outcome, repeats the batch: this library under the same commit identifier, the others only if no
reader finds the batch.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import StorageError
from lakewright.storage.format_table import FormatTable
from tests.oracles.client import OracleError, WritingOracle
from tests.soak.model import BY_NAME, Kind, Row
from tests.support.processes.killing import Place

_AFTER_FAILURE_SECONDS = 1.0
# To start a process takes more processor time than its statement.
_SQL_PAUSES = 4


@dataclass
class Notes:
    """How far a writer is: the batches that it has committed."""

    place: Place
    writer: int
    _began: float = field(default_factory=time.monotonic)

    @property
    def role(self) -> str:
        # Without a dot: `Place.note` makes the name of its unfinished file of what precedes one.
        return f"writer-{self.writer}"

    @property
    def done(self) -> int:
        return int(self.place.noted(self.role) or 0)

    @property
    def slowest_seconds(self) -> float:
        """The longest time between two batches, without the pause."""
        return float(self.place.noted(f"slowest-{self.writer}") or 0)

    def begin(self) -> None:
        self._began = time.monotonic()

    def commit(self, number: int) -> None:
        self.place.note(self.role, number + 1)
        took = round(time.monotonic() - self._began, 1)
        if took > self.slowest_seconds:
            self.place.note(f"slowest-{self.writer}", took)

    def fail(self, error: object) -> None:
        told = re.sub(r"/\S+", "…", f"{type(error).__name__}: {error}")
        self.place.tell(self.role, " ".join(told.split())[:400])
        time.sleep(_AFTER_FAILURE_SECONDS)


def rows_of(kind: Kind, writer: int, number: int) -> list[Row]:
    return [{**row, "w": writer} for row in kind.batch(number)]


def opened(warehouse: str, kind: Kind) -> Table | FormatTable:
    catalog = Catalog.open(warehouse)
    return catalog.format_table(kind.table) if kind.folders else catalog.table(kind.table)


def has_batch(place: Place, writer: int, number: int) -> bool:
    """Whether a reader finds a batch."""
    table = opened(place.warehouse, kind_of(place))
    return bool(table.read(f"w = {writer} AND n = {number}").num_rows)


def kind_of(place: Place) -> Kind:
    return BY_NAME[place.table.removeprefix("soak.")]


def write_in_process(place: Place, writer: int, pause_seconds: float) -> None:
    """Write with this library until the soak is over; this is what is killed and started again."""
    notes, kind = Notes(place, writer), kind_of(place)
    while not place.is_over:
        number = notes.done
        notes.begin()
        try:
            table = opened(place.warehouse, kind)
            deleted = kind.deleted_with(number)
            if deleted is not None:
                assert isinstance(table, Table)
                table.delete(f"w = {writer} AND n = {deleted}")
            rows = pa.Table.from_pylist(rows_of(kind, writer, number), table.arrow_schema)
            table.write(rows, commit_user=f"writer-{writer}", commit_identifier=number)
        except StorageError as error:
            notes.fail(error)
            continue
        notes.commit(number)
        time.sleep(pause_seconds)


@dataclass
class Clients:
    """Threads that write by statements of `lakewright sql`, or by other clients."""

    pause_seconds: float
    # Notes what is wrong with this program.
    guard: Callable[[str], AbstractContextManager[None]]
    threads: list[threading.Thread] = field(default_factory=list)

    def start_sql(self, place: Place, writer: int) -> None:
        """Insert each batch by a `lakewright sql` of its own."""
        pause = _SQL_PAUSES * self.pause_seconds
        self._start(place, writer, lambda number, rows: self._insert(place, writer, rows), pause)

    def start_oracle(self, place: Place, writer: int, client: WritingOracle) -> None:
        def write(number: int, rows: list[Row]) -> None:
            client.write(place.warehouse, place.table, rows)

        self._start(place, writer, write, self.pause_seconds)

    def start_source(
        self,
        place: Place,
        is_followed: Callable[[], bool],
        write: Callable[[list[Row]], None],
        noted: Callable[[int], None],
    ) -> None:
        """Fill a server whose rows a stream takes into the table; the same batch may come again."""
        self._thread(place, 0, lambda: self._fill(Notes(place, 0), is_followed, write, noted))

    def _start(
        self, place: Place, writer: int, write: Callable[[int, list[Row]], None], pause: float
    ) -> None:
        self._thread(place, writer, lambda: self._loop(Notes(place, writer), write, pause))

    def _thread(self, place: Place, writer: int, work: Callable[[], None]) -> None:
        def guarded() -> None:
            while not place.is_over:
                with self.guard(f"writer {writer} of {place.table}"):
                    work()

        thread = threading.Thread(target=guarded, name=f"{place.table}-{writer}")
        thread.start()
        self.threads.append(thread)

    def _fill(
        self,
        notes: Notes,
        is_followed: Callable[[], bool],
        write: Callable[[list[Row]], None],
        noted: Callable[[int], None],
    ) -> None:
        place, kind, follows = notes.place, kind_of(notes.place), False
        while not place.is_over:
            number = notes.done
            notes.begin()
            try:
                follows = follows or is_followed()
                if follows:
                    write(rows_of(kind, 0, number))
            except Exception as error:  # noqa: BLE001 - every client of a server has errors of its own
                notes.fail(error)
                continue
            if follows:
                noted(number)
                notes.commit(number)
            time.sleep(self.pause_seconds)

    def _loop(self, notes: Notes, write: Callable[[int, list[Row]], None], pause: float) -> None:
        place, writer = notes.place, notes.writer
        kind, failed = kind_of(place), False
        while not place.is_over:
            number = notes.done
            notes.begin()
            try:
                if not (failed and has_batch(place, writer, number)):
                    write(number, rows_of(kind, writer, number))
                failed = False
            except (StorageError, OracleError, StatementFailed) as error:
                failed = True
                notes.fail(error)
                continue
            notes.commit(number)
            time.sleep(pause)

    def _insert(self, place: Place, writer: int, rows: list[Row]) -> None:
        columns = list(rows[0])
        values = ", ".join(
            f"({', '.join(_literal(row[column]) for column in columns)})" for row in rows
        )
        statement = f"INSERT INTO {place.table} ({', '.join(columns)}) VALUES {values}"
        process = subprocess.Popen(
            [*LAKEWRIGHT, "sql", "--warehouse", place.warehouse, statement],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        _, said = process.communicate()
        if process.returncode:
            raise StatementFailed(f"exit code {process.returncode}: {said.strip()}")


class StatementFailed(Exception):
    """`lakewright sql` ended with an error, or was killed."""


LAKEWRIGHT = (sys.executable, "-c", "import sys; from lakewright.cli import main; sys.exit(main())")


def _literal(value: Any) -> str:
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


if __name__ == "__main__":
    write_in_process(Place(*sys.argv[1:4]), int(sys.argv[4]), float(sys.argv[5]))
