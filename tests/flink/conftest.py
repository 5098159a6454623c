"""Real Flink, if it is there: `FLINK` names a folder with its jars."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flink.flink_formats import FlinkFormats


@pytest.fixture(scope="session")
def flink() -> Iterator[FlinkFormats]:
    folder = Path(os.environ.get("FLINK", ".flink"))
    if not list(folder.rglob("flink-json-*.jar")):
        pytest.skip(f"Flink is not in {folder}: `make test-flink` installs it")
    if shutil.which("java") is None:
        pytest.skip("Flink needs a Java runtime")
    process = FlinkFormats(folder)
    yield process
    process.close()
