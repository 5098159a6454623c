"""Sources: how a declared function is found, and what it can ask of its upstream tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewright.platform.ingest.sources import SourceRequest, find_source
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.storage import Catalog, Column, SchemaSpec, Table, parse_data_type
from lakewright.storage.errors import InvalidRequestError, NotFoundError


def declaration(**source: str) -> TableDeclaration:
    return TableDeclaration.model_validate(
        {"table": "a.b", "columns": [{"name": "x", "type": "INT"}], "source": source}
    )


def no_spark() -> Any:
    raise AssertionError("Spark was asked for")


def request(upstream: Table | None = None, **more: Any) -> SourceRequest:
    settings: dict[str, Any] = {
        "table": "a.b",
        "partitions": None,
        "upstream": {} if upstream is None else {upstream.name: upstream},
        "wants_spark": False,
        "session": no_spark,
    }
    return SourceRequest(**{**settings, **more})


@pytest.fixture
def upstream(tmp_path: Path) -> Table:
    spec = SchemaSpec(
        columns=tuple(
            Column(name, parse_data_type(type_))
            for name, type_ in (("dt", "STRING"), ("hh", "INT"), ("x", "INT"))
        ),
        partition_keys=("dt", "hh"),
    )
    table = Catalog.open(str(tmp_path / "warehouse")).create_table("u.p", spec)
    days: list[str | None] = ["a", "a", "b", None]
    table.write(
        pa.table(
            {
                "dt": pa.array(days),
                "hh": pa.array([1, 2, 1, 1], pa.int32()),
                "x": pa.array([1, 2, 3, 4], pa.int32()),
            }
        )
    )
    return table


def test_a_function_is_found_by_its_name() -> None:
    found = find_source(declaration(python="tests.pipelines.sources:rows"))
    assert found.__name__ == "rows"


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("no.such.module:rows", "module no.such.module cannot be imported"),
        ("tests.pipelines.sources:nothing", "has no function nothing"),
        ("tests.pipelines.sources:REQUESTS", "has no function REQUESTS"),
    ],
)
def test_a_function_that_is_not_there_is_named(path: str, problem: str) -> None:
    with pytest.raises(NotFoundError, match=f"the source of a.b is {path}.*{problem}"):
        find_source(declaration(python=path))


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no file matches"):
        find_source(declaration(parquet=f"{tmp_path}/*.parquet"))(request())


def test_upstream_rows_are_those_of_the_partitions_asked_for(upstream: Table) -> None:
    def found(*partitions: dict[str, object]) -> list[int]:
        asked = request(upstream, partitions=partitions or None)
        return sorted(asked.upstream_rows("u.p", ["x"]).column("x").to_pylist())

    assert found() == [1, 2, 3, 4]
    assert found({"dt": "a"}) == [1, 2]
    assert found({"dt": "a"}, {"dt": "b"}) == [1, 2, 3]
    assert found({"dt": "a"}, {"dt": None}) == [1, 2, 4]
    assert found({"dt": None}) == [4]
    assert found({"dt": "a", "hh": 2}, {"dt": "b", "hh": 1}) == [2, 3]
    assert found({"country": "no"}) == [1, 2, 3, 4]


def test_values_of_a_column_come_once_and_in_order(upstream: Table) -> None:
    asked = request(partitions=({"dt": "b", "hh": 1}, {"dt": "a", "hh": 1}))
    assert asked.values("dt") == ("b", "a")
    assert asked.values("hh") == (1,)


def test_a_table_it_does_not_depend_on_cannot_be_read(upstream: Table) -> None:
    with pytest.raises(InvalidRequestError, match=r"a\.b depends on u\.p, and not on u\.q"):
        request(upstream).upstream_rows("u.q")
