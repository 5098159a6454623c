"""Which columns of a table SQL statements use, and how sure that is."""

from __future__ import annotations

import pytest

from lakewright.storage.sql import used_columns

COLUMNS = ("id", "amount", "city")

CASES: dict[str, tuple[str, set[tuple[str, bool]]]] = {
    "a query of the table alone": (
        "SELECT id, sum(amount) FROM shop.orders GROUP BY id",
        {("id", True), ("amount", True)},
    ),
    "a filter": ("SELECT count(1) FROM shop.orders WHERE city = 'Ulm'", {("city", True)}),
    "names in another case and quotes": ("select `AMOUNT` from `Shop`.ORDERS", {("amount", True)}),
    "aliases": (
        "SELECT o.id, c.city FROM shop.orders o JOIN shop.customers c ON o.id = c.id",
        {("id", True)},
    ),
    "a name of one of two tables": (
        "SELECT amount FROM shop.orders o JOIN shop.customers c ON o.id = c.id",
        {("id", True), ("amount", False)},
    ),
    "a table expression before the query": (
        "WITH o AS (SELECT amount AS a FROM shop.orders) SELECT a, city FROM o",
        {("amount", True)},
    ),
    "all columns": ("SELECT * FROM shop.orders", {("*", False)}),
    "all columns of another table": (
        "SELECT c.* FROM shop.orders o JOIN shop.customers c ON o.id = c.id",
        {("id", True)},
    ),
    "a count of rows": ("SELECT count(*) FROM shop.orders", set()),
    "a table of another database": ("SELECT amount FROM old.orders", set()),
    "a table without a database": ("SELECT amount FROM orders", {("amount", False)}),
    "an insert": (
        "INSERT INTO shop.orders (id, amount) SELECT a, b FROM shop.raw",
        {("id", True), ("amount", True)},
    ),
    "an insert from the table": (
        "INSERT INTO shop.copy SELECT id FROM shop.orders",
        {("id", True)},
    ),
    "an update": (
        "UPDATE shop.orders SET amount = 0 WHERE id = 1",
        {("amount", True), ("id", True)},
    ),
    "a deletion": ("DELETE FROM shop.orders WHERE city IS NULL", {("city", True)}),
    "a template": (
        "SELECT amount FROM {{ ref('orders') }} WHERE {% if x %} 1 {% endif %}",
        {("amount", False)},
    ),
    "a template of another table": ("SELECT amount FROM {{ ref('lines') }} {% x %}", set()),
    "an alias in another case": ("SELECT O.amount FROM shop.orders o", {("amount", True)}),
    "the table's name in another case": (
        "CREATE VIEW v AS SELECT Orders.amount FROM shop.orders",
        {("amount", True)},
    ),
    "the table's whole name": ("SELECT shop.orders.amount FROM shop.orders", {("amount", True)}),
    "a member of a row": ("SELECT city.name FROM shop.orders", {("city", True)}),
    "a member of a row of an alias": ("SELECT o.city.id FROM shop.orders o", {("city", True)}),
    "a member of a row of one of two tables": (
        "SELECT city.name FROM shop.orders o, shop.customers c",
        {("city", False)},
    ),
    "all members of a row": ("SELECT city.* FROM shop.orders", {("city", False)}),
    "a row of the query around": (
        "SELECT (SELECT max(1) FROM shop.orders o WHERE o.id = city.id) FROM shop.places city",
        {("id", True), ("city", False)},
    ),
    "columns that join": (
        "SELECT o.amount FROM shop.orders o JOIN shop.customers c USING (id)",
        {("amount", True), ("id", True)},
    ),
    "columns that join three tables": (
        "SELECT 1 FROM shop.customers c JOIN shop.lines l USING (id) JOIN shop.orders USING (city)",
        {("id", False), ("city", False)},
    ),
    "a natural join": ("SELECT 1 FROM shop.orders NATURAL JOIN shop.lines", {("*", False)}),
    "an insert by position": ("INSERT INTO shop.orders SELECT 1, 2, 'Ulm'", {("*", False)}),
    "an insert of values": ("INSERT INTO shop.orders VALUES (1, 2, 'Ulm')", {("*", False)}),
    "a table expression before an insert": (
        "WITH o AS (SELECT amount FROM shop.orders) INSERT INTO shop.copy SELECT * FROM o",
        {("amount", True)},
    ),
    "a table expression before an update": (
        "WITH o AS (SELECT amount FROM shop.orders) UPDATE shop.x SET a = (SELECT 1 FROM o)",
        {("amount", False)},
    ),
    "all columns as a row": ("SELECT struct(o.*) FROM shop.orders o", {("*", False)}),
    "all columns of a merge": (
        "MERGE INTO shop.orders o USING shop.new n ON o.id = n.id WHEN MATCHED THEN UPDATE SET *",
        {("id", True), ("*", False)},
    ),
    "a very long statement": (
        "SELECT amount FROM shop.orders WHERE " + " OR ".join(f"id = {n}" for n in range(3000)),
        {("amount", False), ("id", False)},
    ),
    "an insert of very many values": (
        "INSERT INTO shop.orders VALUES " + ", ".join(["(1, 2, 'Ulm')"] * 3000),
        {("*", False)},
    ),
    "a query beside very many statements": (
        "INSERT INTO shop.lines VALUES (1, 2);" * 6000 + "SELECT amount FROM shop.orders",
        {("amount", False)},
    ),
    "a mark of an end in a text": (
        "SELECT amount FROM shop.orders WHERE city = 'a;b' AND id = 1",
        {("amount", True), ("city", True), ("id", True)},
    ),
    "a template beside a query": (
        "SELECT {{ x }} FROM {% y %}; SELECT amount FROM shop.orders",
        {("amount", True)},
    ),
    "a table in double quotes, as Trino writes names": (
        'SELECT o."amount" FROM "lake"."shop"."orders" o WHERE city = \'x\'',
        {("amount", True), ("city", True)},
    ),
    "double quotes that are texts in Spark and names in Trino": (
        'SELECT id FROM shop.orders WHERE city = "amount"',
        {("id", True), ("city", True), ("amount", False)},
    ),
    "nothing of it": ("SELECT 1", set()),
}


@pytest.mark.parametrize(("text", "uses"), CASES.values(), ids=CASES)
def test_uses_are_found_with_their_certainty(text: str, uses: set[tuple[str, bool]]) -> None:
    found = list(used_columns(text, "shop.orders", COLUMNS))
    assert {(each.column, each.is_certain) for each in found} == uses


def test_each_statement_counts_and_a_view_has_its_name(caplog: pytest.LogCaptureFixture) -> None:
    text = (
        "CREATE OR REPLACE VIEW shop.totals AS SELECT id, amount FROM shop.orders;\n"
        "CREATE VIEW shop.other AS SELECT id FROM shop.lines;\n"
        "OPTIMIZE shop.orders ZORDER BY (city);\n"
        "SELECT city FROM shop.orders;"
    )
    found = [
        (each.column, each.view, each.is_certain)
        for each in used_columns(text, "shop.orders", ("amount", "city"))
    ]
    assert found == [("amount", "shop.totals", True), ("city", None, False), ("city", None, True)]
    assert not caplog.records
