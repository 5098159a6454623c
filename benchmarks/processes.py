"""Contestants as child processes, each in its own environment."""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from benchmarks.environments import installed
from tests.oracles.install import Jar, fetch

ROOT = Path(__file__).resolve().parent.parent
_LAKEHOUSES = Path(__file__).with_name("lakehouses.lock")
_SPARK_LAKEHOUSES = Path(__file__).with_name("spark-lakehouses.lock")
# The connectors for the Spark of that lock file; Maven brings them.
_CONNECTORS = (
    Jar(
        artifact="org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        sha256="3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
    ),
    Jar(
        artifact="io.delta:delta-spark_4.1_2.13:4.4.0",
        sha256="75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10",
    ),
    Jar(
        artifact="io.delta:delta-storage:4.4.0",
        sha256="c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    ),
)
_STDERR_TAIL_CHARACTERS = 400


class Capped(Exception):
    """No answer came within the time limit, and the process was stopped."""


class Failed(Exception):
    """The contestant refused, or its process died."""


def command(process_name: str, oracles: Path) -> list[str]:
    """The command that starts a contestant's process.

    Raises:
        Failed: its environment is not installed.
    """
    own, module = sys.executable, "benchmarks.contestants"
    match process_name:
        case "lakewright":
            return [own, "-m", f"{module}.lakewright_arrow"]
        case "pyarrow":
            return [own, "-m", f"{module}.pyarrow_floor"]
        case "spark":
            return [own, "-m", f"{module}.on_spark"]
        case "pypaimon":
            return [_python(oracles, "pypaimon"), "-m", f"{module}.pypaimon_client"]
        case "pypaimon-native":
            python = _python(oracles, "pypaimon")
            # Both have environments of their own; the second adds only one package.
            (native,) = (oracles / "rust" / "lib").glob("python*/site-packages")
            return [python, "-m", f"{module}.pypaimon_client", "--native", str(native.absolute())]
        case "rust":
            return [_python(oracles, "rust"), "-m", f"{module}.rust_client"]
        case "delta" | "iceberg":
            return [lakehouse_python(oracles), "-m", f"{module}.{process_name}_client"]
        case "java":
            return [_python(oracles, "java"), "-m", f"{module}.java_client", str(_spark_jars())]
    raise ValueError(f"no contestant runs as {process_name}")


def lakehouse_python(environments: Path) -> str:
    """The interpreter of the clients of other table formats, installed when first asked for.

    Raises:
        Failed: it cannot be installed.
    """
    try:
        return str(installed(environments / "lakehouses", _LAKEHOUSES) / "python")
    except (OSError, subprocess.CalledProcessError) as error:
        raise Failed(f"lakehouses.lock cannot be installed: {error}") from error


def spark_lakehouses(environments: Path, module: str = "lakehouses_on_spark") -> list[str]:
    """The command that starts Iceberg and Delta on their own Spark, installed when first asked for.

    Raises:
        Failed: it cannot be installed.
    """
    home = environments / "spark-lakehouses"
    try:
        python = str(installed(home, _SPARK_LAKEHOUSES) / "python")
        for jar in _CONNECTORS:
            if not (home / "jars" / "{1}-{2}.jar".format(*jar.artifact.split(":"))).is_file():
                fetch(jar, home.absolute() / "jars")
    except (OSError, subprocess.CalledProcessError) as error:
        raise Failed(f"Iceberg and Delta on Spark cannot be installed: {error}") from error
    return [python, "-m", f"benchmarks.contestants.{module}"]


class ContestantProcess:
    """A started contestant, which answers requests one by one."""

    def __init__(self, arguments: list[str]) -> None:
        self.warmed: set[str] = set()
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives with the process
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            encoding="utf-8",
            cwd=ROOT,
            env=environment(arguments[0]),
            # A JVM below it ends too.
            start_new_session=True,
        )
        threading.Thread(target=self._pump, daemon=True).start()

    def ask(self, request: dict[str, Any], *, timeout_seconds: float) -> dict[str, Any]:
        """Send a request and return its answer.

        Raises:
            Capped: it took longer than allowed.
            Failed: it answered with an error, or died.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._answers.get(timeout=timeout_seconds)
        except queue.Empty:
            self.kill()
            raise Capped from None
        except BrokenPipeError:
            line = None
        if line is None:
            said = self._last_words()
            self.kill()
            raise Failed(f"the process ended: {said}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End the process normally."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.kill()
        self._stderr.close()

    def kill(self) -> None:
        """Kill the process and its children."""
        with suppress(OSError):
            os.killpg(self._process.pid, 9)
        self._process.wait()

    def _pump(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout:
            for line in self._process.stdout:
                self._answers.put(line)
        self._answers.put(None)

    def _last_words(self) -> str:
        self._stderr.seek(0)
        text = self._stderr.read().decode(errors="replace").strip()
        return text[-_STDERR_TAIL_CHARACTERS:]


def environment(python: str) -> dict[str, str]:
    """The variables of a child process.

    Variables of our interpreter must not reach interpreters of other environments.
    """
    own = python == sys.executable
    return {key: value for key, value in os.environ.items() if own or not key.startswith("PYTHON")}


def _python(oracles: Path, name: str) -> str:
    # Not resolved: Python finds a virtual environment by the path of its interpreter link.
    python = oracles.absolute() / name / "bin" / "python"
    if not python.exists():
        raise Failed(f"{name} is not installed; `python tests/oracles/install.py .oracles` does it")
    return str(python)


def _spark_jars() -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "jars"
