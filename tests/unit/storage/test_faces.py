"""The faces of a table: one call for each verb, metadata as rows, and how they show themselves."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from pathlib import Path

import pytest

from lakewright.storage import AddColumn, Catalog, Table
from lakewright.storage.errors import FileMissing, InvalidRequestError, StorageError
from lakewright.storage.history import History
from lakewright.storage.inspection import Inspection
from lakewright.storage.operations.inspection.system_tables import READ_OPTIMIZED, ROW_TRACKING
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.upkeep import Upkeep
from tests.support.tables.builders import events, new_table, remove_orphans, rows, values_of

Verb = Callable[..., object]


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Three snapshots in two buckets."""
    table = new_table(catalog, partitions=["day"], keys=["day", "id"], options={"bucket": "2"})
    for number in range(3):
        table.write(rows(table, events(number, number + 4)))
    return table


def verbs(face: Upkeep | History) -> dict[str, Verb]:
    """What has a plan and a run beneath it, by name."""
    names = {each.removeprefix("plan_") for each in dir(face) if each.startswith("plan_")}
    return {name: getattr(face, name) for name in sorted(names)}


def test_every_verb_is_one_call_that_takes_what_its_plan_takes(table: Table) -> None:
    faces: tuple[Upkeep | History, ...] = (table.upkeep, table.history)
    for face in faces:
        for name, verb in verbs(face).items():
            planned = signature(getattr(face, f"plan_{name}")).parameters
            taken = signature(verb).parameters
            assert list(planned) == [each for each in taken if each in planned], name
            for each, parameter in planned.items():
                assert taken[each].default == parameter.default, f"{name}: {each}"
            assert taken["dry_run"].default is False, name


FAILING: dict[str, Callable[[Table], object]] = {
    "a verb": lambda table: table.upkeep.rescale(0),
    "a plan": lambda table: table.history.plan_rollback(snapshot=99, grace_ms=0),
    "a read": lambda table: table.read("no_such_column = 1"),
    "a state": lambda table: table.at(snapshot=99),
    "a system table": lambda table: table.inspect.table("no_such_table"),
}


@pytest.mark.parametrize("case", FAILING)
def test_an_error_of_a_face_says_which_table_it_is_about(table: Table, case: str) -> None:
    with pytest.raises(StorageError) as caught:
        FAILING[case](table)
    assert caught.value.table == table.name


def test_an_error_amid_a_stream_of_rows_says_which_table_it_is_about(table: Table) -> None:
    scan = table.scan()
    files = [*Path(table.location.removeprefix("file://")).rglob("data-*.parquet")]
    for path in files:
        path.rename(path.with_suffix(".away"))
    with pytest.raises(FileMissing) as caught:
        list(scan.batches())
    for path in files:
        path.with_suffix(".away").rename(path)
    assert caught.value.table == table.name


VERBS: dict[str, Verb] = {
    "compact": lambda table, **how: table.upkeep.compact(full=True, **how),
    "rescale": lambda table, **how: table.upkeep.rescale(3, **how),
    "expire": lambda table, **how: table.upkeep.expire_snapshots(
        retain_min=1, retain_max=1, time_retained_ms=0, **how
    ),
    "orphans": lambda table, **how: table.upkeep.remove_orphans(
        older_than_ms=0, even_recent=True, **how
    ),
    "analyze": lambda table, **how: table.upkeep.analyze(**how),
    "rollback": lambda table, **how: table.history.rollback(snapshot=2, **how),
    "tags": lambda table, **how: table.history.delete_tags("t", **how),
    "branch": lambda table, **how: table.history.delete_branch("b", **how),
    "forward": lambda table, **how: table.history.fast_forward("b", **how),
}


def paths_of(table: Table) -> set[str]:
    return {each.path for each in table.table_files.fs.list_tree(table.table_files.paths.root)}


