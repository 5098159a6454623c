"""Raw results of measurements: what was made is not made again, and half a line does no harm."""

from __future__ import annotations

from pathlib import Path

from benchmarks.results import Result, ResultFile, Status, finished
from benchmarks.suite import Measurement, Scope, planned


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


def plan(operations: list[str], contestants: list[str], *, repeats: int = 3) -> list[Measurement]:
    scope = Scope(rows=1000, cases=("bigint",), repeats=repeats, slow_repeats=2)
    return list(planned([scope], operations, contestants))


def test_a_run_resumes_with_what_failed_and_what_is_missing() -> None:
    results = [
        made("lakewright"),
        made("pypaimon", status=Status.CAPPED),
        made("rust", status=Status.FAILED),
    ]
    names = ["lakewright", "pypaimon", "rust", "java"]
    done = finished(results)
    due = [each for each in plan(["read-5"], names, repeats=1) if each not in done]
    assert [each.contestant for each in due] == ["rust", "java"]


def test_contestants_take_turns_in_going_first() -> None:
    measurements = plan(["read-5"], ["lakewright", "pyarrow", "rust"])
    assert [each.contestant for each in measurements[::3]] == ["lakewright", "pyarrow", "rust"]
    assert len(set(measurements)) == 9


def test_slow_peers_are_repeated_less() -> None:
    measurements = plan(["compact"], ["lakewright", "java"])
    repeats = {
        name: [each.repeat for each in measurements if each.contestant == name]
        for name in ("lakewright", "java")
    }
    assert repeats == {"lakewright": [0, 1, 2], "java": [0, 1]}


def test_operations_are_finished_one_by_one_and_those_on_spark_come_last() -> None:
    operations = ["spark-read-5", "compact", "read-5"]
    order = [each.operation for each in plan(operations, ["lakewright", "lakewright-spark"])]
    assert order == ["read-5"] * 3 + ["compact"] * 3 + ["spark-read-5"] * 3
