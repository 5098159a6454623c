"""Where tables of these tests lie: on disk, or wherever `LAKEWRIGHT_TEST_WAREHOUSE` says."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    """A place of its own that other processes reach."""
    given = os.environ.get("LAKEWRIGHT_TEST_WAREHOUSE")
    return f"{given.rstrip('/')}/{uuid.uuid4()}" if given else str(tmp_path / "warehouse")
