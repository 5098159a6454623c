"""Queries of rows that are wrong: what they name, and the text that Spark gets."""

from __future__ import annotations

import pytest

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.sql import parse_row_query

COUNTED = (
    "SELECT * FROM (\nSELECT count(*) FROM `B` AS batch -- x\n) AS counted(`count`) "
    "WHERE `count` <> 0"
)


def over(text: str) -> str:
    query = parse_row_query(text)
    return query.over({"batch": "B", **{name: f"V{at}" for at, name in enumerate(query.tables)}})


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("SELECT * FROM batch WHERE n < 0;\n", "SELECT * FROM `B` AS batch WHERE n < 0"),
        (
            r"select b.id from Batch b where b.a rlike '\\d{3} batch\'s' -- batch",
            r"select b.id from `B` b where b.a rlike '\\d{3} batch\'s' -- batch",
        ),
        (
            "SELECT shop.`o-1`.id FROM batch LEFT JOIN shop.`o-1` ON shop.`o-1`.id = batch.id",
            "SELECT `o-1`.id FROM `B` AS batch LEFT JOIN `V0` AS `o-1` ON `o-1`.id = batch.id",
        ),
        (
            "WITH c AS (FROM batch) SELECT * FROM c WHERE x IN (SELECT x FROM a.b)",
            "WITH c AS (FROM `B` AS batch) SELECT * FROM c WHERE x IN (SELECT x FROM `V0` AS b)",
        ),
        ("SELECT count(*) FROM batch -- x", COUNTED),
    ],
)
def test_tables_get_other_names_and_all_else_stays_as_written(text: str, given: str) -> None:
    assert over(text) == given


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT * FROM bach", "the query names bach; name the rows of the run as batch"),
        ("SELECT * FROM a.b.c, batch", "the query names a.b.c"),
        ("SELECT * FROM a.b", "the query does not name batch"),
        ("SELECT *\nFRM batch", "line 2, column 9: Invalid expression"),
        ("SELECT 'a FROM batch", "the query cannot be parsed"),
        ("DELETE FROM batch", "is not one query"),
        ("SELECT 1 FROM batch; SELECT 2", "is not one query"),
        ("", "is not one query"),
        ("SELECT sum(x), max(y) FROM batch", "always returns one row"),
    ],
)
def test_what_is_no_query_of_rows_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said):
        parse_row_query(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT sum(x) FROM batch HAVING sum(x) > 3",
        "SELECT id, count(*) FROM batch GROUP BY id",
        "SELECT max(x) OVER (PARTITION BY y) FROM batch",
        "SELECT (SELECT max(x) FROM a.b) FROM batch",
    ],
)
def test_queries_with_aggregates_may_return_rows(text: str) -> None:
    assert not parse_row_query(text).is_count
