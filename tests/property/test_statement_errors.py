"""Statements that are wrong in any way are refused at a place in their text, underlined."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage.errors import InvalidStatement
from lakewright.storage.sql import parse_statements

RIGHT = [
    """CREATE TABLE IF NOT EXISTS a.t (id BIGINT NOT NULL COMMENT 'x', v DECIMAL(10, 2) DEFAULT 0.5,
    m MAP<STRING, ARRAY<INT>>, c AS id * 2, ts TIMESTAMP(3), o STRING METADATA FROM 'k' VIRTUAL,
    PRIMARY KEY (id, dt) NOT ENFORCED, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
    COMMENT 'it''s' DISTRIBUTED BY HASH (id) INTO 4 BUCKETS PARTITIONED BY (dt STRING)
    WITH ('file.format' = 'orc', k = 1)""",
    "CREATE TABLE t PARTITIONED BY (a) AS SELECT a, b FROM s WHERE a > 1 ORDER BY b LIMIT 5",
    "CREATE TABLE t LIKE s WITH ('a' = 'b')",
    "CREATE DATABASE IF NOT EXISTS d; DROP DATABASE d CASCADE; DROP TABLE IF EXISTS t PURGE",
    "ALTER TABLE t ADD COLUMNS (c STRING COMMENT 'x' AFTER b, d INT FIRST)",
    "ALTER TABLE t ADD PRIMARY KEY (a, b) NOT ENFORCED; ALTER TABLE t RENAME TO a.u",
    "ALTER TABLE t ALTER COLUMN a.b SET DEFAULT DATE '2024-01-31'; ALTER TABLE t DROP COLUMN c, d",
    "ALTER TABLE t CHANGE a b BIGINT; ALTER TABLE t MODIFY (a INT, b STRING NOT NULL)",
    "ALTER TABLE t PARTITION (a = 1, b = 'x') SET ('change-tracking' = 'false')",
    "ALTER TABLE t PARTITION (a = X'00ff') RENAME TO PARTITION (a = NULL)",
    "ALTER TABLE t ADD IF NOT EXISTS PARTITION (a = -1) LOCATION 'x', PARTITION (a = 2)",
    "ALTER TABLE t DROP IF EXISTS PARTITION (a = 1.5), PARTITION (a = 1e3) PURGE",
    "ALTER TABLE t EXCHANGE PARTITION ((a = 1), (a = 2)) WITH TABLE s; MSCK REPAIR TABLE t",
    "ALTER TABLE t COMPACT 'major'; ALTER TABLE t PARTITION (a = TRUE) CLUSTERED INTO 3 BUCKETS",
    "ALTER TABLE t PARTITIONED BY (a, b); ALTER TABLE t SET 'a' = '1'; ALTER TABLE t RESET ('a')",
    "INSERT OVERWRITE t PARTITION (a = 'x', b) (c, d) VALUES (1, ARRAY(1, 2)), (2, MAP('a', 1))",
    "INSERT INTO t BY NAME SELECT * FROM `t$snapshots` WHERE a IN (1, 2) AND b LIKE 'x%'",
    "DELETE FROM t; DELETE FROM a.t AS x WHERE x.id IN (SELECT id FROM s) OR (v LIKE 'x%')",
    "UPDATE t SET a = CASE WHEN b > 1 THEN (c, d)[1] ELSE 'x' END, t.e = f(1, 2) WHERE a = 1",
    """MERGE INTO t AS a USING (SELECT 1 AS id, 'x' AS v) b ON a.id = b.id AND a.v > 'y'
    WHEN MATCHED AND b.v = 'd' THEN DELETE WHEN MATCHED THEN UPDATE SET *
    WHEN NOT MATCHED BY TARGET THEN INSERT (id, v) VALUES (b.id, upper(b.v))
    WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 1""",
    "TRUNCATE TABLE t; TRUNCATE TABLE a.t PARTITION (a = 1, b = 'x')",
    "SHOW TABLES IN a LIKE 'x*'; SHOW PARTITIONS t PARTITION (a = 1); SHOW CREATE TABLE t",
    "DESCRIBE DETAIL TABLE t PARTITION (a = 1); DESCRIBE EXTENDED t c; SHOW COLUMNS IN t FROM d",
    "CALL sys.compact(`table` => 'a.t', partitions => 'x=1'); CALL sys.rollback_to('t', 1.5, true)",
    "USE d; SET 'a' = 'b'; SET table-storage.bucket = 10; RESET",
    "ANALYZE TABLE t COMPUTE STATISTICS",
    "EXPLAIN SELECT count(*) FROM t WHERE a = 1; WITH x AS (SELECT 1) SELECT * FROM x",
]
PIECE = re.compile(r"\s+|\w+|'[^']*'|`[^`]*`|.", re.DOTALL)
PIECES = sorted({each for text in RIGHT for each in PIECE.findall(text)})
SIGNS = ("'", '"', "`", "(", ")", ";", "--", "/*", "\x00", "é", "😀", "1e", "X'0'", "9" * 500)
NOISE = st.sampled_from([*PIECES, *SIGNS])


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A right text, of which some pieces went, stand twice, or are others."""
    pieces = PIECE.findall(draw(st.sampled_from(RIGHT)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(pieces) - 1))
        match draw(st.integers(0, 3)):
            case 0:
                del pieces[at]
            case 1:
                pieces.insert(at, draw(NOISE))
            case 2:
                pieces[at] = draw(NOISE)
            case _:
                pieces = pieces[:at] or pieces
        if not pieces:
            return ""
    return "".join(pieces)


@pytest.mark.parametrize("text", RIGHT)
def test_each_text_is_right_as_it_stands(text: str) -> None:
    assert parse_statements(text)


@given(text=st.one_of(damaged(), st.lists(NOISE, max_size=12).map("".join), st.text(max_size=40)))
def test_a_wrong_text_is_refused_at_a_place_in_it(text: str) -> None:
    try:
        parse_statements(text)
    except InvalidStatement as error:
        refused = error
    else:
        return
    found = re.match(r"line (\d+), column (\d+): ", refused.message)
    assert found is not None, refused.message
    lines = text.split("\n")
    assert 1 <= int(found[1]) <= len(lines)
    assert 1 <= int(found[2]) <= len(lines[int(found[1]) - 1]) + 1
    shown, mark = str(refused.details["excerpt"]).split("\n")
    assert shown in lines[int(found[1]) - 1].replace("\t", " ")
    assert set(mark.strip()) == {"^"}
