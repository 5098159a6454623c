"""The words of DISTRIBUTED and DISTRIBUTION, at every place where a statement may have them."""

from __future__ import annotations

from itertools import product

import pytest

from lakewright.storage import TableDistribution
from lakewright.storage.errors import InvalidStatement
from lakewright.storage.spec.table_distribution import Kind
from lakewright.storage.sql import parse_statements
from lakewright.storage.sql.grammar.statements import AlterDistribution, CreateTable

SAID = {
    "BY (a) INTO 6 BUCKETS": TableDistribution.of_hash(["a"], 6),
    "BY (a, b)": TableDistribution.of_hash(["a", "b"]),
    "BY HASH(a) INTO 6 BUCKETS": TableDistribution.of_hash(["a"], 6),
    "by hash (a, `b c`)": TableDistribution.of_hash(["a", "b c"]),
    "BY RANGE(a)": TableDistribution.of_range(["a"]),
    "BY RANGE (a) INTO 2 BUCKETS": TableDistribution.of_range(["a"], 2),
    "BY (hash, range, buckets)": TableDistribution.of_hash(["hash", "range", "buckets"]),
    "BY HASH (range) INTO 2 BUCKETS": TableDistribution.of_hash(["range"], 2),
    "INTO 6 BUCKETS": TableDistribution(Kind.UNKNOWN, 6, ()),
}


def created(text: str) -> CreateTable:
    (parsed,) = parse_statements(text)
    assert isinstance(parsed.statement, CreateTable)
    return parsed.statement


@pytest.mark.mission("BK1", "BK4", "BK7", "BK10", "BK12", "BK14", "BK15", "BK17", "BK33")
@pytest.mark.parametrize("clause", SAID)
def test_the_clause_stands_beside_every_other_one(clause: str) -> None:
    rest = (
        ("", "IF NOT EXISTS "),
        ("", " COMMENT 'c'"),
        ("", " PARTITIONED BY (p)"),
        ("", " WITH ('file.format' = 'orc')"),
        ("", " LIKE s", " LIKE s (EXCLUDING DISTRIBUTION)", " AS SELECT 1 AS a"),
    )
    for exists, comment, partitions, options, source in product(*rest):
        columns = "" if source.startswith(" AS") else " (a INT, p STRING)"
        asked = created(
            f"CREATE TABLE {exists}db.t{columns}{comment} DISTRIBUTED {clause}{partitions}{options}"
            f"{source}"
        )
        assert asked.distribution == SAID[clause]
        assert asked.if_not_exists is bool(exists)
        assert asked.comment == ("c" if comment else "")
        assert asked.partition_keys == (("p",) if partitions else ())
        assert dict(asked.options) == ({"file.format": "orc"} if options else {})
        assert asked.like == ("s" if "LIKE" in source else None)
        assert (asked.query is not None) is ("AS" in source)
        assert asked.excluding == ({"DISTRIBUTION"} if "EXCLUDING" in source else frozenset())


@pytest.mark.mission("BK8", "BK9", "BK18", "BK19", "BK20", "BK33", "SQ15")
@pytest.mark.parametrize("clause", SAID)
@pytest.mark.parametrize("exists", ["", "IF EXISTS "])
def test_a_distribution_is_added_modified_and_dropped(clause: str, exists: str) -> None:
    added, modified, dropped = parse_statements(
        f"ALTER TABLE {exists}t ADD DISTRIBUTION {clause};"
        f"ALTER TABLE {exists}t MODIFY DISTRIBUTION {clause};"
        f"ALTER TABLE {exists}t DROP DISTRIBUTION"
    )
    assert added.statement == AlterDistribution("t", "ADD", SAID[clause])
    assert modified.statement == AlterDistribution("t", "MODIFY", SAID[clause])
    assert dropped.statement == AlterDistribution("t", "DROP")
    assert {each.if_exists for each in (added, modified, dropped)} == {bool(exists)}


@pytest.mark.mission("BK12", "BK16", "BK19")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("CREATE TABLE t (a INT) DISTRIBUTED", r"expected INTO, found the end .*; write BY \(col"),
        ("CREATE TABLE t (a INT) DISTRIBUTED BY", r"expected \(, found the end"),
        ("CREATE TABLE t (a INT) DISTRIBUTED BY ()", "expected a bucket column, found '\\)'"),
        ("CREATE TABLE t (a INT) DISTRIBUTED BY a", r"expected \(, found 'a'"),
        ("CREATE TABLE t (a INT) DISTRIBUTED BY LIST (a)", r"expected \(, found 'LIST'"),
        ("CREATE TABLE t (a INT) DISTRIBUTED BY (a) INTO BUCKETS", "the number of buckets"),
        ("CREATE TABLE t (a INT) DISTRIBUTED BY (a) INTO 2", "expected BUCKETS"),
        ("CREATE TABLE t (a INT) DISTRIBUTED INTO 0 BUCKETS", "0 buckets hold no rows"),
        ("CREATE TABLE t (a INT) DISTRIBUTED BY (a, a) INTO 2 BUCKETS", "a is a bucket key twice"),
        ("CREATE TABLE t (a INT) DISTRIBUTION INTO 2 BUCKETS", "begins no clause of CREATE TABLE"),
        ("ALTER TABLE t ADD DISTRIBUTED INTO 2 BUCKETS", "INTO"),
        ("ALTER TABLE t MODIFY DISTRIBUTION", r"expected INTO, found the end"),
        ("ALTER TABLE t DROP DISTRIBUTION BY (a)", "'BY' is not expected here"),
    ],
)
def test_what_is_no_distribution_is_refused_with_the_place(text: str, told: str) -> None:
    with pytest.raises(InvalidStatement, match=told):
        parse_statements(text)


@pytest.mark.mission("BK30")
@pytest.mark.parametrize("option", ["bucket", "bucket-key"])
def test_the_clause_and_an_option_of_buckets_are_not_said_both(option: str) -> None:
    with pytest.raises(InvalidStatement, match=f"option {option} and the clause DISTRIBUTED say"):
        parse_statements(
            f"CREATE TABLE t (a INT) DISTRIBUTED BY (a) INTO 2 BUCKETS WITH ('{option}' = '2')"
        )
