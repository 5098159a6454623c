"""Fixtures of the pipelines' tests, and the warnings of libraries that are not ours to mend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from tests.pipelines.lake import Lake, opened


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    yield from opened(tmp_path)


@pytest.fixture
def stored(lake: Lake) -> Iterator[Lake]:
    """A lake whose Dagster is on the disk, where commands find it."""
    home = lake.folder / "dagster_home"
    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        lake.instance = instance
        yield lake
