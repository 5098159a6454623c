"""The command line called in process, over warehouses whose tables are checked afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakewright.cli import main
from lakewright.storage import Catalog
from tests.support.tables.fixtures import catalog, env, unchecked_catalog

__all__ = ["catalog", "env", "lakewright", "unchecked_catalog"]


@dataclass(frozen=True)
class Ended:
    """What a subcommand left: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


Lakewright = Callable[..., Ended]


def on_disk(catalog: Catalog) -> dict[str, tuple[int, int]]:
    """The files of a warehouse, with their sizes and times."""
    found = (path for path in Path(catalog.root).rglob("*") if path.is_file())
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


@pytest.fixture
def lakewright(capsys: pytest.CaptureFixture[str]) -> Lakewright:
    """`lakewright(catalog, "ls", …)`; without a catalog the arguments are all there is.

    The command must end with `code`; None leaves that to the test.
    """

    def run(where: Catalog | None, *arguments: str, code: int | None = 0) -> Ended:
        before = [] if where is None else ["--warehouse", where.uri]
        capsys.readouterr()
        ended = main([*before, *arguments])
        captured = capsys.readouterr()
        assert code in (None, ended), f"ended with {ended}: {captured.out}{captured.err}"
        return Ended(ended, captured.out, captured.err)

    return run
