"""The job `undo`: what a run of another job did is taken back."""

from __future__ import annotations

from tests.pipelines.lake import EVENTS, Lake, Outcome, events


def test_a_run_is_undone_by_its_id_and_a_second_undo_says_that_it_was(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    lake.write_small_files("2024-01-01", 3)
    assert len(lake.table().at().files()) == 4
    compacted = lake.run("compact", full=True).run_id
    assert len(lake.table().at().files()) == 1

    told = _undo(lake, compacted, dry_run=True)

    assert told.success, told.failure
    assert len(lake.table().at().files()) == 1
    undone = _undo(lake, compacted[:8])
    assert undone.success, undone.failure
    assert undone.observations[None]["lakewright/undone_run"] == compacted
    assert len(lake.table().at().files()) == 4
    again = _undo(lake, compacted)
    assert not again.success
    assert "taken back already" in again.failure


def _undo(lake: Lake, run: str, **config: object) -> Outcome:
    return lake.run_job("undo", {"ops": {"undo": {"config": {"run": run, **config}}}})
