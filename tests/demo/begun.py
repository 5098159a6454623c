"""The demo as a process, which other tests run beside: it mostly waits for Dagster."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WEEKS, YEAR = dt.date(2013, 11, 28), dt.date(2013, 1, 1)


class BegunDemo:
    """A run of the demo with the flights since a day, in a folder of its own."""

    def __init__(self, since: dt.date, folder: Path) -> None:
        self.since = since
        self.folder = folder
        self.warehouse, self.home = folder / "warehouse", folder / "home"
        self.home.mkdir()
        shutil.copy(ROOT / "dagster_home" / "dagster.yaml", self.home)
        self.begin()

    def begin(self) -> None:
        command = [Path(sys.executable).with_name("lakewright"), "--warehouse", self.warehouse]
        with (self.folder / "output").open("w") as output:
            self.process = subprocess.Popen(
                [*command, "demo", "--since", self.since.isoformat()],
                cwd=ROOT,
                env={**os.environ, "DAGSTER_HOME": str(self.home)},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def output(self) -> str:
        """What it printed, once it has ended well."""
        code = self.process.wait()
        output = (self.folder / "output").read_text()
        assert code == 0, output
        return output

    def clear(self) -> None:
        if self.process.poll() is None:
            # Dagster's processes end with it.
            self.process.terminate()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
