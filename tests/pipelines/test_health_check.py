"""The health check: a person sees on a table's page what is due, why, and what is not."""

from __future__ import annotations

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from lakewright.definitions import build_definitions
from lakewright.platform.decide.debt import POOR_FILES, POOR_RUNS
from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.orchestration import health_background
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.upkeep.measures import Benefit
from lakewright.platform.upkeep.words import size_text
from tests.pipelines.lake import EVENTS, Lake, events

CHECK = "healthy"
EXTERNAL = """
    table: shop.others
    columns:
      - {name: dt, type: STRING NOT NULL}
      - {name: id, type: BIGINT NOT NULL}
      - {name: amount, type: DOUBLE}
    partition_keys: [dt]
    partitions:
      daily: {column: dt, start: 2024-01-01, end: 2024-02-01}
"""
COLUMNS = {"dt": "STRING NOT NULL", "id": "BIGINT NOT NULL", "amount": "DOUBLE"}


@pytest.fixture
def fragmented(lake: Lake) -> Lake:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3) + events("2024-01-02", 3, 5))
    lake.materialize(partitions=("2024-01-01", "2024-01-02"))
    lake.write_small_files("2024-01-02", 2)
    return lake


def told(ticked: object) -> list[str]:
    return [type(each).__name__ for each in ticked.asset_events]  # type: ignore[attr-defined]


def test_the_check_says_what_is_due_with_numbers_bars_and_what_is_not(fragmented: Lake) -> None:
    checked = fragmented.check(CHECK)
    found = checked.checks[CHECK]
    assert not found.passed
    assert found.severity is dg.AssetCheckSeverity.WARN
    assert found.description is not None
    size = size_text(sum(each.size_bytes for each in fragmented.table().at().partitions()))
    assert found.description.splitlines() == [
        "| size | files | small files | snapshots | last upkeep | saved | due or deferred |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        f"| {size} | 4 | 4 | 3 | none | 0 files, 0 B | compact |",
        "",
        "**State: good**; the check warns, because upkeep is late",
        "",
        "**Upkeep**: work is due.",
        "",
        "- **compact**: partition dt=2024-01-02: 3 small files ≥ 3: compact",
        "",
        "```",
        f"the table   {'█' * 30} 4 files, all small",
        f"2024-01-02  {'█' * 23} 3 files, all small",
        "```",
    ]
    metadata = found.metadata
    (due,) = [each.data for each in metadata["due"].records]
    assert (due["verb"], due["gains"]) == ("compact", "2 files removed")
    assert due["takes"].endswith(("ms", "s"))
    # A compaction frees nothing before an expiry.
    assert due["frees"] == "not known"
    assert due["reason"] == "partition dt=2024-01-02: 3 small files ≥ 3: compact"
    assert metadata["job of upkeep"].value == "upkeep"
    assert "job of purge" not in metadata
    assert metadata["lakewright/files"].value == 4
    assert metadata["lakewright/debt_files"].value == 3
    assert metadata["lakewright/small_files"].value == 4
    declined = [each.data for each in metadata["not due"].records]
    assert {"expire snapshots", "remove orphans"} <= {each["verb"] for each in declined}
    assert all(each["reason"] for each in declined)
    assert not any("shop.events" in each["reason"] for each in declined)
    times = [each.data for each in metadata["other retention times"].records]
    assert [(each["keep"], each["snapshots gone"]) for each in times] == [
        ("1d", 0),
        ("3d", 0),
        ("7d", 0),
        ("30d", 0),
    ]


def test_the_check_tells_what_the_last_runs_did(fragmented: Lake) -> None:
    Ledger(fragmented.catalog).record_one(
        Action(
            id="1",
            run="a run",
            table="shop.events",
            table_uuid=fragmented.table().uuid,
            verb="compact",
            started_ms=fragmented.catalog.env.now_ms(),
            ended_ms=0,
            verdict=Verdict.DONE,
            benefit=Benefit(files_fewer=2),
        )
    )
    metadata = fragmented.check(CHECK).checks[CHECK].metadata
    (run,) = [each.data for each in metadata["last runs"].records]
    assert (run["verb"], run["result"], run["files"]) == ("compact", "done", "2 fewer")


