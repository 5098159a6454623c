"""Fixtures of the pipelines' tests, and the warnings of libraries that are not ours to mend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipelines.lake import Lake, opened


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    yield from opened(tmp_path)
