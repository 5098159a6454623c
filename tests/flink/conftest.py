"""Real Flink, if it is there: `FLINK` names a folder with its jars; without it nothing is tried."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flink.flink_formats import FlinkFormats

FOLDER = Path(os.environ.get("FLINK", ".flink"))
IS_THERE = FOLDER.is_dir() and any(FOLDER.rglob("flink-json-*.jar"))
# `make test-flink` installs it; a run without it has no test to skip.
_TESTS = ["test_formats.py", "test_jobs.py", "test_log.py"]
collect_ignore = [] if IS_THERE and shutil.which("java") else _TESTS


@pytest.fixture(scope="session")
def flink() -> Iterator[FlinkFormats]:
    process = FlinkFormats(FOLDER)
    yield process
    process.close()
