"""How rows are distributed: the noun, and what it is as options of a table."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakewright.storage import StorageError, SupportsBucketing, TableDistribution
from lakewright.storage.errors import InvalidRequestError, InvalidSchema, UnsupportedError
from lakewright.storage.spec.bucketing import HashBuckets, distributed, distribution_of
from lakewright.storage.spec.data_types import parse_data_type
from lakewright.storage.spec.schema import Column, SchemaSpec, TableSchema, new_schema
from lakewright.storage.spec.table_distribution import Kind, check_distribution

HASH, RANGE = TableDistribution.of_hash, TableDistribution.of_range
INTO = TableDistribution.of_unknown


def schema(*keys: str, **options: str) -> TableSchema:
    columns = tuple(Column(name, parse_data_type("INT")) for name in ("dt", "a", "b", "v"))
    named = {name.replace("_", "-"): text for name, text in options.items()}
    spec = SchemaSpec(
        columns=columns, partition_keys=("dt",), primary_keys=keys, options={"bucket": "1", **named}
    )
    return new_schema(spec, time_millis=0)


@pytest.mark.mission("BK22", "RS16")
def test_a_distribution_is_made_by_a_rule_columns_and_a_number() -> None:
    assert HASH(["a", "b"], 6) == TableDistribution(Kind.HASH, 6, ("a", "b"))
    assert RANGE(["a"]) == TableDistribution(Kind.RANGE, None, ("a",))
    assert INTO(3) == TableDistribution(Kind.UNKNOWN, 3, ())
    shown = [str(each) for each in (HASH(["a", "b c"], 6), RANGE(["a"]), INTO(3))]
    assert shown == ["BY HASH (a, `b c`) INTO 6 BUCKETS", "BY RANGE (a)", "INTO 3 BUCKETS"]


@pytest.mark.mission("BK16", "BK22")
@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: TableDistribution(Kind.UNKNOWN, None, ()), "says how many buckets"),
        (lambda: TableDistribution(Kind.UNKNOWN, 3, ("a",)), "need a rule"),
        (lambda: HASH([], 3), "HASH needs bucket keys"),
        (lambda: HASH(["a", "b", "a"]), "a is a bucket key twice"),
        (lambda: HASH("ab"), "give a list of columns"),
        (lambda: INTO(0), "0 buckets hold no rows"),
        (lambda: INTO(2.5), "give a whole number"),  # type: ignore[arg-type]  # what a caller may do
    ],
)
def test_a_distribution_whose_parts_do_not_go_together_is_refused(
    make: Callable[[], TableDistribution], told: str
) -> None:
    with pytest.raises(InvalidRequestError, match=told):
        make()


@pytest.mark.mission("BK5", "BK14", "BK25", "BK26", "RS17")
def test_a_store_is_asked_which_rules_it_has_and_whether_it_needs_a_number() -> None:
    class Ranges:
        def list_algorithms(self) -> frozenset[Kind]:
            return frozenset({Kind.RANGE})

        def requires_bucket_count(self) -> bool:
            return True

    assert isinstance(HashBuckets(), SupportsBucketing)
    check_distribution(HASH(["a"]), HashBuckets(), "db.t")
    check_distribution(RANGE(["a"], 2), Ranges(), "db.t")
    with pytest.raises(UnsupportedError, match=r"rows by HASH, UNKNOWN, not by RANGE"):
        check_distribution(RANGE(["a"]), HashBuckets(), "db.t")
    with pytest.raises(UnsupportedError, match=r"write BY RANGE \(a\) INTO n BUCKETS"):
        check_distribution(RANGE(["a"]), Ranges(), "db.t")
    with pytest.raises(UnsupportedError, match="its store has no buckets"):
        check_distribution(INTO(2), object(), "db.t")


@pytest.mark.mission("BK4", "BK10", "BK13", "BK15", "BK17", "BK21", "BK32")
@pytest.mark.parametrize(
    ("keys", "said", "options"),
    [
        (("dt", "a", "b"), HASH(["a"], 6), {"bucket": "6", "bucket-key": "a"}),
        (("dt", "a", "b"), HASH(["b", "a"], 1), {"bucket": "1", "bucket-key": "b,a"}),
        (("dt", "a", "b"), INTO(6), {"bucket": "6"}),
        (("dt", "a", "b"), HASH(["a", "b"]), {"bucket": "-1"}),
        (("dt", "a", "b"), None, {"bucket": "1"}),
        ((), HASH(["v"], 6), {"bucket": "6", "bucket-key": "v"}),
        ((), None, {"bucket": "-1"}),
    ],
)
def test_a_distribution_is_options_of_a_table_and_is_read_from_them(
    keys: tuple[str, ...], said: TableDistribution | None, options: dict[str, str]
) -> None:
    made = distributed(schema(*keys, bucket="9", file_format="orc"), said, "db.t")
    assert made.options == {**options, "file-format": "orc"}
    assert distribution_of(made) == said


@pytest.mark.mission("BK11", "BK14", "BK15", "BK26")
@pytest.mark.parametrize(
    ("keys", "said", "error", "told"),
    [
        ((), HASH(["x"], 2), InvalidSchema, "x, which is no column; it has dt, a, b, v"),
        ((), HASH(["c"], 2), InvalidSchema, "c, a computed column"),
        ((), HASH(["m"], 2), InvalidSchema, "m, a metadata column"),
        ((), HASH(["dt"], 2), InvalidSchema, "dt: a partition key is the same"),
        (("dt", "a"), HASH(["v"], 2), InvalidSchema, r"not in the primary key \(dt, a\)"),
        (("dt", "a", "b"), HASH(["a"]), UnsupportedError, r"whole primary key \(a, b\); write D"),
        ((), HASH(["a"]), UnsupportedError, r"BY HASH \(a\) INTO n BUCKETS"),
        (
            (),
            INTO(2),
            UnsupportedError,
            r"write DISTRIBUTED BY \(column\) INTO 2 BUCKETS, or leave",
        ),
        ((), RANGE(["a"], 2), UnsupportedError, "rows by HASH, UNKNOWN, not by RANGE"),
    ],
)
def test_a_distribution_that_the_table_cannot_have_is_refused_with_the_way_out(
    keys: tuple[str, ...], said: TableDistribution, error: type[StorageError], told: str
) -> None:
    unstored = {
        "schema.4.name": "c",
        "schema.4.data-type": "INT",
        "schema.4.expr": "a + 1",
        "schema.5.name": "m",
        "schema.5.data-type": "INT",
        "schema.5.metadata": "m",
    }
    with pytest.raises(error, match=told):
        distributed(schema(*keys, **unstored), said, "db.t")
