"""Fixtures of many folders; a folder imports those it needs in its conftest.py."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from lakewright.storage import Catalog
from lakewright.storage.operations.format_tables.format_spec import TABLE_TYPES
from tests.support.tables.environment import FixedEnv
from tests.support.tables.invariants import assert_sound

_NUMBERS = itertools.count()


def check_all_tables(catalog: Catalog, *, raced: bool = False) -> None:
    """Check the invariants of every table of a warehouse; format tables have none."""
    for database in catalog.list_databases():
        for name in catalog.list_tables(database):
            table = catalog.table(f"{database}.{name}")
            if table.schema.options.get("type") not in TABLE_TYPES:
                assert_sound(table, raced=raced)


@pytest.fixture
def env() -> FixedEnv:
    return FixedEnv()


@pytest.fixture
def catalog(request: pytest.FixtureRequest, tmp_path: Path, env: FixedEnv) -> Iterator[Catalog]:
    """A warehouse on disk whose tables are checked for soundness when the test is over."""
    opened = Catalog.open(str(tmp_path / "warehouse"), env=env)
    yield opened
    check_all_tables(opened, raced=request.node.get_closest_marker("raced") is not None)


@pytest.fixture
def unchecked_catalog(tmp_path: Path, env: FixedEnv) -> Catalog:
    """A warehouse for tests that damage their tables, or stop in the middle of something."""
    return Catalog.open(str(tmp_path / "warehouse"), env=env)


def memory_uri() -> str:
    """A place in memory that no other test uses."""
    return f"memory://warehouse-{next(_NUMBERS)}"


def memory_catalog() -> Catalog:
    """A warehouse in memory that no other test uses."""
    return Catalog.open(memory_uri(), env=FixedEnv())


def empty_memory() -> None:
    """Delete all files in memory, since listings slow down with their number."""
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


# `tests/faults` tries every verb in memory, so `make test` need not do it here too.
@pytest.fixture(params=["local", pytest.param("memory", marks=pytest.mark.deep)])
def any_catalog(request: pytest.FixtureRequest, tmp_path: Path, env: FixedEnv) -> Iterator[Catalog]:
    """The same on disk and in memory."""
    uri = str(tmp_path / "warehouse") if request.param == "local" else memory_uri()
    opened = Catalog.open(uri, env=env)
    yield opened
    check_all_tables(opened)
    if request.param == "memory":
        empty_memory()
