"""Plans as JSON: what comes back is what went, and what is none is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakewright.storage.codec.typed_json import value_of
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.references.rollback import RollbackPlan
from lakewright.storage.operations.references.tags import DeleteTagsPlan
from lakewright.storage.operations.retention.expire_snapshots import ExpirePlan
from lakewright.storage.operations.rewrite.compaction_plan import CompactionPlan, CompactionTask
from lakewright.storage.operations.rewrite.rescale import RescaleTask
from lakewright.storage.operations.rewrite.runner import MoveTask
from lakewright.storage.operations.running.plan import UnreachableFile

TASK = CompactionTask(
    partition={"day": "a", "key": b"\x01\xff"},
    bucket=0,
    files=("f", "g"),
    file_sizes=(1, 2),
    rows=3,
    output_level=5,
    reason="due",
)
PLAN = CompactionPlan(table="db.t", snapshot_id=None, tasks=(TASK,), skipped=())


def test_a_plan_comes_back_with_its_bytes_as_text() -> None:
    again = CompactionPlan.from_json(PLAN.to_json())
    assert again.tasks[0].partition == {"day": "a", "key": "01ff"}
    assert again.tasks[0].files == ("f", "g")
    assert (again.files_before, again.bytes_before, again.rows) == (2, 3, 3)


def test_what_somebody_put_beside_a_plan_is_left_out() -> None:
    plan = ExpirePlan(
        table="db.t",
        snapshot_ids=(1,),
        end_id=2,
        files=(UnreachableFile("a", 5),),
        reasons=("old",),
    )
    data = {"summary": {"files": 1}, **json.loads(plan.to_json())}
    assert ExpirePlan.from_json(json.dumps(data)) == plan
    assert plan.bytes == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"snapshot_id": True}, "True is not a whole number"),
        ({"tasks": {}}, "is not a list"),
        ({"table": None}, "None is not of type str"),
        ({"tasks": [{"upgrade": ["f"]}]}, "CompactionTask has no upgrade"),
        ({"tasks": [{"bucket": 0}]}, "missing"),
    ],
)
def test_what_is_no_plan_is_refused(change: dict[str, object], message: str) -> None:
    data = {**json.loads(PLAN.to_json()), **change}
    with pytest.raises(ValueError, match=message):
        CompactionPlan.from_json(json.dumps(data))


def test_tasks_that_no_planner_makes_are_refused() -> None:
    named: dict[str, Any] = {"partition": {}, "files": ["f"], "bytes": 1, "rows": 1}
    for count in (-1, 0, 2**31):
        with pytest.raises(InvalidRequestError, match="a plan gives a partition"):
            value_of(RescaleTask, {**named, "from_buckets": 1, "bucket_count": count})
        with pytest.raises(InvalidRequestError, match="a plan gives a partition"):
            value_of(MoveTask, {**named, "bucket_count": count})
    empty = {**json.loads(PLAN.to_json())["tasks"][0], "files": []}
    with pytest.raises(InvalidRequestError, match="names no files"):
        value_of(CompactionTask, empty)
    unequal = {**json.loads(PLAN.to_json())["tasks"][0], "file_sizes": [1]}
    with pytest.raises(InvalidRequestError, match="2 files and 1 sizes"):
        value_of(CompactionTask, unequal)
    rollback = {"table": "t", "files": [], "target_id": 1, "latest_id": 2, "restored_tag": None}
    rollback |= {"snapshot_ids": [2], "tags": ["a"], "tag_snapshot_ids": []}
    with pytest.raises(InvalidRequestError, match="1 tags of 0 snapshots"):
        RollbackPlan.from_json(json.dumps({**rollback, "changelog_ids": [], "consumers": []}))
    for tags, snapshots in ((["a"], [1, 2]), (["a", "a"], [1, 1])):
        text = {"table": "t", "files": [], "tags": tags, "snapshot_ids": snapshots}
        with pytest.raises(InvalidRequestError, match="tags"):
            DeleteTagsPlan.from_json(json.dumps(text))
