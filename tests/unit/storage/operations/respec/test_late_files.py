"""Rows that clients commit to a primary-key table under the keys that it had before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakewright.storage import Catalog, StagedWrite, Table
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.operations.retention import expiry_range
from tests.support.stores.watched_files import Call, Crashed, WatchedFiles, looked_at
from tests.support.tables.builders import compact, content, expire, remove_orphans, rows
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.tables.late_commits import (
    commit_late,
    names_of_latest,
    remove_late,
    upgrade_late,
)
from tests.unit.storage.operations.respec.test_keyed import by_day, event, found, respec
from tests.unit.storage.operations.respec.test_staging import die_after

pytestmark = pytest.mark.mission("PT1", "PT3", "PT4")

LATE = [event("a", 1, 2, v="late", w=5), event("b", 2, 1, w=7), event("c", 1, 1, v="late", w=1)]
GONE = [event("a", 2, 0)]


def staged(table: Table, *, deletes: bool) -> StagedWrite:
    given = [*LATE, *GONE] if deletes else LATE
    kinds = ["+I"] * len(LATE) + ["-D"] * (len(given) - len(LATE))
    return table.stage(rows(table, given, kinds))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"merge_engine": "aggregation", "fields.w.aggregate-function": "sum"},
        {"merge_engine": "partial-update"},
        {"merge_engine": "partial-update", "fields.w.sequence-group": "v"},
        {"deletion_vectors.enabled": "true"},
        {"deletion_vectors.enabled": "true", "merge_engine": "partial-update"},
    ],
    ids=str,
)
@pytest.mark.parametrize("keys", [("dt", "hh"), (), ("hh",)], ids=str)
@pytest.mark.sampled(each="keys")
def test_late_rows_are_moved_as_if_they_had_been_committed_before_the_change(
    catalog: Catalog, keys: tuple[str, ...], options: dict[str, str]
) -> None:
    made = []
    for is_late in (False, True):
        place = replace(catalog, root=f"{catalog.root}/{is_late}")
        table = opened = by_day(place, **options)
        if "deletion_vectors.enabled" in options:
            # Rows that are replaced below level 0 have deletion vectors then.
            compact(table)
        late = staged(table, deletes="merge_engine" not in options)
        if is_late:
            table = respec(place, table, *keys)
            commit_late(opened, late)
            with pytest.raises(UnsupportedError, match=r"lakewright respec db\.t --keys"):
                table.read()
            with pytest.raises(UnsupportedError, match=r"lakewright respec db\.t --keys"):
                found(table, "a", 1, 2)
            # Also where the keys are others, and as many.
            with pytest.raises(UnsupportedError, match=r"lakewright respec db\.t --keys"):
                table.write(rows(table, [event("a", 1, 2, w=1)]))
            assert not table.upkeep.plan_respec(keys).changes_nothing
            table.upkeep.respec(keys)
            assert table.upkeep.plan_respec(keys).changes_nothing
            assert {each.partition_keys for each in [table.schema]} == {keys}
        else:
            table.commit(late)
        table.write(rows(table, [event("a", 1, 2, w=1), event("b", 2, 1, v="x", w=9)]))
        if "deletion_vectors.enabled" in options:
            # Readers of such tables see no row of level 0.
            compact(table)
        made.append(content(table))
        compact(table, full=True)
        assert content(table) == made[-1]
        # Snapshots of late files are refused, also later.
        expire(table)
        remove_orphans(table)
        assert_only_reachable_files(table)
    assert made[0] == made[1]


def test_late_rows_count_as_later_than_rows_that_were_committed_before_them(
    catalog: Catalog,
) -> None:
    table = opened = by_day(catalog)
    late = staged(table, deletes=True)
    table = respec(catalog, table, "dt", "hh")
    for number in range(5):
        table.write(rows(table, [event("a", 1, 2, v=f"ours {number}")]))
    commit_late(opened, late)
    table.upkeep.respec(["dt", "hh"])
    assert [each["v"] for each in found(table, "a", 1, 2)] == ["late"]
    table.write(rows(table, [event("a", 1, 2, v="later still")]))
    assert [each["v"] for each in found(table, "a", 1, 2)] == ["later still"]
    expire(table)


def test_late_rows_that_others_followed_are_refused_with_the_way_back(catalog: Catalog) -> None:
    table = opened = by_day(catalog)
    late = staged(table, deletes=True)
    table = respec(catalog, table, "dt", "hh")
    due, last = content(table), table.history.snapshots()[-1].id
    following = table.stage(rows(table, [event("a", 1, 2, v="new")]))
    commit_late(opened, late)
    commit_late(table, following)
    with pytest.raises(UnsupportedError, match=rf"lakewright rollback db\.t --snapshot {last}\)"):
        table.upkeep.respec(["dt", "hh"])
    table.history.rollback(snapshot=last, grace_ms=0)
    assert content(catalog.table(table.name)) == due
    remove_orphans(table)


@pytest.mark.parametrize("keys", [("dt", "hh"), (), ("hh",)], ids=str)
def test_of_several_late_commits_the_later_one_wins(
    catalog: Catalog, keys: tuple[str, ...]
) -> None:
    """Their writers began with the same numbers."""
    table = by_day(catalog)
    opened = [catalog.table(table.name) for _ in range(3)]
    late = [
        each.stage(rows(each, [event("a", 1, 2, v=f"late {number}"), event("b", number, 9)]))
        for number, each in enumerate(opened)
    ]
    table = respec(catalog, table, *keys)
    for number in (1, 0, 2):
        commit_late(opened[number], late[number])
    table.upkeep.respec(keys)
    assert [each["v"] for each in found(table, "a", 1, 2)] == ["late 2"]
    assert all(found(table, "b", number, 9) for number in range(3))
    table.write(rows(table, [event("a", 1, 2, v="last")]))
    assert [each["v"] for each in found(table, "a", 1, 2)] == ["last"]
    expire(table)
    remove_orphans(table)


def test_a_compaction_by_a_late_client_leaves_the_order_of_its_rows(catalog: Catalog) -> None:
    table = opened = by_day(catalog)
    first = opened.stage(rows(opened, [event("a", 1, 2, v="first")]))
    table = respec(catalog, table, "dt", "hh")
    commit_late(opened, first)
    names = names_of_latest(table)
    # Its second writer has seen the rows of the first one.
    commit_late(opened, opened.stage(rows(opened, [event("a", 1, 2, v="second")])))
    upgrade_late(opened, names)
    table.upkeep.respec(["dt", "hh"])
    assert [each["v"] for each in found(table, "a", 1, 2)] == ["second"]
    expire(table)
    remove_orphans(table)


def test_late_rows_that_were_moved_before_are_no_matter_of_later_ones(catalog: Catalog) -> None:
    table = opened = by_day(catalog)
    first = opened.stage(rows(opened, [event("a", 1, 2, v="first")]))
    second = opened.stage(rows(opened, [event("a", 1, 3, v="second")]))
    table = respec(catalog, table, "dt", "hh")
    commit_late(opened, first)
    table.upkeep.respec(["dt", "hh"])
    table.write(rows(table, [event("a", 1, 2, v="ours")]))
    commit_late(opened, second)
    upgrade_late(opened, names_of_latest(table))
    table.upkeep.respec(["dt", "hh"])
    assert [each["v"] for each in found(table, "a", 1, 2)] == ["ours"]
    assert [each["v"] for each in found(table, "a", 1, 3)] == ["second"]
    expire(table)
    remove_orphans(table)


def test_a_late_compaction_of_rows_from_before_a_follower_is_refused_though_their_commit_is_gone(
    unchecked_catalog: Catalog,
) -> None:
    table = opened = by_day(unchecked_catalog)
    late = opened.stage(rows(opened, [event("a", 1, 2, v="late")]))
    table = respec(unchecked_catalog, table, "dt", "hh")
    following = table.stage(rows(table, [event("a", 1, 2, v="newest")]))
    commit_late(opened, late)
    names = names_of_latest(table)
    commit_late(table, following)
    upgrade_late(opened, names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expiry_range, "needed_from", lambda *_: None)
        expire(table, keep=2)
    with pytest.raises(UnsupportedError, match="--late-rows-win"):
        table.upkeep.respec(["dt", "hh"])


def test_a_late_file_that_went_again_bars_no_later_write(catalog: Catalog) -> None:
    """Its manifest still has the schema of other keys, as many as the present ones."""
    table = opened = by_day(catalog)
    late = opened.stage(rows(opened, [event("a", 1, 2, v="late")]))
    table = respec(catalog, table, "hh")
    due = content(table)
    commit_late(opened, late)
    remove_late(opened, names_of_latest(table))
    table = catalog.table(table.name)
    assert content(table) == due
    table.write(rows(table, [event("a", 1, 2, v="x")]))
    assert [each["v"] for each in found(table, "a", 1, 2)] == ["x"]
    assert table.inspect.files_fit()
    expire(table)
    remove_orphans(table)


def followed(catalog: Catalog) -> Table:
    """A table with late rows, and with a newer row of the present keys that followed them."""
    table = opened = by_day(catalog)
    late = staged(table, deletes=False)
    table = respec(catalog, table, "dt", "hh")
    following = table.stage(rows(table, [event("a", 1, 2, v="newest")]))
    commit_late(opened, late)
    commit_late(table, following)
    return table


def test_an_expiry_keeps_what_tells_the_order_of_late_rows(catalog: Catalog) -> None:
    table = followed(catalog)
    plan = table.upkeep.plan_expire_snapshots(
        retain_min=1, retain_max=1, time_retained_ms=0, grace_ms=0
    )
    assert "rows that a client committed under former ones" in " ".join(plan.reasons)
    expire(table)
    with pytest.raises(UnsupportedError, match="it is unknown which of their rows came later"):
        table.upkeep.respec(["dt", "hh"])
    table.history.rollback(snapshot=table.history.snapshots()[-3].id, grace_ms=0)
    remove_orphans(catalog.table(table.name))


def test_late_rows_do_not_win_over_younger_ones_where_another_client_expired_their_commits(
    unchecked_catalog: Catalog,
) -> None:
    table = followed(unchecked_catalog)
    last = table.history.snapshots()[-1].id
    with pytest.MonkeyPatch.context() as patch:
        # Other clients have no such guard.
        patch.setattr(expiry_range, "needed_from", lambda *_: None)
        expire(table)
    assert [each.id for each in table.history.snapshots()] == [last]
    with pytest.raises(UnsupportedError, match="--late-rows-win"):
        table.upkeep.respec(["dt", "hh"])


def test_late_rows_are_the_latest_where_the_caller_says_so(catalog: Catalog) -> None:
    table = followed(catalog)
    with pytest.raises(UnsupportedError, match="--late-rows-win"):
        table.upkeep.respec(["dt", "hh"])
    table.upkeep.respec(["dt", "hh"], late_rows_win=True)
    table = catalog.table(table.name)
    assert [each["v"] for each in found(table, "a", 1, 2)] == ["late"]
    expire(table)
    remove_orphans(table)


def test_what_was_staged_for_a_change_stays_when_late_rows_are_moved(catalog: Catalog) -> None:
    """Upkeep moves them, and knows nothing of that change."""
    table = opened = by_day(catalog)
    late = staged(table, deletes=False)
    table = respec(catalog, table, "dt", "hh")
    die_after(catalog, table.name, ("dt",), 2)
    commit_late(opened, late)
    table = catalog.table(table.name)
    table.upkeep.respec(["dt", "hh"], keep_staged=True)
    assert not table.upkeep.plan_respec(["dt", "hh"], keep_staged=True).gives_up
    table = catalog.table(table.name)
    plan = table.upkeep.plan_respec(["dt"])
    assert plan.staged.files
    due = content(table)
    table.upkeep.run(plan)
    assert content(catalog.table(table.name)) == due
    expire(catalog.table(table.name))
    remove_orphans(catalog.table(table.name))


@pytest.mark.parametrize("by", ["a second respec", "a write"])
def test_a_move_that_died_between_its_snapshots_is_ended(catalog: Catalog, by: str) -> None:
    table = opened = by_day(catalog)
    late = staged(table, deletes=True)
    table = respec(catalog, table, "dt", "hh")
    commit_late(opened, late)

    def die(call: Call) -> None:
        if call.changes and "/snapshot/snapshot-" in call.path:
            files.dead = True
            raise Crashed

    files = WatchedFiles(catalog.fs, after=looked_at(die))
    with pytest.raises(Crashed):
        replace(catalog, fs=files).table(table.name).upkeep.respec(["dt", "hh"])
    due = content(table)
    assert not table.upkeep.plan_respec(["dt", "hh"]).changes_nothing
    if by == "a write":
        table.write(rows(table, [event("a", 1, 2, v="later")]))
    else:
        assert len(table.upkeep.respec(["dt", "hh"]).snapshot_ids) == 1
        table.write(rows(table, [event("a", 1, 2, v="later")]))
    assert len(content(table)) == len(due)
    assert [each["v"] for each in found(table, "a", 1, 2)] == ["later"]
    assert table.upkeep.plan_respec(["dt", "hh"]).changes_nothing
    expire(table)
    remove_orphans(table)
    assert_only_reachable_files(table)
