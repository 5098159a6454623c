"""What a soak measures: the state of tables, of processes and of Dagster's runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from lakewright.demo.dagster_server import DagsterServer
from lakewright.platform.decide.debt import debt_of
from lakewright.platform.decide.take_survey import survey_table
from lakewright.platform.orchestration.names import VERB_TAG
from lakewright.platform.orchestration.run_process import PROCESS_TAG
from lakewright.storage import Catalog
from lakewright.storage.errors import StorageError, UnavailableError
from tests.soak import model
from tests.soak.disk import size_of
from tests.soak.model import Kind
from tests.soak.writers import Notes
from tests.support.processes.ordeals import sweep
from tests.support.tables.invariants import missing_files, unreachable_files

if TYPE_CHECKING:
    from tests.soak.course import Soak

# A run that failed so long after an outage may have failed by it.
_AFTER_SECONDS = 90


@dataclass
class Figures:
    """Looks at all tables, and the runs so far."""

    warehouse: Path
    home: Path
    server: DagsterServer
    kinds: Mapping[str, Kind]
    looks: list[dict[str, Any]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    # Why runs failed, by their ids.
    _whys: dict[str, str] = field(default_factory=dict)

    # --- tables -----------------------------------------------------------------------------------

    def look(self, seconds: float, used: Mapping[str, Any]) -> None:
        """Measure every table once; what cannot be read now is left out."""
        tables = {}
        for name in self._tables():
            try:
                tables[name] = self._of_table(name)
            except StorageError as error:
                self.refused.append(f"look at {seconds} s: {name}: {error}"[:400])
        home = sum(size_of(self.home).values())
        self.looks.append({"seconds": seconds, **used, "home_bytes": home, "tables": tables})

    def _tables(self) -> list[str]:
        catalog = Catalog.open(str(self.warehouse))
        return [
            f"{database}.{table}"
            for database in catalog.list_databases()
            for table in catalog.list_tables(database)
        ]

    def _of_table(self, name: str) -> dict[str, int]:
        files = size_of(self.warehouse / name.replace(".", ".db/"))
        found = {"disk": len(files), "bytes": sum(files.values())}
        if name in self.kinds and self.kinds[name].folders:
            return {**found, "live": sum("/day=" in path for path in files)}
        table = Catalog.open(str(self.warehouse)).table(name)
        partitions = table.at().partitions()
        buckets = [bucket for each in partitions for bucket in each.buckets]
        return {
            **found,
            "live": sum(each.file_count for each in partitions),
            "runs": max((each.sorted_run_count for each in buckets), default=0),
            "snapshots": len(table.table_files.snapshots.ids()),
            "manifests": sum("/manifest/" in path for path in files),
            "condemned": sum(each.bytes for each in table.upkeep.condemned()),
            "debt": debt_of(survey_table(table)).files,
        }

    def sweep(self) -> Iterator[tuple[str, tuple[list[str], int, list[str]]]]:
        """Of each table: files it lacks, files swept, and files that are kept for nothing."""
        for name in self._tables():
            if name in self.kinds and self.kinds[name].folders:
                continue
            table = Catalog.open(str(self.warehouse)).table(name)
            missing, swept = list(missing_files(table)), len(unreachable_files(table))
            sweep(table)
            yield name, (missing, swept, list(unreachable_files(table)))

    # --- runs -------------------------------------------------------------------------------------

    def read_runs(self, soak: Soak) -> None:
        """All runs so far, with why those failed that did."""
        self.runs = list(self._read_runs(soak))

    def _read_runs(self, soak: Soak) -> Iterator[dict[str, Any]]:
        killed = {each["process"] for each in soak.kills}
        with dg.DagsterInstance.from_config(str(self.home)) as instance:
            for record in instance.get_run_records():
                run, began, ended = record.dagster_run, record.start_time, record.end_time
                process = int(run.tags.get(PROCESS_TAG, "- 0 -").split()[-2])
                yield {
                    "verb": run.tags.get(VERB_TAG, ""),
                    "status": run.status.value,
                    "began": round((began or 0) - soak._began, 1),
                    "seconds": round((ended or 0) - (began or 0), 1),
                    "process": process,
                    "why": self._why(soak, run, ended or 0, is_killed=process in killed),
                }

    def _why(self, soak: Soak, run: dg.DagsterRun, ended: float, *, is_killed: bool) -> str:
        if run.status not in (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED):
            return ""
        if is_killed:
            return "killed"
        if run.run_id not in self._whys:
            try:
                said = self.server.failure_of(run.run_id)
            except UnavailableError:
                return "not known yet"
            self._whys[run.run_id] = " ".join(said.split())[:400]
        outages = [("disk full", each) for each in soak.fulls]
        outages += [(f"{each.name} away", times) for each in soak.servers for times in each.away]
        at = ended - soak._began
        what = [name for name, (a, b) in outages if a <= at <= b + _AFTER_SECONDS]
        return f"{what[0]}: {self._whys[run.run_id]}" if what else self._whys[run.run_id]

    # --- all of it --------------------------------------------------------------------------------

    def found(self, soak: Soak) -> dict[str, Any]:
        """What was found so far, as JSON."""
        reading = soak.reading
        commits = {kind.name: soak.done(kind) for kind in soak.kinds}
        for kind in soak.kinds:
            if reading.is_of_job(kind):
                commits[kind.name] = [reading.seen.get(kind.name, 0)]
        verbs = {run["process"]: run["verb"] for run in self.runs}
        notes = {
            kind.name: [Notes(soak.place(kind), each) for each in range(len(kind.writers))]
            for kind in soak.kinds
        }
        return {
            "minutes": soak.given.minutes,
            "seconds": soak.seconds(),
            "is_over": soak.is_over,
            "kinds": [kind.name for kind in soak.kinds],
            "commits": commits,
            "rows": {name: sum(each) * model.ROWS for name, each in commits.items()},
            "slowest": {
                name: [each.slowest_seconds for each in written] for name, written in notes.items()
            },
            "rounds": soak.published,
            "faults": soak.faults,
            "flaws": soak.flaws,
            "reads": reading.reads,
            "refused": [*reading.refused, *self.refused],
            "lags": reading.lags,
            "failed_writes": {
                name: [line for each in written for line in each.place.told(each.role)]
                for name, written in notes.items()
            },
            "kills": soak.kills,
            "fulls": soak.fulls,
            "away": {server.name: server.away for server in soak.servers},
            "ended": soak.ended,
            "left": soak.left,
            "runs": self.runs,
            "cpu_seconds": soak.usage.cpu_seconds(verbs),
            "rested": soak.rested,
            "swept": soak.swept,
            "looks": self.looks,
        }
