"""The declaration in README.md, taken out of it and run as it stands there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tests.pipelines.lake import Lake

README = Path(__file__).parents[2] / "README.md"
PYTHON_SOURCE = 'source: {python: "my_project.orders:rows"}'
ORDERS = [
    {"dt": "2024-01-01", "id": 1, "amount": Decimal("1.50")},
    {"dt": "2024-01-01", "id": 2, "amount": None},
]


@pytest.fixture
def declaration() -> str:
    blocks = re.findall(r"```yaml\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    (found,) = [block for block in blocks if block.startswith("table:")]
    assert PYTHON_SOURCE in found
    return str(found)


@pytest.fixture
def my_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A project with the function that the declaration names."""
    package = tmp_path / "code" / "my_project"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "orders.py").write_text(
        "from decimal import Decimal\n"
        "import pyarrow as pa\n"
        f"ORDERS = {ORDERS!r}\n"
        "def rows(request):\n"
        "    return pa.Table.from_pylist([r for r in ORDERS if r['dt'] in request.values('dt')])\n"
    )
    monkeypatch.syspath_prepend(str(package.parent))
    yield
    for name in ("my_project.orders", "my_project"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("my_project")
def test_the_declaration_in_the_readme_makes_its_table(lake: Lake, declaration: str) -> None:
    lake.declare(declaration)

    outcome = lake.materialize("shop.orders", partitions="2024-01-01")

    assert lake.rows("shop.orders") == ORDERS
    assert outcome.checks["amount_between"].passed


def test_the_declaration_in_the_readme_reads_a_csv(lake: Lake, declaration: str) -> None:
    (lake.folder / "orders.csv").write_text("id,dt,amount\n1,2024-01-01,1.5\n2,2024-01-01,\n")
    lake.declare(declaration.replace(PYTHON_SOURCE, f"source: {{csv: '{lake.folder}/*.csv'}}"))

    lake.materialize("shop.orders", partitions="2024-01-01")

    assert lake.rows("shop.orders") == ORDERS
