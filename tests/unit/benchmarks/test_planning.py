"""The section of plans: which aims hold, and who is the best of the others."""

from __future__ import annotations

from pathlib import Path

from benchmarks.planned_files import planned_files
from benchmarks.planning import FILE_COUNTS, planning_section
from benchmarks.results import PlanningResult, ResultFile, Status

FILES = max(FILE_COUNTS)


def section(folder: Path, *results: PlanningResult) -> str:
    file = ResultFile(folder / "results.jsonl")
    for each in results:
        file.append(each)
    return planning_section(file)


def planned(
    work: str, contestant: str, seconds: float, *, files: int = FILES, growth: int = 0
) -> PlanningResult:
    return PlanningResult(
        run="r",
        planned_files=files,
        work=work,
        contestant=contestant,
        status=Status.OK,
        seconds=(seconds,),
        cpu_seconds=(seconds,),
        growth_bytes=growth,
    )


def test_an_aim_that_is_missed_is_bold_and_names_the_best_of_the_others(tmp_path: Path) -> None:
    text = section(
        tmp_path,
        planned("full", "lakewright", 1.0, growth=FILES * 1001),
        planned("full", "pypaimon", 90.0),
        planned("full", "delta", 4.0),
        planned("full", "fastavro", 0.5),
        planned("partition", "lakewright", 0.25),
        planned("partition", "iceberg", 1.25),
    )
    assert "| full plan, seconds | < 5 | 1.000 |" in text
    assert "| plan of one partition, seconds | < 0.2 | **0.250** |" in text
    assert "| memory of the full plan, bytes a file | ≤ 1,000 | **1,001** |" in text
    assert "| everything: best other / ours | ≥ 5 | **4.00** (delta-rs 1.6.6) |" in text
    assert "files: best other / ours | ≥ 5 | 5.00 (pyiceberg 0.12.0) |" in text


def test_a_capped_contestant_is_not_the_best_of_the_others(tmp_path: Path) -> None:
    capped = PlanningResult(
        run="r",
        planned_files=FILES,
        work="full",
        contestant="delta",
        status=Status.CAPPED,
        note="ended after 180 s",
    )
    text = section(
        tmp_path,
        planned("full", "lakewright", 1.0),
        planned("partition", "lakewright", 0.1),
        planned("full", "rust", 6.0),
        capped,
    )
    assert "| everything: best other / ours | ≥ 5 | 6.00 (pypaimon-rust 0.4.0) |" in text
    assert "delta-rs 1.6.6 | **capped**: ended after 180 s" in text


def test_aims_are_of_the_largest_table_only(tmp_path: Path) -> None:
    text = section(
        tmp_path,
        planned("full", "lakewright", 1.0, files=10_000),
        planned("partition", "lakewright", 0.1, files=10_000),
    )
    assert "10,000 live files" in text
    assert "| aim |" not in text


def test_tables_of_all_formats_name_files_of_the_same_rows() -> None:
    files = list(planned_files(99, 102, 100))
    assert [each.day for each in files] == ["day-000000", "day-000001", "day-000001"]
    assert [(each.first_id, each.last_id) for each in files[:2]] == [
        (99_000, 99_999),
        (100_000, 100_999),
    ]
