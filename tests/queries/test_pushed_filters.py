"""A query whose filters a plan takes returns the rows that DuckDB keeps of all rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.session import Session
from lakewright.storage import Catalog
from tests.support.tables.builders import comparable, rows, spec
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import empty_memory, memory_uri

COLUMNS = {
    "p": "STRING", "i": "INT", "s": "STRING", "d": "DATE", "t": "TIMESTAMP(3)",
    "z": "TIMESTAMP_LTZ(6)", "n": "DECIMAL(9, 2)", "f": "DOUBLE", "o": "BOOLEAN", "b": "BYTES",
}  # fmt: skip
_DAY = dt.datetime(2024, 1, 31)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "p": st.sampled_from(["2024-01-31", "2024-02-01", "x'y"]),
    "i": st.integers(-2, 2),
    "s": st.sampled_from(["", "a", "ab", "a%", "é"]),
    "d": st.integers(0, 2).map(lambda day: (_DAY + dt.timedelta(days=day)).date()),
    "t": st.integers(0, 2).map(lambda day: _DAY + dt.timedelta(days=day)),
    "z": st.integers(0, 2).map(lambda day: (_DAY + dt.timedelta(days=day)).replace(tzinfo=dt.UTC)),
    "n": st.integers(-2, 2).map(lambda each: Decimal(each).scaleb(-2)),
    "f": st.sampled_from([float("nan"), -0.0, 0.0, 1.5]),
    "o": st.booleans(),
    "b": st.sampled_from([b"", b"\x00", b"\xff"]),
}
LITERALS = {
    "p": ["'2024-01-31'", "'x''y'", "''"],
    "i": ["0", "1", "1.5", "3000000000", "NULL"],
    "s": ["'a'", "'ab'", "'é'", "''"],
    "d": ["DATE '2024-02-01'", "'2024-01-31'", "DATE '2024-01-30' + INTERVAL 1 DAY"],
    "t": ["TIMESTAMP '2024-02-01'", "'2024-01-31 00:00:00.0005'"],
    "z": ["TIMESTAMPTZ '2024-02-01 00:00:00+00'", "'2024-01-31 01:00:00+01'"],
    "n": ["0.01", "0.005", "-0.02", "1"],
    "f": ["0", "1.5", "'nan'::DOUBLE"],
    "o": ["TRUE", "FALSE"],
    "b": ["'\\x00'::BLOB", "''::BLOB"],
}
OTHERS = (
    "s LIKE 'a%'", "NOT s LIKE 'a%'", "p LIKE '2024-01%'", "s LIKE 'a!%%' ESCAPE '!'",
    "starts_with(s, 'a')", "year(d) = 2024", "month(t) = 2", "s || p > 'a'", "i + 1 = 2", "o",
    "NOT o", "i = n",
    "s IS NOT DISTINCT FROM NULL", "coalesce(i, 0) = 0", "substr(p, 1, 4) = '2024'",
)  # fmt: skip

QUERIES = (
    "SELECT * FROM {0} AS x WHERE {1}",
    """SELECT x.s, y.i FROM {0} AS x JOIN {0} AS y ON x.i = y.i AND y.o
      WHERE x.i <> 1 AND EXISTS (SELECT * FROM {0} WHERE {1})""",
    """SELECT x.i, y.s FROM {0} AS x LEFT JOIN (FROM {0} WHERE {1}) AS y ON x.i = y.i
      WHERE y.s IS NULL""",
)


@st.composite
def conditions(draw: st.DrawFn) -> str:
    def leaf() -> str:
        if draw(st.integers(0, 3)) == 0:
            return draw(st.sampled_from(OTHERS))
        name = draw(st.sampled_from(sorted(COLUMNS)))
        literal = st.sampled_from(LITERALS[name])
        match draw(st.sampled_from(["compare", "compare", "in", "between", "null"])):
            case "compare":
                operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
                return f"{name} {operator} {draw(literal)}"
            case "in":
                values = ", ".join(draw(st.lists(literal, min_size=1, max_size=3)))
                return f"{name} {draw(st.sampled_from(['IN', 'NOT IN']))} ({values})"
            case "between":
                return f"{name} BETWEEN {draw(literal)} AND {draw(literal)}"
            case _:
                return f"{name} IS {draw(st.sampled_from(['NULL', 'NOT NULL']))}"

    parts = [leaf() for _ in range(draw(st.integers(1, 3)))]
    return f" {draw(st.sampled_from(['AND', 'OR']))} ".join(parts)


@pytest.fixture(autouse=True)
def _empty_memory() -> Any:
    yield
    empty_memory()


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
@settings(max_examples=settings().max_examples // 4)
@given(data=st.data())
@pytest.mark.sampled(1)
def test_a_filter_in_a_query_keeps_what_duckdb_keeps_of_all_rows(
    data: st.DataObject, keyed: bool
) -> None:
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    options = {"file.block-size": "1 b"} | ({"bucket": "1"} if keyed else {})
    keys = ["p", "i"] if keyed else []
    table = catalog.create_table(
        "db.t", spec(COLUMNS, partitions=["p"], keys=keys, options=options)
    )
    needed = {name: VALUES[name] for name in ("p", "i")}
    row = st.fixed_dictionaries(
        needed, optional={name: VALUES[name] for name in COLUMNS if name not in needed}
    )
    for _ in range(data.draw(st.integers(1, 3))):
        table.write(rows(table, data.draw(st.lists(row, min_size=1, max_size=6))))
    session = Session(catalog)
    plain = duckdb.connect()
    plain.execute("SET TimeZone = 'UTC'")
    plain.register("t", table.read())
    for _ in range(4):
        where = data.draw(conditions())
        for query in QUERIES:
            found = session.sql(query.format("db.t", where)).rows
            expected = plain.sql(query.format("t", where)).to_arrow_table()
            assert found is not None
            assert comparable(found) == comparable(expected), query.format("t", where)