@pytest.mark.parametrize("verb", VERBS)
def test_a_dry_run_returns_the_plan_and_changes_nothing(table: Table, verb: str) -> None:
    table.history.create_branch("b", snapshot=2)
    table.history.create_tag("t", snapshot=1)
    branch = table.history.at_branch("b")
    branch.write(rows(branch, events(20, 21)))
    table.stage(rows(table, events(30, 31)))
    before = paths_of(table)
    assert isinstance(VERBS[verb](table, dry_run=True), Plan)
    assert paths_of(table) == before
    assert not isinstance(VERBS[verb](table), Plan)
    assert paths_of(table) != before
    remove_orphans(table)


def test_files_are_condemned_and_put_back_in_one_call_each(table: Table) -> None:
    staged = table.stage(rows(table, events(50, 51)))
    table.upkeep.remove_orphans(older_than_ms=0, even_recent=True)
    (run,) = table.upkeep.condemned()
    table.upkeep.put_back(run.id)
    table.commit(staged)
    assert 50 in values_of(table, "id")
    table.stage(rows(table, events(60, 61)))
    table.upkeep.remove_orphans(older_than_ms=0, even_recent=True)
    assert table.upkeep.collect(early=True).files_deleted == 1
    assert table.upkeep.condemned() == ()


def test_a_plan_for_another_table_is_refused(table: Table, catalog: Catalog) -> None:
    other = new_table(catalog, name="db.other")
    with pytest.raises(InvalidRequestError, match=r"the plan is for db\.t, and this is db\.other"):
        other.upkeep.run(table.upkeep.plan_compact(full=True))
    with pytest.raises(InvalidRequestError, match=r"the plan is for db\.t, and this is db\.other"):
        other.history.run(table.history.plan_rollback(snapshot=2, grace_ms=0))


def test_every_system_table_has_a_method(table: Table) -> None:
    for name in table.inspect.names:
        method = "read_optimized" if name == READ_OPTIMIZED else name
        if name == ROW_TRACKING:
            with pytest.raises(InvalidRequestError, match="does not track rows"):
                table.inspect.row_tracking()
            continue
        named = getattr(table.inspect, method)()
        assert named.equals(table.inspect.table(name)), name
    assert isinstance(table.inspect, Inspection)


# --- in a REPL and a notebook -------------------------------------------------------------------


def test_a_table_shows_its_columns_and_keys_in_a_line(table: Table) -> None:
    assert repr(table) == (
        "<Table db.t: id BIGINT NOT NULL, day STRING NOT NULL, v STRING; partitioned by day; "
        f"key day, id; {table.location}>"
    )


def test_a_notebook_shows_a_table_with_what_its_owner_wrote_escaped(catalog: Catalog) -> None:
    table = catalog.create_table("db.odd", {"a<b": "INT"}, options={"mine": "<script>&"})
    shown = table._repr_html_()
    assert "a&lt;b" in shown
    assert "&lt;script&gt;&amp;" in shown
    assert "<script>" not in shown


def test_a_plan_of_many_files_shows_how_many_and_not_each(table: Table) -> None:
    for number in range(3, 12):
        table.write(rows(table, events(number, number + 4)))
    plan = table.upkeep.plan_expire_snapshots(
        retain_min=1, retain_max=1, time_retained_ms=0, grace_ms=0
    )
    assert repr(plan).startswith("ExpirePlan(table='db.t', files=")
    assert f"snapshot_ids=<{len(plan.snapshot_ids)} int>" in repr(plan)
    assert len(repr(plan)) < 1000
    shown = table.upkeep.plan_compact(full=True)._repr_html_()
    assert "<caption>tasks: 2</caption>" in shown
    assert shown.count("<table>") == shown.count("</table>") == 2
    result = table.upkeep.compact(full=True)
    assert repr(result).startswith("CompactionResult(files_before=")


def test_a_table_that_was_changed_elsewhere_is_refreshed(catalog: Catalog) -> None:
    table = new_table(catalog)
    assert table.refresh() is table
    catalog.table(table.name).alter(AddColumn("more", "STRING"))
    assert "more" not in table.schema.field_names
    assert "more" in table.refresh().schema.field_names
