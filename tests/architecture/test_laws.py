"""Laws that no linter knows: one door each for snapshots and deletions, no clock outside env."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.sources import ROOT, names_in, parse, references, room_files

ENV = "storage/env.py"
FILES = "storage/files/"
COMMIT = "storage/operations/commit/commit_loop.py"
DELETE = "storage/operations/running/delete_files.py"

CLOCKS_AND_CHANCE = (
    "time",
    "random",
    "secrets",
    "uuid",
    "numpy.random",
    "os.urandom",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "datetime.date.today",
    "pandas.Timestamp.now",
    "pandas.Timestamp.today",
    "pyarrow.compute.random",
)
# What `FileSystem` in storage/env.py offers to take files away.
DELETIONS = {"delete", "delete_tree", "remove_empty_dir"}
# What lies below it: fsspec, os, pathlib and shutil.
RAW_DELETIONS = {"rm", "rm_file", "rmdir", "removedirs", "unlink", "rmtree", "delete_dir"}
# Plans that are answers themselves: reading them is all that is done with them.
# Plans of reads, and the plan of an expiry that is run as a deletion of tags.
PLANS_WITHOUT_RUN = {"plan_scan", "plan_incremental", "plan_audit_log", "plan_stream"}
EMPTY_NAMES = {"utils", "util", "helpers", "common", "manager", "base", "impl", "misc"}
KEYS_IN_TRANSIT = (
    "lakewright.storage.operations.state.keys_of_files",
    "lakewright.storage.spec.bridge_record",
    "lakewright.storage.spec.snapshot.KEYS_CHANGE_PROPERTY",
)
# Outside of the rooms that tell and change the keys, and what each does about files of other keys.
KNOW_KEYS_IN_TRANSIT = {
    "storage/operations/changes/across_keys.py": "compares states of different keys",
    "storage/operations/commit/bridged_base.py": "ends a change that died",
    "storage/operations/commit/keys_gate.py": "lets committers wait",
    "storage/operations/inspection/late_writers.py": "names clients of former keys",
    "storage/operations/read/scan.py": "reads bridged files without a merge",
    "storage/operations/references/reachable.py": "keeps the manifests of a change",
}


def test_clock_and_chance_are_read_in_env_only() -> None:
    found = {
        f"{use.file}:{use.line} {use.name}"
        for use in references()
        if use.file != ENV and use.is_within(*CLOCKS_AND_CHANCE)
    }
    assert not found, "take time, ids and chance from an Env"


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.time()",
        "from time import monotonic as m",
        "import datetime as dt\nlater = dt.datetime.now",
        "from datetime import datetime\ndatetime.now()",
        "import numpy as np\nnp.random.default_rng()",
        "def f():\n    import uuid",
    ],
)
def test_a_clock_is_seen_under_any_name(source: str) -> None:
    uses = list(names_in(ast.parse(source), "x.py"))
    assert any(use.is_within(*CLOCKS_AND_CHANCE) for use in uses)


def test_a_variable_is_no_clock() -> None:
    uses = list(names_in(ast.parse("def f(time, row):\n    return time + row.random"), "x.py"))
    assert not [use for use in uses if use.is_within(*CLOCKS_AND_CHANCE)]


def test_snapshots_are_created_in_one_place() -> None:
    calls = [use for use in references() if use.last == "put_snapshot"]
    assert {use.file for use in calls} == {COMMIT}


def test_few_modules_know_that_partition_keys_may_be_changing() -> None:
    rooms = ("storage/operations/state/", "storage/operations/respec/", "storage/spec/")
    found = {
        use.file
        for use in references()
        if (use.is_within(*KEYS_IN_TRANSIT) or use.last == "is_bridged")
        and not use.file.startswith(rooms)
    }
    assert found == KNOW_KEYS_IN_TRANSIT.keys(), "ask a TableState, which refuses other keys"


def test_states_are_made_by_the_function_that_refuses_other_keys() -> None:
    made = {
        file
        for file in room_files("storage")
        for node in ast.walk(parse(file))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "TableState"
    }
    assert {each for each in made if not each.startswith("storage/operations/respec/")} == {
        COMMIT,
        "storage/operations/state/table_state.py",
    }


def test_nothing_goes_round_the_stores_to_put_a_file() -> None:
    files = {use.file for use in references() if use.last == "put_if_absent"}
    assert all(file.startswith(FILES) for file in files if file.startswith("storage/")), files


def test_files_are_deleted_in_one_place() -> None:
    assert {use.file for use in references() if use.last in DELETIONS} == {DELETE}


def test_raw_deletion_stays_inside_the_file_systems() -> None:
    found = {
        f"{use.file}:{use.line} {use.name}"
        for use in references()
        if (use.last in RAW_DELETIONS or use.name == "os.remove") and not use.file.startswith(FILES)
    }
    assert not found, f"delete through {DELETE}"


def test_every_verb_has_a_plan_and_a_run() -> None:
    unpaired = []
    pairs = 0
    for file in room_files("storage/operations"):
        names = {node.name for node in parse(file).body if isinstance(node, ast.FunctionDef)}
        plans = {
            name.removeprefix("plan_")
            for name in names - PLANS_WITHOUT_RUN
            if name.startswith("plan_")
        }
        runs = {name.removeprefix("run_") for name in names if name.startswith("run_")}
        pairs += len(plans & runs)
        unpaired += [f"{file}: plan_{verb} without run_{verb}" for verb in sorted(plans - runs)]
        unpaired += [f"{file}: run_{verb} without plan_{verb}" for verb in sorted(runs - plans)]
    assert not unpaired
    assert pairs, "no verb found"


def test_operations_open_with_a_numbered_plan() -> None:
    missing = [
        file
        for file in room_files("storage/operations")
        if any(
            isinstance(node, ast.FunctionDef) and node.name.startswith("run_")
            for node in parse(file).body
        )
        and not re.search(r"^\s*1[.)] ", ast.get_docstring(parse(file)) or "", re.MULTILINE)
    ]
    assert not missing


def test_names_say_what_is_inside() -> None:
    found = [
        file for file in room_files() if EMPTY_NAMES & set(file.removesuffix(".py").split("/"))
    ]
    assert not found


def test_doubles_implement_protocols() -> None:
    tests = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("*.py")
        # A file that never spells it imports none.
        if "mock" in path.read_text(encoding="utf-8")
    ]
    mocks = [
        f"{use.file}:{use.line}"
        for file in tests
        for use in names_in(parse(file), file)
        if use.is_within("unittest.mock")
    ]
    assert not mocks, "write a double that implements the protocol"


@pytest.mark.mission("PT60", "RS11")
@pytest.mark.parametrize("name", ["parquet_files", "orc_files", "avro_files", "data_file"])
def test_a_file_format_knows_nothing_of_partitions_and_commits(name: str) -> None:
    file = f"storage/files/{name}.py"
    used = {each.name for each in names_in(parse(file), file)}
    of_tables = ("spec.partition", "spec.commit", "spec.snapshot", "spec.schema", "operations")
    assert used
    assert not [each for each in used if any(f"storage.{name}" in each for name in of_tables)]
