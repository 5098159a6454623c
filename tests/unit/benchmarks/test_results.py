"""Raw results of measurements: what was made is not made again, and half a line harms nobody."""

from __future__ import annotations

from pathlib import Path

from benchmarks.results import Result, ResultFile, Status, finished
from benchmarks.suite import Measurement, planned


def made(
    contestant: str = "lakewright", *, status: Status = Status.OK, seconds: float = 1.0
) -> Result:
    measurement = Measurement(
        case="bigint", rows=1000, operation="read-5", contestant=contestant, repeat=0
    )
    return Result(
        measurement=measurement,
        run="r",
        status=status,
        data_rows=1000,
        input_rows=1500,
        seconds=seconds,
    )


def test_results_come_back_as_they_were_appended(tmp_path: Path) -> None:
    file = ResultFile(tmp_path / "results.jsonl")
    assert file.results() == []
    file.append(made())
    file.append(made("pyarrow", status=Status.CAPPED))
    assert file.results() == [made(), made("pyarrow", status=Status.CAPPED)]


def test_a_measurement_made_twice_counts_as_it_was_made_last(tmp_path: Path) -> None:
    file = ResultFile(tmp_path / "results.jsonl")
    file.append(made(seconds=1.0))
    file.append(made(seconds=2.0))
    assert file.results() == [made(seconds=2.0)]


def test_a_line_that_was_cut_short_costs_only_itself(tmp_path: Path) -> None:
    file = ResultFile(tmp_path / "results.jsonl")
    file.append(made())
    with file.path.open("a") as out:
        out.write('{"measurement": {"case": "big')
    file.append(made("pyarrow"))
    assert file.results() == [made(), made("pyarrow")]


def test_a_run_resumes_with_what_failed_and_what_is_missing() -> None:
    results = [
        made("lakewright"),
        made("pypaimon", status=Status.CAPPED),
        made("rust", status=Status.FAILED),
    ]
    names = ["lakewright", "pypaimon", "rust", "java"]
    due = [
        each.contestant
        for each in planned(["bigint"], [1000], ["read-5"], names, 1)
        if each not in finished(results)
    ]
    assert due == ["rust", "java"]


def test_contestants_take_turns_in_going_first() -> None:
    names = ["lakewright", "pyarrow", "java"]
    measurements = list(planned(["bigint"], [1000], ["compact"], names, 3))
    firsts = [
        next(each.contestant for each in measurements if each.repeat == repeat)
        for repeat in range(3)
    ]
    assert firsts == ["lakewright", "pyarrow", "java"]
    assert len(measurements) == 9


def test_what_shares_a_jvm_is_measured_last() -> None:
    operations = ["spark-read-5", "read-5"]
    names = ["lakewright", "lakewright-spark"]
    order = [each.operation for each in planned(["bigint"], [1000], operations, names, 2)]
    assert order == ["read-5", "read-5", "spark-read-5", "spark-read-5"]
