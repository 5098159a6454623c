"""Tables that are filled by change capture: what tests of its connectors share."""

from __future__ import annotations

import random
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakewright.connectors import ExternalTables
from lakewright.connectors.planning.plan_sink import WriteRequest, plan_write
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.connectors.stream import Batch, run_stream
from lakewright.session import Session
from lakewright.storage import Catalog

ROOT = Path(__file__).parents[2]


class Capture:
    """The external table db.src of a table of a server, and db.dst that is filled.

    `options` are those of the connector that every definition has.
    """

    options: Mapping[str, str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = f"t_{uuid.uuid4().hex[:8]}"
        self.checkpoint = str(folder / "checkpoint")
        self.session = Session(Catalog.open(str(folder / "warehouse")))
        self.session.sql("CREATE DATABASE db; USE db")

    def define(self, columns: str, key: str, options: Mapping[str, str] | None = None) -> None:
        """Define both tables anew."""
        given = {**self.options, "table-name": self.name, **(options or {})}
        texts = ", ".join(f"'{name}' = '{value}'" for name, value in given.items())
        key = f"PRIMARY KEY ({key}) NOT ENFORCED"
        self.session.sql(f"""
            DROP TABLE IF EXISTS src;
            CREATE TABLE src ({columns}, {key}) WITH ({texts});
            CREATE TABLE IF NOT EXISTS dst ({columns}, {key}) WITH ('bucket' = '1')
        """)

    def batches(
        self, max_rows: int = 1000, *, source: str = "db.src", sink: str = "db.dst"
    ) -> list[Batch]:
        """Carry what is there now."""
        externals = ExternalTables(self.session.catalog)
        scan = plan_scan(externals.context(source), ScanRequest())
        request = WriteRequest(mode=scan.mode, source_name=source)
        planned = plan_write(externals.managed_context(sink), request)
        return list(
            run_stream(
                scan,
                planned,
                self.session.catalog.env,
                checkpoint=f"{self.checkpoint}{source.removeprefix('db.src')}",
                max_rows=max_rows,
                available_now=True,
            )
        )

    def changes(self) -> list[tuple[Any, ...]]:
        """Kinds and rows that a reader gets now."""
        externals = ExternalTables(self.session.catalog)
        scan = plan_scan(externals.context("db.src"), ScanRequest())
        runtime = scan.runtime
        begin = runtime.latest(runtime.earliest())
        found = pieces(scan.changes(begin, runtime.latest(begin)))
        runtime.close()
        return found

    def rows(self, table: str = "dst") -> list[tuple[Any, ...]]:
        found = self.session.sql(f"SELECT * FROM {table}").rows
        return sorted(tuple(row.values()) for row in found.to_pylist())


def pieces(tables: Any) -> list[tuple[Any, ...]]:
    return [(row.pop("_rowkind"), *row.values()) for table in tables for row in table.to_pylist()]


def killed_run(capture: Capture, chance: random.Random) -> str:
    """Run the driver until a random moment; in which phase it was killed."""
    command = [sys.executable, "-m", "tests.stores.capture_driver"]
    arguments = [str(capture.folder / "warehouse"), capture.checkpoint, "250"]
    said = capture.folder / "driver.log"
    with said.open("w") as log:
        process = subprocess.Popen(
            [*command, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert process.stdout is not None
    told = process.stdout.readline()
    assert told == "begins\n", said.read_text()
    for _ in range(chance.choice([0, 1, 3, 5])):
        told = process.stdout.readline()
    time.sleep(chance.uniform(0, 0.1))
    assert process.poll() is None, said.read_text()
    process.kill()
    last = [told, *process.stdout.readlines()][-1]
    process.stdout.close()
    process.wait()
    return last.split()[-1]
