"""Recording: each verb that is carried out leaves an action, and never fails for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from lakewright.platform.ingest.validate_schema import VALIDATE_SCHEMA, ValidateRun
from lakewright.platform.ledger import kept_verbs
from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.calibrate import modelled_ms
from lakewright.platform.ledger.ledger import LEDGER, Ledger
from lakewright.platform.ledger.past import LedgerPast
from lakewright.platform.ledger.recording import LEDGER_VARIABLE, Recorder
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.upkeep.clean import REMOVE_ORPHANS, OrphansOptions
from lakewright.platform.upkeep.compact import COMPACT, CompactRun
from lakewright.platform.upkeep.evolve import EvolveOptions, evolution_to
from lakewright.platform.upkeep.expire import EXPIRE_SNAPSHOTS, ExpireSnapshotsRun
from lakewright.platform.upkeep.measures import Benefit, Cost, Measures
from lakewright.platform.upkeep.procedure import AnyProcedure, Outcome, Work
from lakewright.platform.upkeep.procedures import PROCEDURES
from lakewright.storage import Catalog, LeaseKind, Table
from lakewright.storage.errors import InvalidRequestError, LeaseHeld, UnavailableError
from lakewright.storage.operations.leases.leases import LeaseRequest, acquire_lease, whole_table
from tests.support.tables.builders import events, new_table, rows, with_options
from tests.unit.platform.upkeep.test_procedure import CASES, Case, appended


def no_session() -> NoReturn:
    raise AssertionError("small work starts no Spark session")


WORK = Work(run="a run", session=no_session)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made = new_table(catalog, partitions=("day",))
    for at in range(3):
        made.write(rows(made, events(at, at + 1)))
    return made


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def recorder(catalog: Catalog, warnings: list[str]) -> Recorder:
    return Recorder.of(catalog, warn=warnings.append, make=True)


def only(catalog: Catalog) -> Action:
    (action,) = Ledger(catalog).actions()
    return action


def test_an_action_says_what_was_foreseen_and_what_came_of_it(
    catalog: Catalog, table: Table, recorder: Recorder, warnings: list[str]
) -> None:
    bytes_before = sum(each.file.file_size for each in table.at().files())

    recorder.carry_out(COMPACT, table, CompactRun(min_files=2), WORK)

    action = only(catalog)
    bytes_after = sum(each.file.file_size for each in table.at().files())
    assert action.predicted_cost is not None
    foreseen = action.predicted_cost.bytes_written
    assert bytes_after / 2 < foreseen < 2 * bytes_after
    planned = Cost(bytes=bytes_before, files=3, bytes_written=foreseen)
    assert action == Action(
        id=action.id,
        run="a run",
        table=table.name,
        table_uuid=table.uuid,
        verb="compact",
        started_ms=action.started_ms,
        ended_ms=action.ended_ms,
        verdict=Verdict.DONE,
        summary=action.summary,
        options={"min_files": 2},
        snapshot_before=3,
        snapshot_after=4,
        predicted_cost=replace(planned, milliseconds=round(modelled_ms(planned))),
        predicted_benefit=Benefit(files_fewer=2, bytes_fewer=bytes_before - foreseen),
        cost=Cost(
            bytes=bytes_before,
            files=3,
            milliseconds=action.ended_ms - action.started_ms,
            bytes_written=bytes_after,
        ),
        benefit=Benefit(files_fewer=2, bytes_fewer=bytes_before - bytes_after),
        snapshots=(4,),
    )
    assert "3 files became 1" in action.summary
    assert action.started_ms < action.ended_ms
    assert not warnings


def test_later_predictions_learn_from_the_runs_of_the_ledger(
    catalog: Catalog, table: Table, recorder: Recorder
) -> None:
    for run in range(4):
        recorder.carry_out(COMPACT, table, CompactRun(full=True), WORK)
        for at in range(3):
            table.write(rows(table, events(10 * run + at, 10 * run + at + 1)))

    first, *_, last = (each for each in Ledger(catalog).actions() if each.predicted_cost)

    assert first.predicted_cost is not None
    assert last.predicted_cost is not None
    assert first.predicted_cost.bytes_written < first.cost.bytes
    off = abs(last.predicted_cost.bytes_written - last.cost.bytes_written)
    assert off < last.cost.bytes_written / 2
    assert last.cost.bytes_written < last.cost.bytes / 2


def test_what_the_caller_foresaw_is_recorded_and_the_plan_says_the_rest(
    catalog: Catalog, table: Table, recorder: Recorder
) -> None:
    foreseen = Measures(cost=Cost(bytes=7), benefit=Benefit(runs_fewer=2))

    replace(recorder, reason="3 small files", predicted=foreseen).carry_out(
        COMPACT, table, CompactRun(min_files=2), WORK
    )

    action = only(catalog)
    assert action.reason == "3 small files"
    assert action.predicted_cost is not None
    assert action.predicted_benefit is not None
    written = action.predicted_cost.bytes_written
    assert 0 < written < action.cost.bytes
    assert action.predicted_cost == Cost(bytes=7, files=3, bytes_written=written)
    assert action.predicted_benefit.runs_fewer == action.predicted_benefit.files_fewer == 2


EVOLVE = evolution_to(
    TableDeclaration.model_validate(
        {
            "table": "db.t",
            "columns": [{"name": "id", "type": "BIGINT NOT NULL"}],
            "source": {"parquet": "rows.parquet"},
        }
    )
)


@pytest.mark.parametrize(
    ("verb", "case"),
    [
        *((PROCEDURES[each.verb], each) for each in CASES),
        (EVOLVE, Case("evolve_schema", appended, EvolveOptions(add=("w INT",)))),
    ],
    ids=[*(f"{each.verb}-{each.table.__name__}" for each in CASES), "evolve_schema"],
)
@pytest.mark.sampled(12)
def test_every_verb_that_changes_a_table_leaves_an_action(
    unchecked_catalog: Catalog, warnings: list[str], verb: AnyProcedure, case: Case
) -> None:
    recorder = Recorder.of(unchecked_catalog, warn=warnings.append, make=True)
    made = case.table(unchecked_catalog)

    recorder.carry_out(verb, made, case.options_for(made), WORK)

    action = only(unchecked_catalog)
    assert (action.verb, action.table, action.run) == (case.verb, made.name, "a run")
    assert (action.verdict, action.error) == (Verdict.DONE, None)
    assert action.id
    assert action.predicted_cost is not None
    assert action.predicted_cost.milliseconds > 0
    assert action.predicted_benefit is not None
    assert action.cost.milliseconds > 0
    assert action.summary
    assert not warnings


def test_a_verb_without_work_is_recorded_and_a_dry_run_or_a_check_is_not(
    catalog: Catalog, table: Table, recorder: Recorder
) -> None:
    recorder.carry_out(COMPACT, table, CompactRun(), WORK, dry_run=True)
    recorder.carry_out(VALIDATE_SCHEMA, table, ValidateRun(), WORK)
    assert not Ledger(catalog).exists()

    recorder.carry_out(COMPACT, table, CompactRun(min_files=50), WORK)

    assert only(catalog).verdict is Verdict.NOTHING_TO_DO


def test_what_a_removal_of_orphans_condemned_is_recorded(
    catalog: Catalog, table: Table, recorder: Recorder
) -> None:
    table.stage(rows(table, events(7, 8)))

    recorder.carry_out(
        REMOVE_ORPHANS, table, OrphansOptions(older_than_ms=0, even_recent=True), WORK
    )

    assert only(catalog).condemned == tuple(each.id for each in table.upkeep.condemned()) != ()
    assert only(catalog).cost.files == 1
    assert only(catalog).benefit.bytes_freed == 0


def test_a_run_that_fails_halfway_is_recorded_with_what_it_did(
    catalog: Catalog, table: Table, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_TOKEN", "open-sesame")
    steps = 0

    def fail(_: Outcome[object, object, object]) -> None:
        nonlocal steps
        steps += 1
        if steps == 2:
            raise UnavailableError("no answer from s3://me:word@host with open-sesame")

    table = with_options(table, snapshot__expire__limit="1")
    goes = ExpireSnapshotsRun(retain_min=1, retain_max=1, time_retained_ms=0)
    with pytest.raises(UnavailableError):
        recorder.carry_out(EXPIRE_SNAPSHOTS, table, goes, WORK, stepped=fail)

    action = only(catalog)
    assert action.verdict is Verdict.FAILED
    # The name under which decisions ask for it.
    assert action.verb == kept_verbs.EXPIRE_SNAPSHOTS
    assert action.error == "UnavailableError: no answer from s3://***@host with ***"
    assert action.benefit.snapshots_fewer == 2
    assert action.predicted_benefit is not None
    assert action.predicted_benefit.snapshots_fewer == 2


def test_a_run_that_gives_way_to_another_process_is_beaten(
    catalog: Catalog, table: Table, recorder: Recorder
) -> None:
    scope = whole_table(table.table_files)
    acquire_lease(
        table.table_files,
        LeaseRequest(kind=LeaseKind.COMPACT, scope=scope, holder="another", owner="another"),
    )

    with pytest.raises(LeaseHeld):
        recorder.carry_out(COMPACT, table, CompactRun(min_files=2), WORK)

    assert only(catalog).verdict is Verdict.BEATEN
    assert "another" in (only(catalog).error or "")
    for lease in table.upkeep.leases():
        table.upkeep.break_lease(lease.id)


def test_a_request_that_is_wrong_is_no_action(
    catalog: Catalog, table: Table, recorder: Recorder
) -> None:
    with pytest.raises(InvalidRequestError):
        recorder.carry_out(COMPACT, table, CompactRun(min_files=0), WORK)

    assert not Ledger(catalog).exists()


def read_only(catalog: Catalog) -> None:
    """A folder of the ledger's database in which nothing can be made: a file has its name."""
    Path(catalog.root, "lakewright.db").write_text("")


