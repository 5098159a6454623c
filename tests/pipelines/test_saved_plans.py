"""Saved plans: the job of a verb carries one out as it stands, or says why it cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakewright.cli import main
from tests.pipelines.lake import EVENTS, Lake, Outcome, events

COMPACT = ("compact", "shop.events", "--min-files", "2")


@pytest.fixture
def fragmented(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Three small files on each of two days."""
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3) + events("2024-01-02", 3, 5))
    lake.materialize(partitions=("2024-01-01", "2024-01-02"))
    for day in ("2024-01-01", "2024-01-02"):
        lake.write_small_files(day, 2)
    monkeypatch.setenv("LAKEWRIGHT_WAREHOUSE", str(lake.catalog.root))
    return lake


def saved(folder: Path, *words: str) -> Path:
    """The plan that a command saves."""
    file = folder / "plan.json"
    assert main([*words, "--save-plan", str(file)]) == 0
    return file


def tries(outcome: Outcome) -> int:
    return sum(each.is_step_restarted for each in outcome.result.all_events)


@pytest.mark.parametrize("form", ["path", "value", "text"])
def test_a_job_carries_out_the_plan_that_a_command_saved(
    fragmented: Lake, tmp_path: Path, form: str
) -> None:
    file = saved(tmp_path, *COMPACT, "--partition", "dt=2024-01-02")
    given: dict[str, Any] = {
        "path": str(file),
        "value": json.loads(file.read_text()),
        "text": file.read_text(),
    }
    before = fragmented.rows()
    # What came since is left to the next plan.
    fragmented.write_small_files("2024-01-01", 1)

    fragmented.run("compact", plan=given[form])

    assert len(fragmented.table().at().files()) == 5
    assert len(fragmented.rows()) == len(before) + 1


def test_a_stale_plan_fails_the_run_with_what_changed_and_is_not_tried_again(
    fragmented: Lake, tmp_path: Path
) -> None:
    file = saved(tmp_path, *COMPACT)
    fragmented.run("compact")
    snapshots = len(fragmented.table().history.snapshots())

    outcome = fragmented.run("compact", plan=str(file), fails=True)

    assert "StalePlan" in outcome.failure
    assert "plan again" in outcome.failure
    assert tries(outcome) == 0
    assert len(fragmented.table().history.snapshots()) == snapshots
    assert fragmented.table().upkeep.leases() == ()


def test_a_dry_run_shows_the_plan_that_it_was_given(fragmented: Lake, tmp_path: Path) -> None:
    file = saved(tmp_path, *COMPACT, "--partition", "dt=2024-01-02")
    outcome = fragmented.run("compact", plan=str(file), dry_run=True)
    assert outcome.outputs["lakewright/files_before"] == 3
    assert len(fragmented.table().at().files()) == 6


def test_a_plan_of_python_needs_no_verb_and_a_table_job_takes_one_too(fragmented: Lake) -> None:
    plan = json.loads(fragmented.table().upkeep.plan_respec(("dt", "id")).to_json())
    fragmented.run("respec", plan=plan)
    assert fragmented.table().schema.partition_keys == ("dt", "id")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"plan": "nowhere.json"}, "plan nowhere.json cannot be read"),
        ({"plan": "{"}, "the plan of the run's config is no JSON"),
        ({"plan": [1]}, "is a list; give the JSON object"),
        ({"plan": {"table": "shop.events"}}, "is no plan of compact"),
        ({"plan": {"verb": "rescale"}}, "is one of rescale, and this job carries out compact"),
        ({"plan": {"a": 1}, "full": True}, "leave full out, or plan again"),
    ],
)
@pytest.mark.sampled(3)
def test_what_is_no_plan_of_the_job_is_refused(
    fragmented: Lake, config: dict[str, Any], said: str
) -> None:
    outcome = fragmented.run("compact", **config, fails=True)
    assert said in outcome.failure
    assert tries(outcome) == 0
    assert len(fragmented.table().at().files()) == 6


def test_a_plan_for_another_table_is_refused(fragmented: Lake, tmp_path: Path) -> None:
    plan = json.loads(saved(tmp_path, *COMPACT).read_text())
    outcome = fragmented.run("compact", plan={**plan, "table": "shop.other"}, fails=True)
    assert "the plan is for shop.other, and this is shop.events" in outcome.failure
