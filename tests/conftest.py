"""What every test shares: where workers find Python, and how hard properties are tried."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.support.tally import TRIED

# What collection makes lives to the end: looking through it for garbage takes half of collection.
gc.disable()

# Worker processes and some hundred processes that tests start import the same modules: without
# bytecode on disk each would compile them anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell's `&` has commands ignore interrupts, and so do the processes that they start. Dagster's
# first run in a process has it ignore terminations as well, for it treats them like interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Spark starts its workers from PATH otherwise, where the packages are not.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["DAGSTER_DISABLE_TELEMETRY"] = "yes"
os.environ["GX_ANALYTICS_ENABLED"] = "false"
# Sessions live for minutes: the optimising compiler costs more than it saves, and so does the
# verification of classes of released jars, a fifth of a start.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
)
os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1")

# Warehouses lie in memory where there is enough of it: tests flush some ten thousand files, and
# waiting for the machine's disk shows nothing. A folder that is asked for has precedence.
_IN_MEMORY = Path("/dev/shm")
_ENOUGH_BYTES = 4 << 30
if (
    "TMPDIR" not in os.environ
    and _IN_MEMORY.is_dir()
    and os.access(_IN_MEMORY, os.W_OK)
    and shutil.disk_usage(_IN_MEMORY).free > _ENOUGH_BYTES
):
    os.environ["TMPDIR"] = str(_IN_MEMORY)
    # Asked for already, by pytest itself.
    tempfile.tempdir = None
    # Memory forgets all at a power loss: tests of durability ask for flushes by themselves.
    os.environ.setdefault("LAKEWRIGHT_DURABLE", "false")

# A time limit would test the machine, and a random seed would make two runs differ.
settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("default", settings.get_profile("default"), max_examples=12)
settings.register_profile("deep", settings.get_profile("default"), max_examples=150)
settings.load_profile("default")

FOLDER_MARKERS = {"on_spark": "spark", "interop": "interop", "stores": "stores"}
# One worker process runs what stands under one name: its servers, sessions and clients start once.
KEPT_TOGETHER = {
    "tests/on_spark/": "Spark",
    "tests/pipelines/test_spark": "Spark",
    "tests/pipelines/test_streams": "Spark",
    "tests/pipelines/test_continuous": "Spark",
    "tests/pipelines/test_query_sources": "Spark",
    "tests/pipelines/test_file_sources.py::test_spark": "Spark",
    "tests/unit/cli/test_upkeep.py::test_a_compaction_on_spark": "Spark",
    "tests/interop/": "other clients",
    "tests/oracles/": "other clients",
    "tests/demo/": "other clients",
    "tests/packaging/": "the wheel",
    "tests/queries/test_tpch": "TPC-H",
    "tests/races/": "races",
    "tests/architecture/test_laws.py": "laws",
    "tests/architecture/test_dagster_internals.py": "laws",
    "tests/stores/": "stores",
}
# The change of partition keys is finished work: `make test` tries one case of every third test,
# chosen by their names, and `make test-deep` all.
FINISHED = (
    "tests/unit/storage/operations/respec/",
    "tests/unit/storage/operations/state/test_staged_changes.py",
    "tests/interop/test_changed_partition_keys",
    "tests/interop/test_late_",
    "tests/interop/test_merged_late_manifests.py",
    "tests/interop/test_states_of_keyed_changes.py",
    "tests/interop/test_stopped_changes_by_upkeep.py",
    "tests/interop/test_writers_amid_keyed_changes.py",
    "tests/pipelines/test_respec",
    "tests/races/test_respecs",
    "tests/unit/cli/test_respec.py",
)
# Rooms of many short tests go to worker processes file by file: handing over one costs more.
SHORT = (
    "tests/golden/",
    "tests/unit/storage/codec/",
    "tests/unit/storage/spec/",
    "tests/unit/storage/sql/",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their folder, and as deep what `sampled` leaves to `make test-deep`."""
    tests = Path(__file__).parent
    sampled: dict[str, list[pytest.Item]] = {}
    for item in items:
        room = item.path.relative_to(tests).parts[0]
        if room in FOLDER_MARKERS:
            item.add_marker(FOLDER_MARKERS[room])
        if item.nodeid.startswith(FINISHED):
            name = item.nodeid.partition("[")[0]
            # Before the mark that the test itself may have.
            marker = pytest.mark.deep if crc32(name.encode()) % 3 else pytest.mark.sampled(1)
            item.add_marker(marker, append=False)
        if item.get_closest_marker("sampled") and not item.get_closest_marker("deep"):
            sampled.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in sampled.values():
        marker = cases[0].get_closest_marker("sampled")
        assert marker is not None
        kept = _one_of_each(cases, marker.kwargs["each"]) if marker.kwargs else None
        if kept is None:
            # By its name, so that a case stays what it is when others come or go beside it.
            kept = sorted(cases, key=lambda case: crc32(case.nodeid.encode()))[: marker.args[0]]
        for item in cases:
            if item not in kept:
                item.add_marker("deep")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Collect garbage again, but never look through the modules and tests that are there now.

    Dagster, where a test imported it, keeps from now on what is the same each time.
    """
    if "dagster" in sys.modules:
        from tests.support.processes.dagster_once import work_out_once

        work_out_once()
    gc.freeze()
    gc.enable()


def _one_of_each(cases: list[pytest.Item], names: str) -> list[pytest.Item]:
    """One case for every value of these parameters; the other parameters' values take turns."""
    groups: dict[tuple[int, ...], list[pytest.Item]] = {}
    for case in cases:
        values = cast(pytest.Function, case).callspec.params
        # By identity: all cases of a value share the object that `parametrize` was given.
        groups.setdefault(tuple(id(values[each]) for each in names.split(", ")), []).append(case)
    return [group[turn % len(group)] for turn, group in enumerate(groups.values())]


def kept_with(nodeid: str) -> str:
    """What a test is run together with, by name: a room, the faults of one verb, or itself."""
    for prefix, name in KEPT_TOGETHER.items():
        if nodeid.startswith(prefix):
            return name
    if nodeid.startswith(SHORT):
        return nodeid.partition("::")[0]
    if nodeid.startswith("tests/faults/") and ", " in nodeid:
        # "[verb, kind of table, …]": what one fault of a verb leaves is not looked at again.
        return ", ".join(nodeid.partition("[")[2].rstrip("]").split(", ")[:2])
    return nodeid


class _ByRoom(LoadScopeScheduling):
    """Hands worker processes whole rooms where those are kept together, else single tests."""

    def _split_scope(self, nodeid: str) -> str:
        return kept_with(nodeid)


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
    """Listen to worker processes, and remember nothing of tables.

    Explorers of races and faults repeat a verb, and count on equal calls of the store.
    """
    from lakewright.storage.operations.state.keys_of_files import FITTING

    config.pluginmanager.register(_Sums())
    FITTING.most = 0


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much was tried."""
    if TRIED:
        terminalreporter.section("tried")
        for what, count in sorted(TRIED.items()):
            terminalreporter.write_line(f"{count:>10,}  {what}")
