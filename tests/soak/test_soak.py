"""The soak for a minute: its own parts work together, and no row is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.deep
@pytest.mark.interop
def test_a_minute_of_the_soak_loses_no_row(tmp_path: Path) -> None:
    folder = tmp_path / "soak"
    given = ("--minutes", "1", "--kill-seconds", "15", "--no-full-disk")
    tables = ("--tables", "append", "fixed", "vectors", "java", "folder")
    ended = subprocess.run(
        [sys.executable, "-m", "tests.soak", str(folder), *given, *tables],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads((folder / "soak.json").read_text())
    assert not found["faults"]
    assert not found["flaws"]
    assert found["is_over"]
    assert found["kills"]
    assert found["rested"] is not None
    assert all(sum(commits) for commits in found["commits"].values())
    assert found["reads"].keys() == {"lakewright", "java", "pypaimon", "duckdb"}
    assert any(each["verb"] and each["status"] == "SUCCESS" for each in found["runs"])
    assert any(not each["verb"] and each["status"] == "SUCCESS" for each in found["runs"])
