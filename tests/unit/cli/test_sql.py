"""`sql`: statements as text and from a file, and their results in every form."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewright.storage import Catalog
from tests.unit.cli.conftest import Lakewright

CHANGES = """
-- the statements of a day
CREATE TABLE page_view (user STRING, cnt INT) PARTITIONED BY (dt STRING);
INSERT INTO page_view PARTITION (dt='2024-01-31') VALUES ('ann', 3), ('b,b', NULL);
SELECT user, cnt FROM page_view WHERE dt = '2024-01-31' ORDER BY user;
"""


@pytest.mark.mission("PT24", "SQ4", "SQ10")
def test_statements_print_rows_or_what_they_did(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    catalog.create_database("shop")
    file = tmp_path / "changes.sql"
    file.write_text(CHANGES)
    done = lakewright(catalog, "sql", "--file", str(file), "--database", "shop")
    assert done.code == 0
    assert done.lines[0].startswith("shop.page_view is created at ")
    assert done.lines[1] == "2 rows written into shop.page_view, snapshot 1"
    assert [line.split() for line in done.lines[4:]] == [
        ["ann", "3"],
        ["b,b", "null"],
        ["(2", "rows)"],
    ]
    shown = lakewright(catalog, "sql", "SHOW PARTITIONS shop.page_view", "--format", "csv")
    assert shown.lines == ["partition", "dt='2024-01-31'"]
    overwritten = lakewright(
        catalog, "sql", "INSERT OVERWRITE page_view VALUES ('eve', 1, '2024-02-01')",
        "--set", "database=shop", "--set", "dynamic-partition-overwrite=false", "--format", "json",
    )  # fmt: skip
    assert overwritten.json == {"table": "shop.page_view", "rows": 1, "snapshot": 2}
    counted = lakewright(catalog, "sql", "SELECT count(*) FROM shop.page_view", "--format", "json")
    assert counted.json == {"count(*)": 1}


def test_a_wrong_statement_is_said_with_its_place_and_exits_with_2(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    catalog.create_database("shop")
    for arguments, message in (
        (("SHOW\n  PARTITION t",), "line 2, column 3: 'PARTITION' cannot be shown"),
        (("SHOW TABLES", "--set", "nope"), "--set nope has no value"),
        ((), "statements or --file is needed"),
    ):
        refused = lakewright(catalog, "sql", *arguments)
        assert refused.code == 2
        assert message in refused.err
    assert lakewright(catalog, "sql", "--file", "no/such.sql").code == 3
    assert lakewright(catalog, "sql", "SELECT a + 1 FROM shop.t").code == 4
