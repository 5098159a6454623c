"""What all verbs that write files anew do alike: what they check, leave out, commit and leave."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from lakewright.storage import Catalog, LeaseKind, LocalEngine, Table
from lakewright.storage.errors import FileMissing, StalePlan, UnavailableError, UnsupportedError
from lakewright.storage.operations.leases.leases import LeaseRequest, leased, scope_of, whole_table
from lakewright.storage.operations.running.engine import Result, Task
from lakewright.storage.spec.data_types import parse_data_type
from lakewright.storage.upkeep import Upkeep
from tests.support.stores.watched_files import Call, WatchedFiles, interrupted, watched
from tests.support.tables.builders import events, expire, new_table, rows
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.tables.meddling import Meddling

DAYS = ("a", "b", "c")
KEYED: dict[str, Any] = {"keys": ("day", "id")}


@dataclass(frozen=True)
class Verb:
    """A verb, and the table it is for."""

    settings: dict[str, Any]
    plan: Callable[[Table], Any]
    run: Callable[..., Any]

    def table(self, catalog: Catalog, **options: str) -> Table:
        """Three days of two commits each."""
        settings = {**self.settings, "options": {**self.settings.get("options", {}), **options}}
        created = new_table(catalog, partitions=("day",), **settings)
        for version in ("one", "two"):
            for day in DAYS:
                created.write(rows(created, events(0, 5, day=day, v=version)))
        return created


VERBS = {
    "compact": Verb({}, lambda table: table.upkeep.plan_compact(full=True), Upkeep.run),
    "sort": Verb({}, lambda table: table.upkeep.plan_sort_compact(["id"]), Upkeep.run),
    "rescale": Verb(
        {**KEYED, "options": {"bucket": "2"}},
        lambda table: table.upkeep.plan_rescale(3, [{}]),
        Upkeep.run,
    ),
    "give buckets": Verb(
        {**KEYED, "options": {"bucket": "-2", "postpone.default-bucket-num": "2"}},
        lambda table: table.upkeep.plan_postpone_compact(),
        Upkeep.run,
    ),
}


@pytest.fixture(params=VERBS)
def verb(request: pytest.FixtureRequest) -> Verb:
    return VERBS[request.param]


def dropped(result: Any) -> int:
    """How many planned tasks a result says were left out."""
    return int(result.dropped_tasks) if hasattr(result, "dropped_tasks") else len(result.dropped)


def overwrite(table: Table, *days: str) -> None:
    for day in days:
        new = rows(table, events(50, 53, day=day, v="new"))
        table.write(new, mode="overwrite", partition={"day": day})


# --- what a plan is checked against -------------------------------------------------------------


def first_manifest(call: Call) -> bool:
    return call.name == "read_bytes" and "/manifest/" in call.path


@pytest.mark.parametrize("moment", ["planned", "run"])
def test_a_snapshot_that_expires_while_it_is_read_is_read_anew(
    catalog: Catalog, verb: Verb, moment: str
) -> None:
    table = verb.table(catalog)
    plan = verb.plan(table)

    def move_on() -> None:
        table.write(rows(table, events(0, 1, day="d")))
        expire(table, keep=1)

    slower, fs = interrupted(table, when=first_manifest, meanwhile=move_on)
    if moment == "planned":
        plan = verb.plan(slower)
        slower = table
    assert dropped(verb.run(slower.upkeep, plan)) == 0
    assert fs.has_happened
    assert_only_reachable_files(table)


def test_files_that_go_while_they_are_read_make_the_plan_stale(
    catalog: Catalog, verb: Verb
) -> None:
    table = verb.table(catalog)

    def replace_and_expire() -> None:
        overwrite(table, *DAYS)
        expire(table, keep=1)

    with pytest.raises(StalePlan, match="were deleted while they were read"):
        verb.run(table.upkeep, verb.plan(table), Meddling(before=replace_and_expire))
    assert_only_reachable_files(table)


def test_a_file_that_is_missing_for_no_reason_is_no_stale_plan(
    unchecked_catalog: Catalog, verb: Verb
) -> None:
    table = verb.table(unchecked_catalog)
    plan = verb.plan(table)
    entry = table.at().files()[-1]
    table.table_files.fs.delete(table.table_files.data_file_path(entry.place, entry.file))
    with pytest.raises(FileMissing):
        verb.run(table.upkeep, plan)


def test_own_commits_are_no_reason_why_a_file_is_missing(unchecked_catalog: Catalog) -> None:
    """Each day makes up a round of its own, and the file of the last day is damaged."""
    table = new_table(
        unchecked_catalog, partitions=("day",), keys=("day", "id"), options={"bucket": "64"}
    )
    for day in ("a", "b"):
        table.write(rows(table, events(0, 1, day=day)))
    plan = table.upkeep.plan_rescale(128, [{}])
    (entry,) = [each for each in table.at().files() if b"b" in each.partition]
    path = table.table_files.data_file_path(entry.place, entry.file)
    with pytest.raises(FileMissing):
        table.upkeep.run(plan, Meddling(before=lambda: table.table_files.fs.delete(path)))


@pytest.mark.parametrize("name", ["rescale", "give buckets"])
def test_files_whose_key_had_another_type_are_not_written_anew(
    unchecked_catalog: Catalog, name: str
) -> None:
    verb = VERBS[name]
    table = verb.table(unchecked_catalog)
    fields = tuple(
        replace(each, type=parse_data_type("INT NOT NULL")) if each.name == "id" else each
        for each in table.schema.fields
    )
    table.table_files.schemas.put_schema(replace(table.schema, id=1, fields=fields))
    later = unchecked_catalog.table(table.name)
    plan = verb.plan(table)
    with pytest.raises(UnsupportedError, match="primary key 'id' has the type INT"):
        verb.plan(later)
    with pytest.raises(UnsupportedError, match="primary key 'id' has the type INT"):
        verb.run(later.upkeep, replace(plan, schema_id=1) if hasattr(plan, "schema_id") else plan)


# --- what others beat ---------------------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize("days", [("b",), DAYS], ids=["one of three", "all"])
def test_what_others_beat_is_left_out_and_told(
    catalog: Catalog, verb: Verb, days: tuple[str, ...]
) -> None:
    table = verb.table(catalog)
    result = verb.run(
        table.upkeep, verb.plan(table), Meddling(after=lambda: overwrite(table, *days))
    )
    assert dropped(result) == len(days)
    assert_only_reachable_files(table)


def test_a_store_that_fails_while_losses_are_deleted_takes_nothing_back(
    unchecked_catalog: Catalog, verb: Verb
) -> None:
    table = verb.table(unchecked_catalog)
    plan = verb.plan(table)
    beaten: list[str] = []
    failing, fs = watched(
        table, fail_at=1, counts=lambda call: bool(beaten) and call.name == "delete"
    )

    def beat() -> None:
        overwrite(table, "b")
        beaten.append("b")

    result = verb.run(failing.upkeep, plan, Meddling(after=beat))
    assert fs.failed is not None
    assert dropped(result) == 1


def test_a_day_that_was_given_up_before_its_turn_is_not_even_read(
    catalog: Catalog, verb: Verb
) -> None:
    table = verb.table(catalog)
    plan = verb.plan(table)

    def want_the_last_day() -> None:
        scope = scope_of(table.table_files, [{"day": "c"}])
        with leased(
            table.table_files, LeaseRequest(kind=LeaseKind.OVERWRITE, scope=scope, holder="x")
        ):
            pass

    slower, fs = interrupted(
        table,
        when=lambda call: call.name == "open_output" and "/bucket-" in call.path,
        meanwhile=want_the_last_day,
    )
    with holding(table) as lease:
        result = verb.run(slower.upkeep, plan, LocalEngine(env=table.table_files.env), lease=lease)
    assert dropped(result) == 1
    assert [call for call in fs.calls if "day=a" in call.path]
    assert not [call for call in fs.calls if "day=c" in call.path]


def holding(table: Table) -> Any:
    request = LeaseRequest(
        kind=LeaseKind.RESCALE, scope=whole_table(table.table_files), holder="upkeep"
    )
    return leased(table.table_files, request)


# --- rounds -------------------------------------------------------------------------------------


@dataclass
class Failing:
    """An engine that fails when it is asked for the second time."""

    asked: int = 0
    most: int = 0
    name: str = "failing"
    may_repeat: bool = False

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        self.asked += 1
        self.most = max(self.most, len(tasks))
        if self.asked == 2:
            raise UnavailableError("the cluster is gone")
        return [function(task) for task in tasks]


@pytest.mark.parametrize("name", ["rescale", "give buckets"])
def test_partitions_are_committed_round_by_round_and_stay_when_a_later_round_fails(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from lakewright.storage.operations.rewrite import runner

    verb = VERBS[name]
    table = verb.table(catalog)
    monkeypatch.setattr(runner, "_JOBS_AT_ONCE", 2)
    engine = Failing()
    with pytest.raises(UnavailableError, match="the cluster is gone"):
        verb.run(table.upkeep, verb.plan(table), engine)
    assert engine.most == 2
    assert len(verb.plan(table).tasks) == 1
    assert_only_reachable_files(table)


# --- what follows a commit, and where the work runs ---------------------------------------------


def test_a_rewrite_moves_the_automatic_tag_of_a_batch(catalog: Catalog, verb: Verb) -> None:
    table = verb.table(catalog, **{"tag.automatic-creation": "batch"})
    verb.run(table.upkeep, verb.plan(table))
    latest = table.history.latest_snapshot()
    assert latest is not None
    assert [tag.snapshot.id for tag in table.history.tags()] == [latest.id]


def test_without_an_engine_a_rewrite_takes_as_many_cores_as_its_environment_has(
    catalog: Catalog, verb: Verb
) -> None:
    table = verb.table(catalog)
    plan = verb.plan(table)
    seen: set[int] = set()

    class Threads(WatchedFiles):
        def run(self, name: str, path: str, *effects: Any) -> Any:
            seen.add(threading.get_ident())
            return super().run(name, path, *effects)

    verb.run(Table(replace(table.table_files, fs=Threads(table.table_files.fs))).upkeep, plan)
    assert seen == {threading.get_ident()}
