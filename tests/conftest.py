"""What every test shares: where workers find Python, and how hard properties are tried."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.support.tally import TRIED

# Spark starts its workers from PATH otherwise, where the packages are not.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["DAGSTER_DISABLE_TELEMETRY"] = "yes"
os.environ["GX_ANALYTICS_ENABLED"] = "false"

# A time limit would test the machine, and a random seed would make two runs differ.
settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("deep", settings.get_profile("default"), max_examples=2000)
settings.load_profile("default")

FOLDER_MARKERS = {"on_spark": "spark", "interop": "interop", "stores": "stores"}
# One worker process runs each of these folders: their servers, sessions and clients start once.
KEPT_TOGETHER = ("on_spark", "interop", "oracles", "stores", "pipelines", "demo")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by the folder they lie in."""
    tests = Path(__file__).parent
    for item in items:
        room = item.path.relative_to(tests).parts[0]
        if room in FOLDER_MARKERS:
            item.add_marker(FOLDER_MARKERS[room])


class _ByRoom(LoadScopeScheduling):
    """Hands worker processes whole folders where those are kept together, else single tests."""

    def _split_scope(self, nodeid: str) -> str:
        room = nodeid.removeprefix("tests/").split("/", 1)[0]
        return room if room in KEPT_TOGETHER else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Schedule by room; xdist's own groups, by mark, do nothing under pytest 9.2."""
    return _ByRoom(config, log)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker process hands what it has tried to the process that prints the sums."""
    handed_over = getattr(session.config, "workeroutput", None)
    if handed_over is not None:
        handed_over["tried"] = dict(TRIED)


class _Sums:
    """Adds up what the worker processes have tried."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        TRIED.update(getattr(node, "workeroutput", {}).get("tried", {}))


def pytest_configure(config: pytest.Config) -> None:
    """Listen to worker processes."""
    config.pluginmanager.register(_Sums())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much was tried."""
    if TRIED:
        terminalreporter.section("tried")
        for what, count in sorted(TRIED.items()):
            terminalreporter.write_line(f"{count:>10,}  {what}")
