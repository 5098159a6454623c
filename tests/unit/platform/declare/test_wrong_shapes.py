"""One round tells misspelt names, wrong values, and what the parts say of each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewright.platform.declare.declaration_files import load_declarations
from lakewright.platform.declare.yaml_files import DeclarationError
from lakewright.platform.orchestration.dagster_checks import check_for_dagster

TABLE = """\
table: shop.orders
columns: [{name: dt, type: STRING NOT NULL}, {name: id, type: BIGINT NOT NULL}]
"""


def problems(tmp_path: Path, text: str) -> list[str]:
    """Place and message of each problem, in the order of lines."""
    file = tmp_path / "orders.yaml"
    file.write_text(TABLE + text, encoding="utf-8")
    with pytest.raises(DeclarationError) as raised:
        load_declarations([file], check=check_for_dagster)
    return [f"{each.line} {each.place}: {each.message}" for each in raised.value.problems]


def test_misspelt_names_and_wrong_values_are_told_in_one_round(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        """\
partition_keyz: [dtx]
primary_key: [nope]
partitions: {daily: {colum: dt, start: 2024-13-01}}
source: {csv: x.csv}
expectations: [{expect: expect_nothing}]
maintenance: {compactoin: {small_files: 0}, snapshots: {retain_min: -10}}
""",
    )
    expected = [
        "3 partition_keyz: unknown key 'partition_keyz'; did you mean 'partition_keys'?",
        "3 partition_keyz[0]: 'dtx' is not a column; did you mean 'dt'?",
        "4 primary_key[0]: 'nope' is not a column",
        "5 partitions.daily.colum: unknown key 'colum'; did you mean 'column'?",
        "5 partitions.daily.start: '2024-13-01' is not a date",
        "7 expectations[0].expect: there is no expectation 'expect_nothing'",
        "8 maintenance.compactoin: unknown key 'compactoin'; did you mean 'compaction'?",
        "8 maintenance.compactoin.small_files: 0: input should be greater",
        "8 maintenance.snapshots.retain_min: -10: input should be greater",
    ]
    assert len(found) == len(expected), found
    for problem, said in zip(found, expected, strict=True):
        assert problem.startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # Without these parts, others would be wrong: but they are there.
        ("primary_key: id\nwrite: {mode: upsert}\nsource: {csv: x.csv}", ["3 primary_key: "]),
        ("partition_keys: dt\npartitions: {daily: {column: dt, start: 2024-01-01}}", ["3 part"]),
        ("source: x.csv\ndepends_on: [a.b]\nexpectations: [{expect: e}]", ["3 source: ", "5 exp"]),
        (
            (
                "partition_keys: [dt]\npartitions: {daily: {column: dt, start: no}}\n"
                "source: {csv: x.csv}\nschedule: {cron: '0 3 * * *', partitions: 2}"
            ),
            ["4 partitions.daily.start: "],
        ),
        ("columns_: 1\nprimary_key: [id, dtt]", ["3 columns_: unknown", "4 primary_key[1]: "]),
    ],
)
def test_a_part_that_is_left_out_makes_no_other_part_wrong(
    tmp_path: Path, text: str, said: list[str]
) -> None:
    found = problems(tmp_path, text + "\n")
    assert len(found) == len(said), found
    assert all(problem.startswith(each) for problem, each in zip(found, said, strict=True)), found


def test_a_needed_key_that_is_misspelt_is_not_told_as_missing(tmp_path: Path) -> None:
    text = "partition_keys: [dt]\npartitions: {dynamic: {column: dx}}\nsource: {csv: x.csv}\n"
    assert problems(tmp_path, text) == [
        "4 partitions.dynamic.column: 'dx' is not a list; write [dx]",
        "4 partitions.dynamic.column: unknown key 'column'; did you mean 'columns'?",
    ]


def test_columns_of_a_wrong_shape_are_told_alone(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text("table: a.b\ncolumns: {id: INT}\nprimary_key: [id]\nsourse: {csv: x.csv}\n")
    with pytest.raises(DeclarationError) as raised:
        load_declarations([file], check=check_for_dagster)
    assert [each.place for each in raised.value.problems] == ["columns", "sourse"]
