"""A workspace's definitions as text, to be reviewed when they change.

Write the reviewed file anew with `python -m tests.pipelines.describe`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg

from lakewright.definitions import build_definitions
from lakewright.demo import DEMO_TABLES

REVIEWED = Path(__file__).with_name("definitions.txt")


def describe(definitions: dg.Definitions) -> str:
    repository = definitions.get_repository_def()
    lines = [*_assets(repository), *_jobs(repository), *_triggers(repository)]
    return "\n".join(lines) + "\n"


def describe_demo() -> str:
    return describe(build_definitions([DEMO_TABLES]))


def _assets(repository: dg.RepositoryDefinition) -> Iterator[str]:
    graph = repository.asset_graph
    for key in sorted(graph.get_all_asset_keys(), key=str):
        node = graph.get(key)
        partitions = node.partitions_def
        count = "" if partitions is None else f", {len(partitions.get_partition_keys())} partitions"
        policy = ", single run" if node.backfill_policy else ""
        yield f"asset {key.to_user_string()} in {node.group_name}{count}{policy}"
        yield from (f"    after {each.to_user_string()}" for each in sorted(node.parent_keys))
        yield f"    pools {', '.join(sorted(node.pools or ())) or 'none'}"
        for check in sorted(graph.get_check_keys_for_assets({key}), key=str):
            spec = graph.get_check_spec(check)
            yield f"    {'blocking check' if spec.blocking else 'check'} {check.name}"


def _jobs(repository: dg.RepositoryDefinition) -> Iterator[str]:
    for job in sorted(repository.get_all_jobs(), key=lambda each: each.name):
        if not job.name.startswith("__"):
            tags = ", ".join(f"{name}={value}" for name, value in sorted(job.tags.items()))
            yield f"job {job.name} ({tags})"


def _triggers(repository: dg.RepositoryDefinition) -> Iterator[str]:
    for sensor in sorted(repository.sensor_defs, key=lambda each: each.name):
        job = ", ".join(target.job_name for target in sensor.targets) or "no job"
        yield (
            f"sensor {sensor.name}: {job}, {sensor.default_status.value}, "
            f"every {sensor.minimum_interval_seconds} s"
        )
    for schedule in sorted(repository.schedule_defs, key=lambda each: each.name):
        yield (
            f"schedule {schedule.name}: {schedule.job_name}, {schedule.default_status.value}, "
            f"{schedule.cron_schedule}"
        )


if __name__ == "__main__":
    REVIEWED.write_text(describe_demo(), encoding="utf-8")