def of_another(catalog: Catalog) -> None:
    catalog.create_table(LEDGER, {"id": "INT"})


@pytest.mark.parametrize("spoil", [read_only, of_another])
def test_a_ledger_that_cannot_be_written_is_a_warning_and_the_work_is_done(
    catalog: Catalog,
    table: Table,
    recorder: Recorder,
    warnings: list[str],
    spoil: Callable[[Catalog], None],
) -> None:
    spoil(catalog)

    outcome = recorder.carry_out(COMPACT, table, CompactRun(min_files=2), WORK)

    assert outcome.result is not None
    assert len(table.at().files()) == 1
    (warning,) = warnings
    assert warning.startswith(f"compact of {table.name} is not recorded: ")


def test_the_compaction_of_the_ledger_is_recorded_in_it(
    catalog: Catalog, table: Table, recorder: Recorder, warnings: list[str]
) -> None:
    for _ in range(3):
        recorder.carry_out(COMPACT, table, CompactRun(), WORK)
    ledger = catalog.table(LEDGER)

    recorder.carry_out(COMPACT, ledger, CompactRun(min_files=2), WORK)

    last = Ledger(catalog).actions(table=LEDGER)
    assert [each.verdict for each in last] == [Verdict.DONE]
    assert len(Ledger(catalog).actions()) == 4
    assert not warnings


