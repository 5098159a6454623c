"""Raw results: a JSON line for each measurement, appended at once, so that a run can resume."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from benchmarks.suite import Measurement


class Status(Enum):
    """How a measurement ended."""

    OK = "ok"
    CAPPED = "capped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A measurement and its result.

    `data_rows` is the size of the table, which is smaller than requested for slow peers;
    `input_rows` are the rows read or written. `run` identifies the invocation. `first_seconds` and
    the peak are of the first run in a fresh process, `seconds` of the second run.
    """

    measurement: Measurement
    run: str
    status: Status
    data_rows: int
    input_rows: int = 0
    first_seconds: float | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    before_bytes: int = 0
    peak_bytes: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """An invocation and its machine."""

    run: str
    started: str
    commit: str
    python: str
    processors: int
    memory_bytes: int
    versions: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryResult:
    """The figures of one piece of work on one large bucket; see `memory`."""

    run: str
    work: str
    status: Status
    budget_bytes: int
    bucket_bytes: int
    file_bytes: int
    rows: int
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    before_bytes: int = 0
    peak_bytes: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionsResult:
    """The repeats of one piece of work on a table of many schema versions, or of one."""

    run: str
    kind: str
    versions: int
    files: int
    work: str
    contestant: str
    table: str
    status: Status
    seconds: tuple[float, ...] = ()
    cpu_seconds: tuple[float, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningResult:
    """The repeats of one plan of a table of many files; `again` are those of a table kept open."""

    run: str
    planned_files: int
    work: str
    contestant: str
    status: Status
    first_seconds: float = 0.0
    first_cpu_seconds: float = 0.0
    growth_bytes: int = 0
    seconds: tuple[float, ...] = ()
    cpu_seconds: tuple[float, ...] = ()
    again_seconds: tuple[float, ...] = ()
    note: str = ""


class ResultFile:
    """The lines of one file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def results(self) -> list[Result]:
        """Results so far; of repeated measurements the last one."""
        found: dict[Measurement, Result] = {}
        for record in self._records():
            if "measurement" in record:
                measurement = Measurement(**record.pop("measurement"))
                status = Status(record.pop("status"))
                found[measurement] = Result(measurement=measurement, status=status, **record)
        return list(found.values())

    def runs(self) -> list[Run]:
        """Invocations that wrote to the file."""
        return [Run(**record) for record in self._records() if "versions" in record]

    def memory_results(self) -> list[MemoryResult]:
        """Results of the case `memory`, the last of each work and budget."""
        found: dict[tuple[str, int], MemoryResult] = {}
        for record in self._records():
            if "budget_bytes" in record:
                result = MemoryResult(**{**record, "status": Status(record["status"])})
                found[result.work, result.budget_bytes] = result
        return list(found.values())

    def versions_results(self) -> list[VersionsResult]:
        """Results of the case `versions`, the last of each piece of work on a table."""
        found: dict[tuple[object, ...], VersionsResult] = {}
        for record in self._records():
            if "contestant" in record and "kind" in record:
                for name in ("seconds", "cpu_seconds"):
                    record[name] = tuple(record[name])
                record["status"] = Status(record["status"])
                each = VersionsResult(**record)
                key = (each.kind, each.versions, each.files, each.work, each.contestant, each.table)
                found[key] = each
        return list(found.values())

    def planning_results(self) -> list[PlanningResult]:
        """Results of the case `planning`, the last of each plan."""
        found: dict[tuple[object, ...], PlanningResult] = {}
        for record in self._records():
            if "planned_files" in record:
                for name in ("seconds", "cpu_seconds", "again_seconds"):
                    record[name] = tuple(record[name])
                each = PlanningResult(**{**record, "status": Status(record["status"])})
                found[each.planned_files, each.work, each.contestant] = each
        return list(found.values())

    def append(self, record: Result | Run | MemoryResult | VersionsResult | PlanningResult) -> None:
        """Add a line."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps(asdict(record), default=lambda value: value.value)
        # An interrupted run may leave half a line, to which this line must not be appended.
        written = self.path.read_text(encoding="utf-8") if self.path.is_file() else ""
        start = "" if not written or written.endswith("\n") else "\n"
        with self.path.open("a", encoding="utf-8") as out:
            out.write(f"{start}{line}\n")

    def _records(self) -> Iterator[dict[str, Any]]:
        if not self.path.is_file():
            return
        with self.path.open(encoding="utf-8") as lines:
            for line in lines:
                with suppress(json.JSONDecodeError):
                    yield json.loads(line)


def finished(results: Iterable[Result]) -> set[Measurement]:
    """Measurements that need no repetition; failures are repeated."""
    return {each.measurement for each in results if each.status is not Status.FAILED}
