"""What tests of a disk share with others."""

import pytest

from tests.support.tables.fixtures import catalog, env

__all__ = ["catalog", "env"]


@pytest.fixture(autouse=True)
def _flushing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warehouses flush here, whatever the other tests do."""
    monkeypatch.setenv("LAKEWRIGHT_DURABLE", "true")
