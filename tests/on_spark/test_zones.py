"""The same tests where the machine's clock is elsewhere: Python and the JVM both see the zone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Both have summer time, one is behind of UTC and the other ahead.
ZONES = ["America/New_York", "Europe/Berlin"]
FILTERS = "tests/on_spark/test_filters.py"


def run_tests(zone: str, chosen: Sequence[str]) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *chosen]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "TZ": zone},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
    assert " passed" in done.stdout


@pytest.mark.deep
def test_filters_on_times_are_the_same_in_new_york() -> None:
    kinds = ["TIMESTAMP(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", "DATE"]
    tests = [f"{FILTERS}::test_a_filter_keeps_the_rows_that_arrow_keeps[{each}]" for each in kinds]
    run_tests(ZONES[0], [*tests, f"{FILTERS}::test_a_system_tables_own_times_are_told_alike"])


@pytest.mark.deep
@pytest.mark.parametrize("zone", ZONES)
def test_all_of_spark_is_the_same_in_another_zone(zone: str) -> None:
    run_tests(
        zone,
        [
            "tests/on_spark",
            "tests/pipelines/test_spark.py",
            "tests/pipelines/test_spark_times.py",
            f"--ignore={Path(__file__).relative_to(ROOT)}",
            "-m",
            "not deep",
        ],
    )


@pytest.mark.deep
@pytest.mark.parametrize("zone", ZONES)
def test_every_filter_is_the_same_in_another_zone(zone: str) -> None:
    run_tests(zone, [FILTERS, "-m", "deep", "-k", "TIMESTAMP or DATE"])
