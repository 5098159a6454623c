"""Expectations: counts, offending rows by partition, and what cannot be evaluated."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakewright.platform.ingest.expectations import columns_needed, validate_arrow
from lakewright.platform.tables.declarations import ExpectationDeclaration, ExpectationSeverity

ROWS = pa.table(
    {
        "dt": ["a", "a", "b", None],
        "carrier": ["AA", None, "BB", "C"],
        "delay": pa.array([1.0, 2.0, None, 99.0]),
        "day": pa.array([1, 2, 3, 4], pa.date32()),
    }
)


def expectation(expect: str, **arguments: Any) -> ExpectationDeclaration:
    return ExpectationDeclaration.model_validate({"expect": expect, **arguments})


def validate(*expectations: ExpectationDeclaration, rows: pa.Table = ROWS) -> Any:
    return validate_arrow(rows, expectations, partition_keys=["dt"])


def test_offending_rows_are_counted_and_shown_by_partition() -> None:
    report = validate(expectation("expect_column_values_to_not_be_null", column="carrier"))
    (outcome,) = report.outcomes
    assert not outcome.met
    assert outcome.blocks
    assert (outcome.checked_count, outcome.unexpected_count) == (4, 1)
    assert outcome.unexpected_by_partition == {"dt=a": 1}
    assert outcome.sample[0]["carrier"] is None
    assert outcome.summary == (
        "expect_column_values_to_not_be_null(column=carrier): 1 of 4 rows fails"
    )
    assert report.blocking == (outcome,)


def test_a_null_partition_is_named() -> None:
    report = validate(
        expectation("expect_column_values_to_be_between", column="delay", max_value=10)
    )
    assert report.outcomes[0].unexpected_by_partition == {'{"dt": null}': 1}


def test_only_critical_ones_block() -> None:
    report = validate(
        expectation("expect_column_values_to_not_be_null", column="carrier", severity="warning"),
        expectation(
            "expect_column_max_to_be_between", column="delay", max_value=5, severity="info"
        ),
        expectation("expect_column_values_to_be_in_set", column="dt", value_set=["a", "b"]),
    )
    assert [outcome.met for outcome in report.outcomes] == [False, False, True]
    assert not report.blocking
    assert report.outcomes[1].observed == "99.0"
    assert report.outcomes[1].severity is ExpectationSeverity.INFO


def test_mostly_lets_some_rows_be_different() -> None:
    report = validate(
        expectation("expect_column_values_to_not_be_null", column="carrier", mostly=0.75)
    )
    assert report.outcomes[0].met
    assert report.outcomes[0].unexpected_count == 1


def test_outcomes_come_in_the_order_of_the_expectations() -> None:
    wanted = [
        expectation("expect_table_row_count_to_be_between", min_value=1),
        expectation("expect_column_values_to_not_be_null", column="day"),
        expectation("expect_column_values_to_be_unique", column="day"),
        expectation("expect_compound_columns_to_be_unique", column_list=["dt", "carrier"]),
    ]
    report = validate(*wanted)
    assert [outcome.check_name for outcome in report.outcomes] == [
        "row_count_between",
        "day_not_null",
        "day_unique",
        "dt_and_carrier_unique",
    ]
    assert all(outcome.met for outcome in report.outcomes)


@pytest.mark.parametrize(
    "broken",
    [
        expectation("expect_column_values_to_match_regex", column="carrier", regex="("),
        expectation("expect_column_values_to_be_between", column="delay"),
        expectation("expect_column_values_to_be_between", column="nowhere", min_value=1),
    ],
)
def test_what_cannot_be_evaluated_counts_as_not_met(broken: ExpectationDeclaration) -> None:
    report = validate(broken, expectation("expect_column_values_to_be_unique", column="day"))
    assert report.outcomes[0].blocks
    assert report.outcomes[0].error
    assert "could not be evaluated" in report.outcomes[0].summary
    assert report.outcomes[1].met


def test_no_rows_can_be_too_few() -> None:
    report = validate(
        expectation("expect_table_row_count_to_be_between", min_value=1),
        expectation("expect_column_values_to_not_be_null", column="carrier"),
        rows=ROWS.slice(0, 0),
    )
    assert [outcome.met for outcome in report.outcomes] == [False, True]


def test_only_the_columns_that_are_asked_about_are_read() -> None:
    two = [
        expectation("expect_column_values_to_not_be_null", column="a"),
        expectation("expect_compound_columns_to_be_unique", column_list=["b", "a"]),
    ]
    assert columns_needed(two) == ("a", "b")
    assert columns_needed([expectation("expect_table_row_count_to_equal", value=1)]) == ()
    assert columns_needed([expectation("expect_table_column_count_to_equal", value=1)]) is None
    condition = expectation(
        "expect_column_values_to_not_be_null",
        column="a",
        row_condition='col("b") > 1',
        condition_parser="great_expectations",
    )
    assert columns_needed([condition]) is None


BETWEEN = "expect_column_values_to_be_between"
AMOUNTS = pa.table({"v": pa.array([Decimal("0.10"), Decimal("0.30")], pa.decimal128(10, 2))})
# Arguments, and whether 0.10 and 0.30 meet them.
OF_DECIMALS: list[tuple[str, dict[str, Any], bool]] = [
    (BETWEEN, {"min_value": 0.1, "max_value": 0.3}, True),
    (BETWEEN, {"min_value": 0.11}, False),
    (BETWEEN, {"max_value": 0.29}, False),
    (BETWEEN, {"min_value": 0.1, "strict_min": True}, False),
    (BETWEEN, {"max_value": 0.3, "strict_max": True}, False),
    (BETWEEN, {"min_value": 0.09, "strict_min": True, "max_value": 0.31}, True),
    (BETWEEN, {"min_value": 0, "max_value": 1}, True),
    ("expect_column_min_to_be_between", {"min_value": 0.1, "max_value": 0.1}, True),
    ("expect_column_max_to_be_between", {"min_value": 0.3, "max_value": 0.3}, True),
    ("expect_column_max_to_be_between", {"max_value": 0.3, "strict_max": True}, False),
    ("expect_column_sum_to_be_between", {"min_value": 0.4, "max_value": 0.4}, True),
    ("expect_column_sum_to_be_between", {"min_value": 0.41}, False),
    ("expect_column_mean_to_be_between", {"min_value": 0.2, "max_value": 0.2}, True),
    ("expect_column_values_to_be_in_set", {"value_set": [0.1, 0.3]}, True),
    ("expect_column_values_to_be_in_set", {"value_set": [0.1]}, False),
    ("expect_column_values_to_not_be_in_set", {"value_set": [0.3]}, False),
    ("expect_column_distinct_values_to_equal_set", {"value_set": [0.3, 0.1]}, True),
    ("expect_column_distinct_values_to_contain_set", {"value_set": [0.1]}, True),
    ("expect_column_distinct_values_to_be_in_set", {"value_set": [0.1, 0.2, 0.3]}, True),
]


def test_decimals_are_compared_with_what_is_written_and_with_no_binary_float() -> None:
    asked = [
        expectation(kind, column="v", name=f"n{at}", **arguments)
        for at, (kind, arguments, _) in enumerate(OF_DECIMALS)
    ]
    outcomes = validate_arrow(AMOUNTS, asked).outcomes
    assert [(each.met, each.error) for each in outcomes] == [
        (met, None) for _, _, met in OF_DECIMALS
    ]
    # Messages have the arguments as they were written.
    assert "min_value=0.1," in outcomes[0].summary
