"""The oracles as pytest fixtures, one process each per session.

A folder that wants them imports them in its conftest.py.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar, cast

import pytest

from tests.oracles.client import (
    JavaOracle,
    LatestJavaOracle,
    Oracle,
    PypaimonOracle,
    start_java,
    start_java_latest,
    start_pypaimon,
    start_rust,
)

AnyOracle = TypeVar("AnyOracle", bound=Oracle)

ROOT = Path(__file__).resolve().parents[2]


def oracle_home() -> Path:
    """Where `install.py` put the environments: LAKEWRIGHT_ORACLES, or .oracles at the root."""
    return Path(os.environ.get("LAKEWRIGHT_ORACLES", ROOT / ".oracles"))


# A session fixture that several folders import is one for each of them: they share a process.
_ORACLES: dict[object, Oracle] = {}


def running(start: Callable[[Path], AnyOracle], name: str) -> Iterator[AnyOracle]:
    venv_dir = oracle_home() / name
    if not venv_dir.is_dir():
        pytest.fail(f"no oracle at {venv_dir}; run tests/oracles/install.py {venv_dir.parent}")
    with cast("AnyOracle", _ORACLES.setdefault(start, start(venv_dir))) as oracle:
        yield oracle


def _start_mended_pypaimon(venv_dir: Path) -> PypaimonOracle:
    return start_pypaimon(venv_dir, read_java_0_9=True)


@pytest.fixture(scope="session")
def java() -> Iterator[JavaOracle]:
    """Java Paimon 0.9.0."""
    yield from running(start_java, "java")


@pytest.fixture(scope="session")
def java_latest() -> Iterator[LatestJavaOracle]:
    """Java Paimon 1.4.2, which Maven brings."""
    if shutil.which("mvn") is None and not (oracle_home() / "java_latest").is_dir():
        pytest.skip(
            "Java Paimon 1.4.2 comes from Maven, and mvn is not installed; install it and run "
            "make oracles; Java Paimon 0.9 is compared otherwise"
        )
    yield from running(start_java_latest, "java_latest")


@pytest.fixture(scope="session")
def pypaimon() -> Iterator[PypaimonOracle]:
    """pypaimon 2.1.0, mended so that it reads what Java 0.9 wrote."""
    yield from running(_start_mended_pypaimon, "pypaimon")


@pytest.fixture(scope="session")
def released_pypaimon() -> Iterator[PypaimonOracle]:
    """pypaimon 2.1.0 as it is."""
    yield from running(start_pypaimon, "pypaimon")


@pytest.fixture(scope="session")
def rust() -> Iterator[Oracle]:
    """pypaimon-rust 0.4.0, which only reads."""
    yield from running(start_rust, "rust")
