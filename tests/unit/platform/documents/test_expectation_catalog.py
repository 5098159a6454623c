"""The catalogue of expectations is that of the installed Great Expectations."""

from __future__ import annotations

import inspect
import warnings

import pytest

from lakewright.platform.documents.expectation_catalog import EXPECTATION_KINDS, snake_name

# What all expectations take, and what Lakewright sets itself.
SHARED = {
    "id",
    "meta",
    "notes",
    "result_format",
    "description",
    "catch_exceptions",
    "rendered_content",
    "windows",
    "batch_id",
    "severity",
    "library_metadata",
}
# They ask about other tables than the one whose rows are staged.
LEFT_OUT = {"ExpectQueryResultsToMatchComparison", "ExpectTableRowCountToEqualOtherTable"}


def test_the_catalogue_is_that_of_the_installed_version() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from great_expectations.expectations import core
    installed = {
        name: kind
        for name, kind in inspect.getmembers(core, inspect.isclass)
        if name.startswith("Expect") and name not in LEFT_OUT
    }
    assert {kind.class_name for kind in EXPECTATION_KINDS.values()} == set(installed)
    for kind in EXPECTATION_KINDS.values():
        fields = installed[kind.class_name].__fields__
        own = {name: field.required for name, field in fields.items() if name not in SHARED}
        assert set(kind.arguments) == set(own), kind.name
        assert set(kind.required) == {name for name, needed in own.items() if needed}, kind.name


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("ExpectColumnValuesToNotBeNull", "expect_column_values_to_not_be_null"),
        ("expect_column_values_to_not_be_null", "expect_column_values_to_not_be_null"),
        (
            "ExpectColumnPairValuesAToBeGreaterThanB",
            "expect_column_pair_values_a_to_be_greater_than_b",
        ),
        ("ExpectColumnKLDivergenceToBeLessThan", "expect_column_kl_divergence_to_be_less_than"),
    ],
)
def test_expectations_may_be_named_either_way(name: str, snake: str) -> None:
    assert snake_name(name) == snake
    assert snake in EXPECTATION_KINDS
