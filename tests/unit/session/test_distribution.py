"""DISTRIBUTED and DISTRIBUTION on tables of a warehouse, and the same from Python."""

from __future__ import annotations

import pytest

from lakewright.session import Session
from lakewright.storage import Catalog, Column, SchemaSpec, StorageError, TableDistribution
from lakewright.storage.errors import (
    InvalidOption,
    InvalidSchema,
    InvalidStatement,
    UnsupportedError,
)
from lakewright.storage.spec.data_types import parse_data_type
from tests.unit.session.conftest import first_column, rows_of

HASH, INTO = TableDistribution.of_hash, TableDistribution.of_unknown
KEYED = "CREATE TABLE t (a INT, b INT, v STRING, PRIMARY KEY (a, b) NOT ENFORCED)"
APPEND = "CREATE TABLE t (a INT, b INT, v STRING)"
ROWS = "INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'y'), (3, 3, 'z'), (4, 1, 'w')"
ALL = [(1, 1, "x"), (2, 2, "y"), (3, 3, "z"), (4, 1, "w")]


def buckets(catalog: Catalog) -> list[tuple[int, int]]:
    return sorted(
        {(each.bucket, each.total_buckets) for each in catalog.table("db.t").at().files()}
    )


@pytest.mark.mission("BK2", "BK4", "BK10", "BK13", "BK14", "BK15", "BK17", "BK21", "BK23")
@pytest.mark.mission("BK33")
@pytest.mark.parametrize(
    ("create", "clause", "found"),
    [
        (KEYED, "DISTRIBUTED BY (b) INTO 3 BUCKETS", HASH(["b"], 3)),
        (KEYED, "DISTRIBUTED BY HASH (b, a) INTO 3 BUCKETS", HASH(["b", "a"], 3)),
        (KEYED, "DISTRIBUTED INTO 3 BUCKETS", INTO(3)),
        (KEYED, "DISTRIBUTED BY (a, b)", HASH(["a", "b"])),
        (KEYED, "", None),
        (APPEND, "DISTRIBUTED BY (v) INTO 3 BUCKETS", HASH(["v"], 3)),
        (APPEND, "", None),
    ],
)
def test_a_table_of_a_statement_is_one_of_options_and_its_statement_makes_it_again(
    catalog: Catalog, session: Session, create: str, clause: str, found: TableDistribution | None
) -> None:
    session.sql(f"{create} {clause}; {ROWS}")
    table = catalog.table("db.t")
    assert table.distribution == found
    (text,) = first_column(session.sql("SHOW CREATE TABLE t"))
    described = {name: value for part, name, value in rows_of(session, "DESCRIBE EXTENDED t")}
    assert described["distribution"] == (None if found is None else str(found))
    session.sql(f"DROP TABLE t; {text}; {ROWS}")
    again = catalog.table("db.t")
    assert (again.distribution, again.schema.options) == (found, table.schema.options)
    session.sql("CREATE TABLE copied LIKE t")
    assert catalog.table("db.copied").schema.options == table.schema.options
    assert rows_of(session, "SELECT * FROM t ORDER BY a") == ALL


@pytest.mark.mission("BK21", "BK24")
def test_python_creates_what_a_statement_creates(catalog: Catalog, session: Session) -> None:
    columns = {"a": "INT", "b": "INT", "v": "STRING"}
    made = catalog.create_table(
        "db.t", columns, primary_keys=["a", "b"], distribution=HASH(["a"], 4)
    )
    assert made.schema.options["bucket"] == "4"
    assert made.schema.options["bucket-key"] == "a"
    spec = SchemaSpec(
        columns=tuple(Column(name, parse_data_type(text)) for name, text in columns.items()),
        distribution=HASH(["v"], 2),
    )
    assert catalog.create_table("db.u", spec).distribution == HASH(["v"], 2)
    with pytest.raises(InvalidOption, match=r"BY HASH \(a\) .* and option bucket=3 both say"):
        catalog.create_table("db.w", columns, options={"bucket": "3"}, distribution=HASH(["a"], 2))
    with pytest.raises(StorageError, match="distribution itself"):
        catalog.create_table("db.w", spec, distribution=INTO(2))
    assert not catalog.table_exists("db.w")


@pytest.mark.mission("BK13", "BK17")
def test_a_default_number_is_for_distributions_that_leave_it_open(
    catalog: Catalog, session: Session
) -> None:
    session.sql("SET table-storage.bucket = 5")
    for clause, found in (
        ("BY (a)", HASH(["a"], 5)),
        ("BY (a) INTO 2 BUCKETS", HASH(["a"], 2)),
        ("INTO 3 BUCKETS", INTO(3)),
    ):
        session.sql(f"{KEYED} DISTRIBUTED {clause}")
        assert catalog.table("db.t").distribution == found
        session.sql("DROP TABLE t")


