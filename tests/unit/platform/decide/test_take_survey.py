"""Surveys: what they count is what is there, bad tables hide no others, and nothing is written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lakewright.cli.output.table_report import report_table
from lakewright.platform.decide.debt import debt_of, findings
from lakewright.platform.decide.judge_buckets import bucket_hint
from lakewright.platform.decide.survey import TableSurvey
from lakewright.platform.decide.take_survey import survey_snapshot, survey_table, survey_warehouse
from lakewright.platform.tables.upkeep_policies import RescalePolicy
from lakewright.platform.upkeep.health import read_health
from lakewright.storage import Catalog, SetOption, Table
from lakewright.storage.errors import TableNotFound, UnsupportedError
from tests.support.stores.watched_files import WatchedFiles, watched
from tests.support.tables.builders import compact, events, expire, new_table, remove_orphans, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.foreign_metadata import table_of_everything
from tests.support.tables.late_commits import commit_late


def appended(catalog: Catalog, name: str = "db.t", *, times: int = 3, **options: str) -> Table:
    table = new_table(catalog, name=name, partitions=["day"], options=options)
    for number in range(times):
        table.write(rows(table, events(number, number + 2, day="ab"[number % 2])))
    return table


def surveyed(catalog: Catalog, **how: object) -> dict[str, TableSurvey]:
    return {each.table: each for each in survey_warehouse(catalog, **how)}  # type: ignore[arg-type]


def test_a_survey_counts_the_files_of_an_append_table(catalog: Catalog) -> None:
    table = appended(catalog, times=5)
    found = survey_table(table)
    files = table.at().files()
    assert (found.problem, found.read_only, found.refused) == (None, None, {})
    assert (found.kind, found.keyed, found.partition_keys) == ("append", False, ("day",))
    assert found.uuid == table.uuid
    assert (found.files.files, found.files.rows) == (5, 10)
    assert found.files.bytes == sum(each.file.file_size for each in files)
    assert found.files.small_files == found.files.mergeable_files == 5
    assert found.files.most_in_bucket == 3
    assert (found.files.sorted_runs, found.files.level0_files) == (0, 0)
    assert (found.layout.partitions, found.layout.buckets) == (2, 2)
    sizes = [each.size_bytes for each in table.at().partitions()]
    assert found.layout.largest_bucket_bytes == max(sizes)
    assert found.layout.skew == round(max(sizes) / (sum(sizes) / 2), 2)
    assert found.manifests.manifests == len(table.inspect.manifests())


@pytest.mark.mission("BK8", "BK37")
def test_partitions_that_a_changed_number_of_buckets_left_behind_are_counted_and_told(
    catalog: Catalog,
) -> None:
    table = new_table(catalog, keys=["day", "id"], partitions=["day"], options={"bucket": "2"})
    for day in "abc":
        table.write(rows(table, events(0, 3, day=day)))
    assert survey_table(table).layout.left_behind == 0
    # A partition with a number of its own takes rows.
    table.upkeep.rescale(3, [{"day": "a"}])
    assert survey_table(table).layout.left_behind == 0
    table = table.alter(SetOption("bucket", "4"))
    found = survey_table(table)
    assert found.layout.left_behind == 2
    told = bucket_hint(found, RescalePolicy())
    assert told is not None
    assert "2 partitions written before bucket=4 was set" in told
    assert told.endswith("lakewright rescale db.t --buckets 4")
    table.upkeep.rescale(4)
    assert survey_table(catalog.table("db.t")).layout.left_behind == 0


def test_a_survey_counts_the_runs_of_the_worst_bucket_of_a_keyed_table(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["day", "id"], partitions=["day"], options={"bucket": "1"})
    table.write(rows(table, events(0, 3, day="calm")))
    for number in range(4):
        table.write(rows(table, events(number, number + 3, day="busy")))
    before = survey_table(table)
    assert (before.kind, before.keyed) == ("deduplicate", True)
    assert (before.files.sorted_runs, before.files.level0_files) == (4, 5)
    assert before.files.mergeable_files == 4
    compact(table, full=True)
    after = survey_table(table)
    assert (after.files.sorted_runs, after.files.level0_files) == (1, 0)
    assert (after.files.mergeable_files, after.files.mergeable_bytes) == (0, 0)


def test_the_worst_partitions_are_those_of_health(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=["day"])
    for day, times in (("one", 1), ("two", 2), ("four", 4), ("three", 3)):
        for number in range(times):
            table.write(rows(table, events(number, number + 1, day=day)))
    found = survey_table(table, worst=2).worst
    assert [each.key for each in found] == ["four", "three"]
    of_health = {each.key: each for each in read_health(table).partitions}
    assert list(found) == [of_health["four"], of_health["three"]]
    # A partition of one file has nothing to join.
    assert [each.key for each in survey_table(table, worst=9).worst] == ["four", "three", "two"]


def test_a_survey_of_a_table_of_everything_counts_its_history(catalog: Catalog) -> None:
    table = table_of_everything(catalog)
    expire(table, keep=2, max_deletes=1)
    history, table = survey_table(table).history, catalog.table("db.t")
    snapshots = table.history.snapshots()
    assert history.snapshots == len(snapshots)
    assert history.earliest_snapshot == snapshots[0].id
    assert history.latest_snapshot == snapshots[-1].id
    assert (history.earliest_ms, history.latest_ms) == (
        snapshots[0].time_millis,
        snapshots[-1].time_millis,
    )
    assert (history.tags, history.branches, history.consumers) == (1, 1, 1)
    assert history.oldest_tag_ms == table.history.tags()[0].snapshot.time_millis
    assert history.oldest_consumer_snapshot == 4
    assert history.changelogs == len(table.history.changelogs())
    assert (history.schemas, history.schemas_in_use) == (1, 1)
    deleted = table.inspect.table_indexes().to_pylist()
    expected = sum(
        len(each["dv_ranges"]) for each in deleted if each["index_type"] == "DELETION_VECTORS"
    )
    assert survey_table(table).files.deletion_vectors == expected


def test_schemas_in_use_are_those_of_live_files(catalog: Catalog) -> None:
    table = appended(catalog)
    table = table.alter(SetOption("owner.name", "x"))
    table = table.alter(SetOption("owner.name", "y"))
    table.write(rows(table, events(9, 10)))
    assert survey_table(table).history.schemas == 3
    assert survey_table(table).history.schemas_in_use == 2


def test_rows_that_wait_for_a_compaction_are_counted(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "-2"})
    table.write(rows(table, events(0, 7)))
    found = survey_table(table, worst=5)
    assert (found.bucket, found.files.waiting_rows) == (-2, 7)
    assert [each.waiting_rows for each in found.worst] == [7]


def test_files_that_the_snapshot_does_not_name_are_estimated(unchecked_catalog: Catalog) -> None:
    table = appended(unchecked_catalog, times=2)
    assert survey_table(table).orphans.estimated_files == 0
    root = Path(table.table_files.paths.root)
    named = next(root.glob("day=a/bucket-0/data-*.parquet"))
    Path(f"{named}.index").write_bytes(b"a file of its own beside a data file")
    for number in range(3):
        (root / "day=a" / "bucket-0" / f"data-lost-{number}.parquet").write_bytes(b"12345")
    (root / "day=a" / "bucket-0" / "changelog-x.parquet").write_bytes(b"of an older snapshot")
    orphans = survey_table(table).orphans
    assert (orphans.folders, orphans.of_folders) == (2, 2)
    assert (orphans.unnamed_files, orphans.unnamed_bytes) == (3, 15)
    assert (orphans.estimated_files, orphans.estimated_bytes) == (3, 15)
    layout = table.inspect.layout()
    some = [
        table.inspect.unnamed_files(layout, most_folders=1, seed=seed).count for seed in range(20)
    ]
    assert set(some) == {0, 3}
    again = table.inspect.unnamed_files(layout, most_folders=1, seed=5)
    assert again == table.inspect.unnamed_files(layout, most_folders=1, seed=5)


def test_files_that_kept_snapshots_need_are_no_debt(catalog: Catalog) -> None:
    table = appended(catalog, times=12)
    table.upkeep.compact(full=True)
    table.upkeep.expire_snapshots(retain_min=5, retain_max=5, grace_ms=0)
    survey = survey_table(table)
    assert survey.history.snapshots == 5
    assert survey.orphans.unnamed_files == 0
    assert debt_of(survey).files == 0


def test_a_table_that_lost_its_schema_is_told_and_a_folder_of_something_else_is_not(
    unchecked_catalog: Catalog,
) -> None:
    table = appended(unchecked_catalog, times=2)
    root = Path(table.table_files.paths.root)
    (root.parent / "notes").mkdir()
    shutil.rmtree(root / "schema")
    (survey,) = survey_warehouse(unchecked_catalog)
    assert survey.table == table.name
    assert survey.problem is not None
    assert survey.problem.startswith(f"its folder {root} holds 2 snapshots and no schema")
    with pytest.raises(TableNotFound, match="holds 2 snapshots and no schema"):
        unchecked_catalog.table(table.name)


def test_files_of_another_partition_in_the_same_folder_are_no_orphans(catalog: Catalog) -> None:
    """Null and the empty text share one; a sample may have drawn one of them alone."""
    table = new_table(catalog, {"k": "INT", "p": "STRING"}, partitions=["p"])
    for value in (None, "", "x", None, ""):
        table.write(rows(table, [{"k": 1, "p": value}]))
    layout = table.inspect.layout()
    for most in (1, 3):
        for seed in range(9):
            found = table.inspect.unnamed_files(layout, most_folders=most, seed=seed)
            assert found.count == 0


def test_the_length_of_a_history_costs_one_listing(catalog: Catalog) -> None:
    table = appended(catalog, times=3)
    calls = []
    for more in (0, 20):
        for number in range(more):
            table.write(rows(table, events(number, number + 1)))
        seen, fs = watched(table)
        survey_table(seen)
        calls.append(
            sum(each.name == "read_bytes" and "/snapshot/" in each.path for each in fs.calls)
        )
    assert calls[0] == calls[1]


def _damage(name: str, change: Callable[[Path], object]) -> Callable[[Table], None]:
    def damage(table: Table) -> None:
        for each in sorted(Path(table.table_files.paths.root).glob(name)):
            change(each)

    return damage


def _alter_schema(**options: str) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        schema = json.loads(path.read_text())
        schema["options"] |= {name.replace("__", ".").replace("_", "-"): value
                              for name, value in options.items()}  # fmt: skip
        path.write_text(json.dumps(schema))

    return change


BAD_TABLES = {
    "snapshot": (_damage("snapshot/snapshot-*", lambda path: path.write_text("{")), "snapshot"),
    "schema": (_damage("schema/schema-0", lambda path: path.write_text("[]")), "schema-0"),
    "manifest": (_damage("manifest/manifest-*-0", lambda path: path.unlink()), "is missing"),
    "list": (_damage("manifest/manifest-list-*", lambda path: path.write_bytes(b"")), "bytes"),
    "option": (_damage("schema/schema-0", _alter_schema(target_file_size="many")), "many"),
    "consumer": (
        lambda table: table.table_files.fs.write_bytes(table.table_files.paths.consumer("x"), b""),
        "consumer",
    ),
}


@pytest.mark.parametrize("bad", BAD_TABLES)
def test_a_bad_table_has_a_problem_and_hides_no_other(unchecked_catalog: Catalog, bad: str) -> None:
    for name in ("a", "bad", "c"):
        appended(unchecked_catalog, f"db.{name}")
    damage, told = BAD_TABLES[bad]
    damage(unchecked_catalog.table("db.bad"))
    found = surveyed(unchecked_catalog)
    assert list(found) == ["db.a", "db.bad", "db.c"]
    problem = found["db.bad"].problem
    assert problem is not None
    assert told in problem
    assert found["db.bad"].files.files == 0
    assert found["db.a"].files.files == found["db.c"].files.files == 3


def test_a_table_of_a_later_version_is_read_only(unchecked_catalog: Catalog) -> None:
    table = appended(unchecked_catalog)

    def later(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), "fromTheFuture": 1}))

    _damage("snapshot/snapshot-*", later)(table)
    found = surveyed(unchecked_catalog)["db.t"]
    assert found.problem is None
    assert found.read_only is not None
    assert "fromTheFuture" in found.read_only
    assert found.files.files == 3


def test_a_table_with_a_fallback_branch_is_surveyed_and_shown_as_one_that_is_read(
    unchecked_catalog: Catalog,
) -> None:
    table = appended(unchecked_catalog)
    table.history.create_branch("side")
    _damage("schema/schema-0", _alter_schema(scan__fallback_branch="side"))(table)
    found = surveyed(unchecked_catalog)["db.t"]
    assert (found.problem, found.read_only, found.files.files) == (None, None, 3)
    table = unchecked_catalog.table("db.t")
    assert "read" not in report_table(table).refused
    assert table.read().num_rows
    with pytest.raises(UnsupportedError, match="the table cannot be read in this way"):
        table.at(snapshot=1).read()


def test_a_verb_that_is_refused_leaves_the_others(unchecked_catalog: Catalog) -> None:
    table = appended(unchecked_catalog)
    _damage("schema/schema-0", _alter_schema(clustering__incremental="true"))(table)
    found = surveyed(unchecked_catalog)["db.t"]
    assert (found.problem, found.read_only) == (None, None)
    assert "compact" in found.refused
    assert "expire" not in found.refused
    assert "clustering.incremental" in found.refused["compact"]
    assert found.sorts


def test_a_format_table_is_told_and_left_alone(catalog: Catalog) -> None:
    catalog.create_format_table("db.plain", {"id": "BIGINT"})
    found = surveyed(catalog)["db.plain"]
    assert (found.kind, found.problem) == (catalog.table("db.plain").schema.options["type"], None)
    assert found.read_only is not None
    assert "without snapshots" in found.read_only


def test_surveys_come_in_the_order_of_names_and_folders_that_are_no_table_are_left_out(
    catalog: Catalog,
) -> None:
    for name in ("z.b", "a.z", "z.a"):
        appended(catalog, name, times=1)
    (Path(catalog.root) / "z.db" / "folder").mkdir()
    looked: list[int] = []
    started: list[int] = []
    found = surveyed(catalog, started=started.append, looked=lambda: looked.append(1), workers=3)
    assert list(found) == ["a.z", "z.a", "z.b"]
    assert (started, len(looked)) == ([4], 4)
    assert list(surveyed(catalog, pattern="z.*")) == ["z.a", "z.b"]


@pytest.mark.parametrize("workers", [1, 8])
def test_a_survey_writes_nothing(catalog: Catalog, workers: int) -> None:
    table_of_everything(catalog)
    appended(catalog, "db.other")
    fs = WatchedFiles(catalog.fs)
    found = surveyed(replace(catalog, fs=fs), worst=3, workers=workers)
    assert len(found) == 2
    assert not fs.changes
    assert not any(each.name == "open_input" for each in fs.calls), "a data file was opened"


def test_equal_warehouses_have_equal_surveys(catalog: Catalog, env: FixedEnv) -> None:
    table_of_everything(catalog)
    appended(catalog, "db.other")
    first, second = surveyed(catalog, worst=5), surveyed(catalog, worst=5, workers=1)
    same = {name: replace(each, taken_ms=first[name].taken_ms) for name, each in second.items()}
    assert same == first


def test_an_expiry_that_takes_the_snapshot_meanwhile_is_outlived(catalog: Catalog) -> None:
    table = appended(catalog, times=3)
    seen, fs = watched(table)
    done: list[int] = []

    def expired(call: object) -> None:
        path = getattr(call, "path", "")
        if not done and "/manifest/manifest-list-" in path:
            done.append(1)
            compact(table, full=True)
            expire(table, keep=1)

    fs.before = expired
    found = survey_table(seen)
    assert done
    assert found.problem is None
    assert found.files.files == len(table.at().files())


def test_a_survey_of_the_past_has_the_partition_keys_of_its_time(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=["day"])
    for _ in range(2):
        first = table.write(rows(table, events(0, 2, day="a"))).snapshot
    assert first is not None
    table.upkeep.respec(["id"])
    found = survey_snapshot(catalog.table("db.t"), first, worst=2)
    assert (found.partition_keys, [each.spec for each in found.worst]) == (("day",), [{"day": "a"}])
    latest = catalog.table("db.t").history.latest_snapshot()
    assert latest is not None
    assert survey_snapshot(catalog.table("db.t"), latest).partition_keys == ("id",)


def test_files_of_former_partition_keys_are_told_with_what_ends_them(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=["day"])
    table.write(rows(table, events(0, 2, day="a")))
    opened = catalog.table("db.t")
    # Two files, so that its partition is one to join, of which the survey has the health.
    late = [opened.stage(rows(opened, events(each, each + 1, day="a"))) for each in (3, 5)]
    table.upkeep.respec(["day", "id"])
    for each in late:
        commit_late(opened, each)
    found = survey_table(catalog.table("db.t"), worst=9)
    assert (found.problem, found.has_other_keys) == (None, True)
    assert {"day": "a"} in [each.spec for each in found.worst]
    (told,) = [each for each in findings(found) if "other partition keys" in each]
    assert "`lakewright respec db.t --keys day,id`" in told
    users = [each.commit_user for each in catalog.table("db.t").history.snapshots()[-2:]]
    assert {each.commit_user for each in found.late_writers} == set(users)
    assert all(f"commit user {each} (1 commit since 2024" in told for each in users)
    assert "restart that writer" in told
    catalog.table("db.t").upkeep.respec(["day", "id"])
    found = survey_table(catalog.table("db.t"))
    assert not found.has_other_keys
    assert not any("other partition keys" in each for each in findings(found))
    expire(catalog.table("db.t"))
    remove_orphans(catalog.table("db.t"))
