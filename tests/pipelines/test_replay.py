"""The job `replay`: what another policy would have cost and gained, on the page of a run."""

from __future__ import annotations

from pathlib import Path

from tests.pipelines.lake import EVENTS, Lake, events


def test_a_policy_in_the_run_config_is_replayed_beside_what_was_done(
    lake: Lake, tmp_path: Path
) -> None:
    # A declaration's `maintenance` would be the last word.
    lake.declare(EVENTS[: EVENTS.index("    maintenance")])
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    lake.write_small_files("2024-01-01", 4)
    lake.tick()
    policy = "warehouse:\n  compaction: {min_bytes: 0 b, small_files: 3}\n"

    replayed = lake.run_job("replay", _config(policy=policy, since="1h", only=["shop.*"]))

    table = replayed.outputs["then / now"]
    assert table.startswith("| table | verb | runs |")
    assert "| shop.events | compact | 0 / " in table
    assert "now: by what past runs let expect; nothing was written" in replayed.outputs["notes"]
    assert len(lake.table().at().files()) == 5

    written = tmp_path / "policy.yaml"
    written.write_text(policy.replace("small_files: 3", "small_files: 99"))
    other = lake.run_job("replay", _config(policy_files=[str(written)]))
    assert "compact" not in other.outputs["then / now"]
    for config, said in (
        ({}, "names no policy"),
        ({"policy": "warehouse: {compactoin: {}}"}, "did you mean 'compaction'"),
        ({"policy": policy, "since": "7"}, "has no unit"),
        ({"policy": policy, "only": ["shp.*"]}, "shp.*"),
    ):
        refused = lake.run_job("replay", _config(**config), fails=True)
        assert said in refused.failure


def _config(**config: object) -> dict[str, object]:
    return {"ops": {"replay": {"config": config}}}
