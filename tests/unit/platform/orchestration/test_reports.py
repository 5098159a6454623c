"""Reports: what metadata shows of many rows and notes."""

from __future__ import annotations

from lakewright.platform.orchestration.reports import first_records, report_metadata
from lakewright.platform.upkeep.procedure import Report


def test_a_table_that_is_cut_says_how_many_rows_it_leaves_out() -> None:
    rows = [{"partition": f"day={number}", "rows": number} for number in range(365)]
    found = [each.data for each in first_records(rows)]
    assert found[:50] == rows[:50]
    assert found[50:] == [{"partition": "and 315 more", "rows": None}]
    assert [each.data for each in first_records(rows[:50])] == rows[:50]


def test_notes_that_are_cut_say_how_many_are_left_out() -> None:
    report = Report(summary="told", facts={}, notes=tuple(f"file-{n}" for n in range(1060)))
    lines = str(report_metadata(report)["reasons"].value).splitlines()
    assert lines[49:] == ["- file-49", "- and 1,010 more"]