def test_the_sensor_shows_other_retention_times_without_a_run(
    fragmented: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the executed check shows them; of more snapshots it says where they are."""
    fragmented.table().history.create_tag("q3")
    (event,) = fragmented.tick().asset_events
    executed = fragmented.check(CHECK).checks[CHECK].metadata
    assert event.metadata["other retention times"] == executed["other retention times"]
    assert [each.data["keep"] for each in event.metadata["other retention times"].records]

    monkeypatch.setattr(health_background, "MOST_SNAPSHOTS_AT_A_LOOK", 2)
    fragmented.forget_what_was_read()
    (event,) = fragmented.tick().asset_events
    assert "so does this check" in event.metadata["other retention times"].value


def test_the_sensor_reports_a_check_only_when_what_is_due_changes(fragmented: Lake) -> None:
    ticked = fragmented.tick()
    assert told(ticked) == ["AssetCheckEvaluation"]
    assert not ticked.asset_events[0].passed
    assert told(fragmented.tick()) == []
    fragmented.request(ticked.run_requests[0])
    healed = fragmented.tick()
    assert told(healed) == ["AssetCheckEvaluation"]
    assert healed.asset_events[0].passed
    assert healed.asset_events[0].description.splitlines()[6] == "**Upkeep**: nothing is due."
    assert told(fragmented.tick()) == []
    newest = fragmented.check_records(CHECK)[0]
    assert newest.status is AssetCheckExecutionRecordStatus.SUCCEEDED
    fragmented.forget_what_was_read()
    assert told(fragmented.tick()) == ["AssetCheckEvaluation"]
    assert told(fragmented.tick()) == []


def test_the_page_of_a_healthy_table_follows_each_change_of_its_policy(lake: Lake) -> None:
    lake.catalog.create_table("shop.events", COLUMNS)
    lake.write_small_files("2024-01-01", 1)
    policy = lake.folder / "policy.yaml"
    policy.write_text("warehouse: {compaction: {small_files: 5}}\n")
    lake.declare("table: other.table\n")
    lake.definitions_are(
        build_definitions(
            [lake.folder / "tables"],
            warehouse=lake.warehouse,
            policies=[policy],
            adopted=["shop.*"],
        )
    )

    def evaluations() -> list[str]:
        found = [
            each for each in lake.tick().asset_events if isinstance(each, dg.AssetCheckEvaluation)
        ]
        return [f"{each.description} {each.metadata['not due'].value}" for each in found]

    assert len(evaluations()) == 1
    for said, told in (
        ("{snapshots: {retain_max: 3}}", "retain_max (3) is below retain_min (10)"),
        ("{snapshots: {enabled: false}}", "is switched off by its policy"),
        ("{freeze: true}", "is frozen by its policy"),
        ("{mode: shadow}", "**Upkeep**: nothing is due"),
        ("{mode: live}", "**Upkeep**: nothing is due"),
    ):
        policy.write_text(f"warehouse: {said}\n")
        (evaluation,) = evaluations()
        assert told in evaluation
        assert evaluations() == []


def test_the_page_shows_what_a_run_that_made_no_snapshot_left(fragmented: Lake) -> None:
    fragmented.tick()
    (before,) = fragmented.check_records(CHECK)
    fragmented.run("expire_snapshots", retain_max=1, retain_min=1, time_retained="0s")
    assert told(fragmented.tick()) == ["AssetCheckEvaluation"]
    after = fragmented.check_records(CHECK)[0]
    counts = [
        each.event.dagster_event.event_specific_data.metadata["lakewright/snapshots"].value
        for each in (before, after)
        if each.event is not None and each.event.dagster_event is not None
    ]
    assert counts == [3, 1]
    assert told(fragmented.tick()) == []


def test_what_only_waits_as_its_policy_says_is_healthy(lake: Lake) -> None:
    lake.declare(
        EVENTS.replace(
            "{min_bytes: 0 b, small_files: 3}", "{small_files: 3, min_bytes: 1 GB, at_latest: 2d}"
        )
    )
    lake.give(events("2024-01-02", 3, 5))
    lake.materialize(partitions="2024-01-02")
    lake.write_small_files("2024-01-02", 2)
    found = lake.check(CHECK).checks[CHECK]
    assert found.passed
    assert (
        "\n\n**Upkeep**: work waits, as its policy says.\n\n"
        "- **compact**: partition dt=2024-01-02: 3 small files ≥ 3: waits, "
    ) in found.description
    (waits,) = [each.data for each in found.metadata["deferred"].records]
    assert (waits["why not"], waits["partition"]) == ("too little", "2024-01-02")


def test_in_shadow_the_check_says_that_nothing_is_done_of_all_that_is_due(fragmented: Lake) -> None:
    shadow = EVENTS.replace("maintenance:", "maintenance:\n      mode: shadow")
    fragmented.declare(shadow)
    found = fragmented.check(CHECK).checks[CHECK]
    lines = found.description.splitlines()
    assert lines[6] == "**Upkeep**: work is due."
    assert "Nothing of this is done: `mode: shadow` of its policy only records it." in lines
    assert not any("shadow" in each for each in lines if each.startswith("- "))


def test_a_table_that_does_not_exist_yet_is_healthy(lake: Lake) -> None:
    lake.declare(EVENTS)
    found = lake.check(CHECK).checks[CHECK]
    assert found.passed
    assert found.description == "table shop.events does not exist yet"


def test_a_table_that_cannot_be_read_is_not_healthy_and_says_why(fragmented: Lake) -> None:
    (manifest,) = sorted(fragmented.folder.rglob("manifest/manifest-[!l]*-0"))[:1]
    content = manifest.read_bytes()
    manifest.unlink()
    found = fragmented.check(CHECK).checks[CHECK]
    manifest.write_bytes(content)
    assert not found.passed
    assert "cannot be read" in found.description


@pytest.fixture
def others(lake: Lake) -> Lake:
    """A declared table that another process writes."""
    lake.declare(EXTERNAL)
    lake.catalog.create_database("shop")
    lake.catalog.create_table("shop.others", COLUMNS, partition_keys=["dt"])
    return lake


def test_commits_of_others_show_up_as_materializations(others: Lake) -> None:
    key = dg.AssetKey(["shop", "others"])
    others.tick()
    assert others.instance.get_latest_materialization_event(key) is None
    others.write_small_files("2024-01-02", 1, "shop.others")
    first = [each for each in others.tick().asset_events if each.asset_key == key]
    day, whole = [each for each in first if isinstance(each, dg.AssetMaterialization)]
    assert (day.partition, whole.partition) == ("2024-01-02", None)
    assert day.metadata["dagster/partition_row_count"].value == 1
    assert whole.metadata["lakewright/snapshot_id"].value == 1
    assert whole.metadata["dagster/row_count"].value == 1
    assert whole.metadata["lakewright/commit_kind"].value == "APPEND"
    others.write_small_files("2024-01-03", 1, "shop.others")
    second = others.tick().asset_events
    partitions = [each.partition for each in second if isinstance(each, dg.AssetMaterialization)]
    assert partitions == ["2024-01-03", None]
    assert not others.tick().asset_events
    # What was reported is known after a restart, too.
    others.forget_what_was_read()
    assert told(others.tick()) == ["AssetCheckEvaluation"]


def test_a_rewrite_of_others_is_an_observation_and_one_of_ours_is_none(others: Lake) -> None:
    others.write_small_files("2024-01-02", 3, "shop.others")
    others.tick()
    others.table("shop.others").upkeep.compact(full=True)
    assert "AssetObservation" in told(others.tick())
    others.write_small_files("2024-01-02", 2, "shop.others")
    others.tick()
    others.run("compact", "shop.others", full=True)
    assert "AssetObservation" not in told(others.tick())


def test_upkeep_is_no_materialization_of_a_table_that_others_write(others: Lake) -> None:
    table = others.table("shop.others")
    key = TableNames("shop.others").asset_key
    gone = [{"dt": "2024-01-04"}]

    def reported() -> list[tuple[str, str | None]]:
        return [
            (type(each).__name__, each.partition)
            for each in others.tick().asset_events
            if each.asset_key == key and not isinstance(each, dg.AssetCheckEvaluation)
        ]

    for day in ("2024-01-02", "2024-01-03", "2024-01-04"):
        others.write_small_files(day, 3, "shop.others")
    assert len(reported()) == 4
    run = "dagster-11111111-1111-1111-1111-111111111111-expire_partitions"
    for name, told in {
        run: [],
        "lakewright expire-partitions (0123abcd)": [("AssetObservation", None)],
    }.items():
        mine = table.for_run(name).upkeep
        mine.run(mine.plan_drop_partitions(partitions=gone))
        assert reported() == told
        # What came beside upkeep is told, and only that.
        others.write_small_files("2024-01-04", 1, "shop.others")
        table.upkeep.run(table.upkeep.plan_compact(min_files=2))
        assert reported() == [
            ("AssetMaterialization", "2024-01-04"),
            ("AssetMaterialization", None),
        ]
        others.write_small_files("2024-01-02", 3, "shop.others")
        assert len(reported()) == 2
    # Dropped by hand: tables may be made of this one.
    table.upkeep.run(table.upkeep.plan_drop_partitions(partitions=gone))
    assert reported() == [("AssetMaterialization", None)]


def test_rows_of_a_keyed_table_are_those_that_readers_see_or_are_called_rows_in_files(
    lake: Lake,
) -> None:
    lake.declare(EVENTS.replace("partition_keys:", "primary_key: [dt, id]\n    partition_keys:"))
    lake.give(events("2024-01-01", 0, 10))
    for _ in range(3):
        written = lake.materialize(partitions="2024-01-01", config={"mode": "upsert"})
    told = written.materializations["2024-01-01"]
    assert not {"dagster/row_count", "dagster/partition_row_count"} & set(told)
    assert (told["lakewright/rows_in_files"], told["lakewright/partition_rows_written"]) == (30, 10)

    def shown() -> dict[str, int]:
        metadata = lake.check(CHECK).checks[CHECK].metadata
        names = ("dagster/row_count", "lakewright/rows_in_files")
        return {name: metadata[name].value for name in names if name in metadata}

    assert shown() == {"lakewright/rows_in_files": 30}
    compacted = lake.run("compact", full=True)
    assert compacted.observations["2024-01-01"]["dagster/partition_row_count"] == 10
    assert shown() == {"dagster/row_count": 10}
    assert len(lake.rows()) == 10
    # A file with a retraction alone is one sorted run, too.
    lake.table().write(
        pa.Table.from_pylist(
            [{"dt": "2024-01-02", "id": 1, "_rowkind": "-D"}],
            lake.table().arrow_schema.append(pa.field("_rowkind", pa.string())),
        )
    )
    assert shown() == {"lakewright/rows_in_files": 11}
    assert len(lake.rows()) == 10


def test_a_poor_state_warns_and_says_what_readers_pay_and_why_nothing_is_done(lake: Lake) -> None:
    declared = EVENTS.replace("{min_bytes: 0 b, small_files: 3}", "{enabled: false}")
    lake.declare(declared)
    lake.give(events("2024-01-02", 0, 1))
    lake.materialize(partitions="2024-01-02")
    lake.write_small_files("2024-01-02", POOR_FILES - 2)
    assert lake.check(CHECK).checks[CHECK].passed
    lake.write_small_files("2024-01-02", 1)

    found = lake.check(CHECK).checks[CHECK]

    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    state, _, upkeep, _, declined = found.description.splitlines()[4:9]
    paid = f"a reader opens up to {POOR_FILES} small files of one bucket"
    assert state == f"**State: poor**: {paid}"
    assert upkeep == "**Upkeep**: nothing is due."
    assert declined == "- **compact**: is switched off by its policy"


def test_the_state_of_a_keyed_table_is_poor_by_the_sorted_runs_of_a_bucket(lake: Lake) -> None:
    declared = EVENTS.replace("partition_keys:", "primary_key: [dt, id]\n    partition_keys:")
    lake.declare(declared.replace("{min_bytes: 0 b, small_files: 3}", "{enabled: false}"))
    lake.give(events("2024-01-02", 0, 1))
    lake.materialize(partitions="2024-01-02")
    lake.write_small_files("2024-01-02", POOR_RUNS - 1)
    found = lake.check(CHECK).checks[CHECK]
    assert not found.passed
    paid = f"a reader merges up to {POOR_RUNS} sorted runs of one bucket"
    assert found.description.splitlines()[4] == f"**State: poor**: {paid}"


def test_a_write_that_fails_repeats_the_last_evaluations_of_the_checks(fragmented: Lake) -> None:
    fragmented.with_checks = True
    before = {name: fragmented.check(name).checks[name] for name in (CHECK, "schema_matches")}

    def broken(*_: object) -> None:
        raise ConnectionError("no connection to the source")

    fragmented.give(broken)
    outcome = fragmented.materialize(partitions="2024-01-01", fails=True)

    assert "no connection to the source" in outcome.failure
    for name, told in before.items():
        again = outcome.checks[name]
        assert (again.passed, again.description) == (told.passed, told.description)
        newest = fragmented.check_records(name)[0]
        assert newest.run_id == outcome.run_id


def test_a_check_that_was_never_evaluated_says_so_after_a_write_that_fails(lake: Lake) -> None:
    lake.with_checks = True
    lake.declare(EVENTS)

    def broken(*_: object) -> None:
        raise ConnectionError("no connection to the source")

    lake.give(broken)
    told = lake.materialize(partitions="2024-01-01", fails=True).checks[CHECK]
    assert told.passed
    assert told.description == "not evaluated: the write failed"