@pytest.mark.mission("BK11", "BK14", "BK15", "BK26", "BK30")
@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (f"{APPEND} DISTRIBUTED INTO 3 BUCKETS", r"write DISTRIBUTED BY \(column\) INTO 3 BUCKETS"),
        (f"{APPEND} DISTRIBUTED BY (a)", r"BY HASH \(a\) INTO n BUCKETS"),
        (f"{APPEND} DISTRIBUTED BY (x) INTO 3 BUCKETS", "x, which is no column"),
        (f"{KEYED} DISTRIBUTED BY (v) INTO 3 BUCKETS", "not in the primary key"),
        (f"{KEYED} DISTRIBUTED BY RANGE (a) INTO 3 BUCKETS", "HASH, UNKNOWN, not by RANGE"),
        (
            "CREATE TABLE t (a INT, c AS a + 1) DISTRIBUTED BY (c) INTO 3 BUCKETS",
            "c, a computed column",
        ),
        (
            "CREATE TABLE t (a INT, m INT METADATA) DISTRIBUTED BY (m) INTO 3 BUCKETS",
            "m, a metadata column",
        ),
        (f"{APPEND} DISTRIBUTED BY (a) INTO 3 BUCKETS WITH ('bucket-key' = 'a')", "say the same"),
        (
            f"{APPEND} DISTRIBUTED BY (a) INTO 3 BUCKETS WITH ('type' = 'format-table')",
            "its store has no buckets; leave the clause out",
        ),
        ("CREATE TABLE t DISTRIBUTED BY (z) INTO 3 BUCKETS AS SELECT 1 AS a", "z, which is no"),
    ],
)
def test_what_a_table_cannot_have_is_refused_and_leaves_none(
    catalog: Catalog, session: Session, statement: str, told: str
) -> None:
    with pytest.raises(StorageError, match=told):
        session.sql(statement)
    assert not catalog.table_exists("db.t")


@pytest.mark.mission("BK7")
def test_a_table_of_a_query_is_distributed(catalog: Catalog, session: Session) -> None:
    session.sql("CREATE TABLE t DISTRIBUTED BY (a) INTO 2 BUCKETS AS SELECT 1 AS a, 2 AS b")
    assert catalog.table("db.t").distribution == HASH(["a"], 2)
    assert rows_of(session, "SELECT * FROM t") == [(1, 2)]


@pytest.mark.mission("BK7", "BK30")
def test_a_table_like_another_has_its_parts_and_more_columns(
    catalog: Catalog, session: Session
) -> None:
    session.sql(f"{KEYED} DISTRIBUTED BY (b) INTO 3 BUCKETS WITH ('file.format' = 'orc')")
    session.sql(
        "CREATE TABLE u (w INT) COMMENT 'c' WITH ('snapshot.num-retained.min' = '3') LIKE t"
    )
    like = catalog.table("db.u")
    assert like.schema.field_names == ("a", "b", "v", "w")
    assert (like.distribution, like.schema.primary_keys) == (HASH(["b"], 3), ("a", "b"))
    assert like.schema.options["file.format"] == "orc"
    assert (like.schema.comment, like.schema.options["snapshot.num-retained.min"]) == ("c", "3")
    session.sql("CREATE TABLE o DISTRIBUTED BY (a) INTO 2 BUCKETS LIKE t (EXCLUDING DISTRIBUTION)")
    assert catalog.table("db.o").distribution == HASH(["a"], 2)
    session.sql("CREATE TABLE p LIKE t (EXCLUDING ALL INCLUDING OPTIONS)")
    bare = catalog.table("db.p")
    assert (bare.schema.primary_keys, bare.distribution) == ((), None)
    assert bare.schema.options["file.format"] == "orc"
    session.sql("CREATE TABLE c (a INT, d AS a + 1) WITH ('file.format' = 'avro')")
    session.sql("CREATE TABLE e LIKE c (EXCLUDING OPTIONS); CREATE TABLE f LIKE c (EXCLUDING ALL)")
    (text,) = first_column(session.sql("SHOW CREATE TABLE e"))
    assert "d AS a + 1" in str(text)
    assert catalog.table("db.e").schema.options["file.format"] == "parquet"
    (text,) = first_column(session.sql("SHOW CREATE TABLE f"))
    assert "d AS" not in str(text)
    with pytest.raises(InvalidStatement, match=r"LIKE db.t \(EXCLUDING DISTRIBUTION\)"):
        session.sql("CREATE TABLE q DISTRIBUTED INTO 2 BUCKETS LIKE t")
    with pytest.raises(InvalidStatement, match=r"EXCLUDING CONSTRAINTS"):
        session.sql("CREATE TABLE q (PRIMARY KEY (a) NOT ENFORCED) LIKE t")


