"""The expectations of Great Expectations, by name and argument.

The import of Great Expectations takes seconds and hundreds of megabytes. With this table a
declaration is checked without that import. A test compares the table with the installed version.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

# Name: required arguments | optional arguments; indented lines continue. Words of `_GROUPS` stand
# for several arguments.
_TABLE = """
ExpectColumnDistinctValuesToBeInSet: column value_set | rows
ExpectColumnDistinctValuesToContainSet: column value_set | rows
ExpectColumnDistinctValuesToEqualSet: column value_set | rows
ExpectColumnKLDivergenceToBeLessThan: column | rows partition_object threshold
  internal_weight_holdout tail_weight_holdout bucketize_data min_value max_value
ExpectColumnMaxToBeBetween: column | rows bounds
ExpectColumnMeanToBeBetween: column | rows bounds
ExpectColumnMedianToBeBetween: column | rows bounds
ExpectColumnMinToBeBetween: column | rows bounds
ExpectColumnMostCommonValueToBeInSet: column value_set | rows ties_okay
ExpectColumnPairValuesAToBeGreaterThanB: column_A column_B | mostly rows or_equal ignore_row_if
ExpectColumnPairValuesToBeEqual: column_A column_B | mostly rows ignore_row_if
ExpectColumnPairValuesToBeInSet: column_A column_B value_pairs_set | mostly rows ignore_row_if
ExpectColumnProportionOfNonNullValuesToBeBetween: column | rows bounds
ExpectColumnProportionOfUniqueValuesToBeBetween: column | rows bounds
ExpectColumnQuantileValuesToBeBetween: column quantile_ranges | rows allow_relative_error
ExpectColumnStdevToBeBetween: column | rows bounds
ExpectColumnSumToBeBetween: column | rows bounds
ExpectColumnToExist: column | column_index
ExpectColumnTypeToBe: column type_ |
ExpectColumnUniqueValueCountToBeBetween: column | rows bounds
ExpectColumnValueLengthsToBeBetween: column | mostly rows bounds
ExpectColumnValueLengthsToEqual: column value | mostly rows
ExpectColumnValueZScoresToBeLessThan: column threshold double_sided | mostly rows
ExpectColumnValuesToBeBetween: column | mostly rows bounds
ExpectColumnValuesToBeDateutilParseable: column | mostly rows
ExpectColumnValuesToBeDecreasing: column | mostly rows strictly
ExpectColumnValuesToBeInSet: column value_set | mostly rows
ExpectColumnValuesToBeInTypeList: column | mostly rows type_list
ExpectColumnValuesToBeIncreasing: column | mostly rows strictly
ExpectColumnValuesToBeJsonParseable: column | mostly rows
ExpectColumnValuesToBeNull: column | mostly rows
ExpectColumnValuesToBeOfType: column type_ | mostly rows
ExpectColumnValuesToBeUnique: column | mostly rows
ExpectColumnValuesToMatchJsonSchema: column json_schema | mostly rows
ExpectColumnValuesToMatchLikePattern: column like_pattern | mostly rows escape
ExpectColumnValuesToMatchLikePatternList: column like_pattern_list | mostly rows match_on escape
ExpectColumnValuesToMatchRegex: column | mostly rows regex
ExpectColumnValuesToMatchRegexList: column regex_list | mostly rows match_on
ExpectColumnValuesToMatchStrftimeFormat: column strftime_format | mostly rows
ExpectColumnValuesToNotBeInSet: column value_set | mostly rows
ExpectColumnValuesToNotBeNull: column | mostly rows
ExpectColumnValuesToNotBeOutliers: column | mostly rows method multiplier
ExpectColumnValuesToNotMatchLikePattern: column like_pattern | mostly rows escape
ExpectColumnValuesToNotMatchLikePatternList: column like_pattern_list | mostly rows escape
ExpectColumnValuesToNotMatchRegex: column regex | mostly rows
ExpectColumnValuesToNotMatchRegexList: column regex_list | mostly rows
ExpectCompoundColumnsToBeUnique: column_list | mostly rows ignore_row_if
ExpectMulticolumnSumToEqual: column_list sum_total | mostly rows ignore_row_if
ExpectMulticolumnValuesToBeEqual: column_list | mostly rows ignore_row_if
ExpectMulticolumnValuesToBeUnique: column column_list | mostly rows ignore_row_if
ExpectSelectColumnValuesToBeUniqueWithinRecord: column_list | mostly rows ignore_row_if
ExpectTableColumnCountToBeBetween: | min_value max_value
ExpectTableColumnCountToEqual: value |
ExpectTableColumnsToMatchOrderedList: | column_list
ExpectTableColumnsToMatchSet: | column_set exact_match
ExpectTableRowCountToBeBetween: | bounds rows
ExpectTableRowCountToEqual: value | rows
"""

_GROUPS = {
    "rows": ("row_condition", "condition_parser"),
    "bounds": ("min_value", "max_value", "strict_min", "strict_max"),
}
# Arguments that name columns of the table.
COLUMN_ARGUMENTS = ("column", "column_A", "column_B", "column_list", "column_set")
# What the name of an expectation says of its columns, which the name of a check tells by theirs.
_SUBJECT = re.compile(
    "^expect_(column_(pair_)?values_|select_column_values_|multicolumn_(values_)?"
    "|compound_columns_|column_(?!count)|table_)?"
)
_THIRD_PERSON = {"match": "matches", "exist": "exists"}
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationKind:
    """One expectation that a table may declare."""

    name: str
    class_name: str
    required: tuple[str, ...]
    optional: tuple[str, ...]

    @property
    def arguments(self) -> tuple[str, ...]:
        return self.required + self.optional

    @property
    def looks_at_all_columns(self) -> bool:
        """Whether the answer depends on columns that the expectation does not name."""
        return self.name.startswith(("expect_table_column", "expect_column_to_exist"))


def snake_name(name: str) -> str:
    """`ExpectColumnMaxToBeBetween` as `expect_column_max_to_be_between`; snake names stay."""
    parted = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", parted).lower()


def check_name_of(kind: str, columns: Sequence[str]) -> str:
    """How people call the check of an expectation: `carrier_not_null`, `distance_between`."""
    if kind == "expect_column_pair_values_a_to_be_greater_than_b":
        return "_greater_than_".join(columns)
    told = _SUBJECT.sub("", kind)
    told = re.sub("(?<![^_])(to|be)(_|$)", "", told).removesuffix("_")
    told = re.sub("^(match|exist)(?=_|$)", lambda verb: _THIRD_PERSON[verb[0]], told)
    # The names of more columns would hide what is expected of them.
    subject = "_and_".join(columns) if len(columns) <= _MOST_NAMED else ""
    return f"{subject}_{told}" if subject else told


def _read_table() -> dict[str, ExpectationKind]:
    kinds = {}
    for line in _TABLE.replace("\n  ", " ").strip().splitlines():
        class_name, _, arguments = line.partition(":")
        required, _, optional = arguments.partition("|")
        names: list[str] = []
        for name in optional.split():
            names.extend(_GROUPS.get(name, (name,)))
        kind = ExpectationKind(
            name=snake_name(class_name),
            class_name=class_name,
            required=tuple(required.split()),
            optional=tuple(names),
        )
        kinds[kind.name] = kind
    return kinds


EXPECTATION_KINDS = MappingProxyType(_read_table())
