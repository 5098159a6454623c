"""The page of figures: medians, ratios for a row, and misses that are told."""

from __future__ import annotations

import pytest
from benchmarks.report import Figures, render, shown_seconds
from benchmarks.results import Result, Status
from benchmarks.suite import Measurement


def results(
    contestant: str,
    *seconds: float,
    operation: str = "read-5",
    rows: int = 1_000_000,
    data_rows: int | None = None,
    status: Status = Status.OK,
    note: str = "",
) -> list[Result]:
    size = data_rows or rows
    return [
        Result(
            measurement=Measurement(
                case="bigint", rows=rows, operation=operation, contestant=contestant, repeat=repeat
            ),
            run="r",
            status=status,
            data_rows=size,
            input_rows=size * 3 // 2,
            seconds=each,
            cpu_seconds=each,
            before_bytes=2**20,
            peak_bytes=3 * 2**20,
            note=note,
        )
        for repeat, each in enumerate(seconds)
    ]


def test_seconds_are_a_median_with_its_spread() -> None:
    assert shown_seconds([3.0, 1.0, 2.5]) == "2.50 (1.00–3.00)"
    assert shown_seconds([1.25]) == "1.25"


def test_ratios_are_for_a_row_where_sizes_differ() -> None:
    figures = Figures(
        [
            *results("lakewright", 1.0, 2.0, 3.0),
            *results("pyarrow", 1.0, 1.0, 4.0),
            *results("pypaimon", 1.0, data_rows=100_000),
        ]
    )
    place = ("bigint", 1_000_000, "read-5")
    assert figures.ratio(*place, "lakewright", "pyarrow") == pytest.approx(2.0)
    assert figures.ratio(*place, "pypaimon", "lakewright") == pytest.approx(5.0)
    assert figures.ratio(*place, "java", "lakewright") is None


def test_the_best_client_is_the_fastest_for_a_row_that_finished() -> None:
    figures = Figures(
        [
            *results("pypaimon", 1.0, data_rows=100_000),
            *results("rust", 4.0),
            *results("java", 0.0, status=Status.CAPPED),
        ]
    )
    assert figures.best_client("bigint", 1_000_000, "read-5") == "rust"


def test_a_missed_aim_is_bold_and_a_reached_one_is_not() -> None:
    measured = [*results("lakewright", 2.0), *results("pyarrow", 1.0), *results("rust", 5.0)]
    page = render(measured, [])
    assert "| Arrow read, 5 commits: ours / floor | ≤ 1.5 | **2.00** |" in page
    assert "| Arrow read, 5 commits: best client / ours | ≥ 2 | 2.50 (rust) |" in page


def test_what_was_ended_or_failed_or_had_fewer_rows_is_said() -> None:
    measured = [
        *results("lakewright", 2.0),
        *results("java", 0.0, status=Status.CAPPED, note="ended after 180 s"),
        *results("rust", 0.0, status=Status.FAILED, note="came to 1 rows where 2 were due"),
        *results("pypaimon", 3.0, data_rows=300_000),
    ]
    page = render(measured, [])
    assert "| more: ended after 180 s, 1 M rows |" in page
    assert "| failed 1) |" in page
    assert "1) pypaimon-rust 0.4.0: came to 1 rows where 2 were due" in page
    assert "| 3.00 at 300 k rows | 5.00 |" in page


def test_growth_is_the_cost_of_a_row_at_the_ends() -> None:
    measured = [*results("lakewright", 1.0), *results("lakewright", 6.0, rows=4_000_000)]
    page = render(measured, [])
    assert "| 0.667 at 1 M | 1.000 at 4 M | 1.50 | 3 | 3 |" in page
