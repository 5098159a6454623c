"""The Dagster that a command tells what it did: that of DAGSTER_HOME, or of the project here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dagster as dg


@contextmanager
def known_instance() -> Iterator[dg.DagsterInstance | None]:
    """The instance; None where Dagster is not installed or has no home, as with cron alone."""
    named = os.environ.get("DAGSTER_HOME")
    home = Path(named or "dagster_home").absolute()
    is_there = home.is_dir() if named else (home / "dagster.yaml").is_file()
    if not is_there or find_spec("dagster") is None:
        yield None
        return
    import dagster as dg

    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield instance
