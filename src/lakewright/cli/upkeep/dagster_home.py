"""The Dagster that a command tells what it did: that of DAGSTER_HOME, or of the project here."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
    with ExitStack() as stack:
        stack.callback(_restore, named)
        # What keeps Dagster's events asks for it, too.
        os.environ["DAGSTER_HOME"] = str(home)
        yield _opened(home, stack)


def _opened(home: Path, stack: ExitStack) -> dg.DagsterInstance | None:
    import dagster as dg

    try:
        return stack.enter_context(dg.DagsterInstance.from_config(str(home)))
    except Exception as error:  # noqa: BLE001  # settings of others may raise anything
        sys.stderr.write(f"lakewright: warning: the Dagster in {home} is not asked: {error}\n")
        return None


def _restore(home: str | None) -> None:
    if home is None:
        os.environ.pop("DAGSTER_HOME", None)
    else:
        os.environ["DAGSTER_HOME"] = home