@pytest.mark.mission("BK8", "BK9", "BK18", "BK20", "SQ15")
@pytest.mark.parametrize(
    ("create", "changes"),
    [
        (
            KEYED,
            {
                "ADD DISTRIBUTION BY (b) INTO 6 BUCKETS": HASH(["b"], 6),
                "MODIFY DISTRIBUTION BY HASH (b) INTO 4 BUCKETS": HASH(["b"], 4),
                "MODIFY DISTRIBUTION INTO 2 BUCKETS": HASH(["b"], 2),
            },
        ),
        (
            KEYED,
            {
                "ADD DISTRIBUTION INTO 3 BUCKETS": INTO(3),
                "MODIFY DISTRIBUTION BY (a, b) INTO 2 BUCKETS": HASH(["a", "b"], 2),
                "DROP DISTRIBUTION": None,
                "ADD DISTRIBUTION INTO 2 BUCKETS": INTO(2),
            },
        ),
        (
            f"{APPEND} DISTRIBUTED BY (b) INTO 2 BUCKETS",
            {"MODIFY DISTRIBUTION INTO 3 BUCKETS": HASH(["b"], 3)},
        ),
    ],
)
def test_the_distribution_of_a_table_with_rows_changes_and_goes(
    catalog: Catalog, session: Session, create: str, changes: dict[str, TableDistribution | None]
) -> None:
    session.sql(f"{create}; {ROWS}")
    for statement, found in changes.items():
        result = session.sql(f"ALTER TABLE t {statement}")
        table = catalog.table("db.t")
        assert table.distribution == found
        told = "by the store's default" if found is None else str(found)
        assert result.message == f"db.t is distributed {told}"
        total = 1 if found is None else found.bucket_count
        assert {each for _, each in buckets(catalog)} == {total}
        assert rows_of(session, "SELECT * FROM t ORDER BY a") == ALL
        assert rows_of(session, "SELECT v FROM t WHERE a = 4 AND b = 1") == [("w",)]
    session.sql("INSERT INTO t VALUES (1, 1, 'new')")
    found = rows_of(session, "SELECT v FROM t WHERE a = 1 AND b = 1")
    assert sorted(found) == ([("new",)] if create == KEYED else [("new",), ("x",)])


@pytest.mark.mission("BK8", "BK20")
def test_an_empty_append_table_gets_buckets_and_loses_them(
    catalog: Catalog, session: Session
) -> None:
    session.sql(f"{APPEND}; ALTER TABLE t ADD DISTRIBUTION BY (a) INTO 2 BUCKETS")
    assert catalog.table("db.t").distribution == HASH(["a"], 2)
    session.sql("ALTER TABLE t DROP DISTRIBUTION")
    assert catalog.table("db.t").options.bucket == -1


@pytest.mark.mission("BK8", "BK20", "BK26")
@pytest.mark.parametrize(
    ("create", "statement", "told"),
    [
        (APPEND, "ADD DISTRIBUTION BY (a) INTO 2 BUCKETS", "create a table with this distribution"),
        (KEYED, "ADD DISTRIBUTION BY (a, b)", "create a table with this distribution"),
        (KEYED, "ADD DISTRIBUTION BY RANGE (a) INTO 2 BUCKETS", "not by RANGE"),
        (KEYED, "ADD DISTRIBUTION BY (v) INTO 2 BUCKETS", "not in the primary key"),
        (
            f"{KEYED} DISTRIBUTED BY (a) INTO 2 BUCKETS",
            "MODIFY DISTRIBUTION BY (b) INTO 2 BUCKETS",
            r"by other bucket keys \(a\) in new partitions,",
        ),
        (
            f"{APPEND} DISTRIBUTED BY (a) INTO 2 BUCKETS",
            "DROP DISTRIBUTION",
            "create a table with this distribution",
        ),
        (KEYED, "MODIFY DISTRIBUTION INTO 2 BUCKETS", "write ADD DISTRIBUTION INTO 2 BUCKETS"),
        (KEYED, "DROP DISTRIBUTION", "is not distributed; there is none to drop"),
        (
            f"{KEYED} DISTRIBUTED INTO 2 BUCKETS",
            "ADD DISTRIBUTION BY (a) INTO 3 BUCKETS",
            r"INTO 2 BUCKETS; write MODIFY DISTRIBUTION BY HASH \(a\) INTO 3 BUCKETS",
        ),
    ],
)
def test_a_change_that_cannot_be_is_refused_and_changes_nothing(
    catalog: Catalog, session: Session, create: str, statement: str, told: str
) -> None:
    session.sql(f"{create}; {ROWS}")
    before = catalog.table("db.t").schema
    with pytest.raises((InvalidStatement, InvalidSchema, UnsupportedError), match=told):
        session.sql(f"ALTER TABLE t {statement}")
    assert catalog.table("db.t").schema == before


@pytest.mark.mission("BK8")
def test_if_exists_passes_over_a_table_that_is_not_there(session: Session) -> None:
    for change in ("DROP DISTRIBUTION", "RENAME TO u", "SET ('bucket' = '2')"):
        result = session.sql(f"ALTER TABLE IF EXISTS missing {change}")
        assert result.message == "there is no db.missing"
