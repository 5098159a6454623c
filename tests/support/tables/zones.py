"""The machine's time zone, as a test needs it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def machine_in(zone: str) -> Iterator[None]:
    """Set the process's time zone, for example to Europe/Berlin."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        yield
    time.tzset()
