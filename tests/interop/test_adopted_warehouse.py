"""A neglected warehouse of other clients, adopted and brought to health by the sensor alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.neglected.build import build
from benchmarks.neglected.upkeep import Proof, prove

from lakewright.definitions import build_definitions
from lakewright.platform.decide.proposal import propose
from lakewright.platform.decide.take_survey import survey_warehouse
from lakewright.platform.ledger.action import Verdict
from lakewright.platform.ledger.ledger import LEDGER, Ledger
from tests.interop.test_they_read_ours import as_texts
from tests.oracles.client import JavaOracle, Oracle, WritingOracle
from tests.oracles.fixtures import oracle_home
from tests.pipelines.lake import Lake, opened

POLICY = """
warehouse:
  compaction: {min_bytes: 0 b, small_files: 4}
  snapshots: {retain_min: 2, retain_max: 5, time_retained: 0s}
  manifests: {min_count: 4}
  orphans: {older_than: 1d}
"""
TWO_WEEKS_MS = 14 * 86_400_000
TWO_DAYS_S = 2 * 86_400
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"primary_keys": ("day", "id"), "options": {"bucket": "1"}},
    {"options": {"file.format": "orc"}},
    {"primary_keys": ("day", "id"), "options": {"bucket": "2", "merge-engine": "partial-update"}},
)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    yield from opened(tmp_path)


def neglect(lake: Lake, writer: WritingOracle, name: str, kind: int, commits: int) -> None:
    """Many small commits, made long ago, and a file that a dead writer left."""
    root = str(lake.folder / "warehouse")
    fields = {"id": "BIGINT NOT NULL", "day": "STRING NOT NULL", "v": "STRING"}
    writer.create(root, name, fields, partition_keys=("day",), **KINDS[kind % len(KINDS)])
    for number in range(commits):
        day = "ab"[number % 2]
        writer.write(root, name, [{"id": number // 2, "day": day, "v": f"{name} {number}"}])
    folder = lake.folder / "warehouse" / f"{name.split('.', maxsplit=1)[0]}.db" / name.split(".")[1]
    schema = folder / "schema" / "schema-0"
    told = json.loads(schema.read_text())
    schema.write_text(json.dumps(told | {"timeMillis": told["timeMillis"] - TWO_WEEKS_MS}))
    bucket = next(folder.glob("day=a/bucket-*"))
    lost = bucket / "data-00000000-0000-4000-8000-00000000dead-0.parquet"
    lost.write_bytes(b"lost")
    os.utime(lost, (lost.stat().st_mtime - TWO_DAYS_S,) * 2)


@pytest.mark.parametrize(("tables", "commits"), [(4, 10)])
def test_a_neglected_warehouse_is_brought_to_health_and_its_writers_read_the_same_rows(
    lake: Lake, java_latest: JavaOracle, released_pypaimon: WritingOracle, tables: int, commits: int
) -> None:
    root = str(lake.folder / "warehouse")
    names = [f"db{at % 3}.t{at}" for at in range(tables)]
    writers: tuple[WritingOracle, ...] = (java_latest, released_pypaimon)
    for at, name in enumerate(names):
        neglect(lake, writers[at % 2], name, at // 2, commits)
    before = {name: [read(each, root, name) for each in writers] for name in names}
    surveys = list(survey_warehouse(lake.catalog))
    assert [each.problem for each in surveys] == [None] * tables
    assert "mode: shadow" in propose(surveys, warehouse=root)

    policy = lake.folder / "policy.yaml"
    policy.write_text(POLICY)
    lake.definitions_are(
        build_definitions([], warehouse=lake.warehouse, policies=[policy], adopted=["db*"])
    )
    runs = 0
    while requests := lake.tick().run_requests:
        for request in requests:
            runs += 1
            lake.request(request)
        assert runs < 10 * tables
    # Few runs, however many tables.
    assert runs <= 8 + tables // 3

    for after in survey_warehouse(lake.catalog, pattern="db*"):
        assert after.files.small_files <= 2 * 2
        assert after.history.snapshots <= 5
    for name in names:
        assert [read(each, root, name) for each in writers] == before[name]
        # What a dead writer left is condemned, and can come back for a week.
        verbs = {each.verb for each in lake.catalog.table(name).upkeep.condemned()}
        assert "remove_orphans" in verbs
    actions = [each for each in Ledger(lake.catalog).actions() if each.table != LEDGER]
    assert {each.verdict for each in actions} <= {Verdict.DONE, Verdict.NOTHING_TO_DO}
    assert sum(each.benefit.files_fewer for each in actions) >= tables * (commits // 2 - 2)


@pytest.mark.deep
def test_forty_tables_of_every_kind_are_brought_to_health(
    tmp_path: Path, java_latest: JavaOracle, released_pypaimon: WritingOracle
) -> None:
    """What `docs/why/proof.md` shows of 200; the fixtures only ensure the clients."""
    proof = Proof()
    warehouse = tmp_path / "warehouse"
    made = build(warehouse, oracle_home(), tables=40, commits=30, long=300)
    prove(tmp_path, oracle_home(), made, proof)
    assert not proof.faults
    assert not proof.unread
    for table, before in proof.before.items():
        assert proof.after[table].debt < before.debt
    assert {each.verdict for each in proof.actions} <= {
        Verdict.SHADOW,
        Verdict.DONE,
        Verdict.NOTHING_TO_DO,
    }


def read(client: Oracle, root: str, name: str) -> list[str]:
    return as_texts(client.read(root, name))
