"""Other Paimon clients, to look at what the demo leaves, and a warehouse for steps of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.demo.begun import WEEKS, BegunDemo
from tests.oracles.fixtures import java, java_latest, pypaimon, released_pypaimon, rust
from tests.support.tables.fixtures import catalog, env, unchecked_catalog

__all__ = [
    "catalog",
    "env",
    "java",
    "java_latest",
    "pypaimon",
    "released_pypaimon",
    "rust",
    "unchecked_catalog",
]


def _looks_at_the_demo(item: pytest.Item) -> bool:
    return item.path.name == "test_demo.py"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The demo begins with the first test of this folder, and is looked at last of all."""
    items.sort(key=_looks_at_the_demo)


@pytest.fixture(scope="session", autouse=True)
def begun(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BegunDemo | None]:
    """Some weeks, where a test asks for them."""
    if not any(map(_looks_at_the_demo, request.session.items)):
        yield None
        return
    run = BegunDemo(WEEKS, tmp_path_factory.mktemp("demo"))
    yield run
    run.clear()