@pytest.mark.parametrize(
    ("said", "there", "records"),
    [
        (None, False, False),
        (None, True, True),
        ("auto", True, True),
        ("on", False, True),
        ("off", True, False),
    ],
)
def test_the_ledger_is_used_where_it_exists_unless_the_variable_says_otherwise(
    catalog: Catalog,
    table: Table,
    monkeypatch: pytest.MonkeyPatch,
    said: str | None,
    there: bool,
    records: bool,
) -> None:
    monkeypatch.delenv(LEDGER_VARIABLE, raising=False)
    if said is not None:
        monkeypatch.setenv(LEDGER_VARIABLE, said)
    if there:
        Ledger(catalog).create()

    Recorder.of(catalog, warn=pytest.fail).carry_out(COMPACT, table, CompactRun(), WORK)

    assert len(Ledger(catalog).actions()) == records


def test_another_value_of_the_variable_is_refused(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LEDGER_VARIABLE, "yes")

    with pytest.raises(InvalidRequestError, match="neither on, off nor auto"):
        Recorder.of(catalog, warn=pytest.fail)


def test_what_a_decision_asked_for_is_recorded_also_if_its_plan_is_refused(
    catalog: Catalog, table: Table, recorder: Recorder
) -> None:
    asked = replace(recorder, state="a state")
    with pytest.raises(InvalidRequestError):
        asked.carry_out(COMPACT, table, CompactRun(min_files=0), WORK)

    assert only(catalog).verdict is Verdict.FAILED
    past = LedgerPast(Ledger(catalog)).past(day_begins_ms=0)
    tried = past.tries[table.name, "compact"]
    assert (tried.state, tried.times) == ("a state", 1)
    assert tried.error == (
        "InvalidRequestError: min_files (--min-files) is 0; compaction needs at least 2"
    )
