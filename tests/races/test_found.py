"""Schedules that once showed a defect, each as the claim that it broke."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from lakewright.storage import Table
from lakewright.storage.errors import StalePlan
from tests.races.outcomes import Race, told
from tests.races.pairs import actor, arena
from tests.races.verbs import NOW_MS, Arena, actor_of
from tests.support.processes.interleaving import Actor, Outcome, follow
from tests.support.stores.stepped_files import Content
from tests.support.tables.invariants import assert_nothing_missing, assert_readable_history


@pytest.fixture
def ring() -> Arena:
    return arena("keyed")


def played(
    ring: Arena,
    actors: list[Actor],
    script: list[tuple[Actor, str]],
    *,
    dying: Collection[Actor] = (),
) -> tuple[Content, list[Outcome]]:
    """What a schedule leaves; calls are named by paths below the table, the end by nothing."""
    root = ring.table.table_files.paths.root
    full = [(actor, stop and f" {root}/".join(stop.rsplit(" ", 1))) for actor, stop in script]
    return follow(actors, ring.content, full, now_ms=NOW_MS, dying=dying)


def whole(ring: Arena, content: Content) -> Table:
    """The table as a race left it, once it is seen that all of it is there."""
    table = ring.table_in(content)
    assert_nothing_missing(table)
    assert_readable_history(table)
    return table


def test_files_that_a_rollback_has_seen_are_published_again_and_not_collected(ring: Arena) -> None:
    append, rollback = actor("append"), actor("rollback")
    script = [
        # Its snapshot is there, and seen by the rollback's plan.
        (append, "put if absent snapshot/snapshot-5"),
        (append, "read snapshot/snapshot-4"),
        (rollback, "delete snapshot/snapshot-5"),
    ]
    content, outcomes = played(ring, [append, rollback], script)
    assert [told(each) for each in outcomes] == ["done", "done"]
    table = whole(ring, content)
    assert [each.id for each in table.history.snapshots()] == [1, 2, 3]
    table.upkeep.collect(early=True)
    assert_nothing_missing(table)
    assert "append1-7" in table.read().column("v").to_pylist()


def test_a_rollback_that_a_commit_overtakes_leaves_the_table_as_it_was(ring: Arena) -> None:
    append, rollback = actor("append"), actor("rollback")
    before = ring.table_in(ring.content).at(snapshot=4).read().num_rows
    # The commit looks for its base before the rollback takes it.
    script = [(rollback, "delete snapshot/LATEST"), (append, "replace snapshot/LATEST")]
    content, outcomes = played(ring, [append, rollback], script)
    assert told(outcomes[0]) == "done"
    assert isinstance(outcomes[1].error, StalePlan)
    table = whole(ring, content)
    assert [each.id for each in table.history.snapshots()] == [1, 2, 3, 4, 5]
    assert table.read().num_rows == before + 2
    assert not table.history.tags()


def test_what_others_have_committed_on_top_of_is_not_taken_away_under_them(ring: Arena) -> None:
    """Beside a rollback that gives up, since it sees the commit that finds its base gone."""
    append, other, rollback = actor("append", 1), actor("append", 2), actor("rollback")
    script = [
        (append, "put if absent snapshot/snapshot-5"),
        # It has taken the latest, and is about to look for newer ones.
        (rollback, "delete snapshot/snapshot-4"),
        (rollback, "list snapshot"),
        (append, "delete snapshot/snapshot-5"),
        (other, ""),
        (rollback, ""),
    ]
    content, outcomes = played(ring, [append, other, rollback], script)
    assert [told(each) for each in outcomes] == ["done", "done", "StalePlan"]
    table = whole(ring, content)
    assert [each.id for each in table.history.snapshots()] == [1, 2, 3, 4, 5, 6]
    assert {"append1-7", "append2-8"} <= {*table.read().column("v").to_pylist()}


def test_a_commit_that_died_on_top_of_what_was_rolled_back_never_becomes_the_latest(
    ring: Arena,
) -> None:
    """It died between its snapshot and its look at the base, when the rollback was over."""
    dying, rollback = actor("append", 1), actor("rollback")
    script = [
        (dying, "put if absent snapshot/snapshot-5"),
        (rollback, ""),
        # Its snapshot is there.
        (dying, "read snapshot/snapshot-5"),
    ]
    later = [actor("append", 2), actor("upsert", 1), actor("upsert", 2)]
    content, outcomes = played(ring, [dying, rollback, *later], script, dying=[dying])
    assert [told(each) for each in outcomes] == ["done"] * 4
    table = whole(ring, content)
    assert [each.id for each in table.history.snapshots()] == [1, 2, 3, 4, 5]
    seen = {*table.read().column("v").to_pylist()}
    assert {"append2-8", "upsert1-7", "upsert2-8"} <= seen
    assert "append1-7" not in seen


def test_a_snapshot_above_those_that_expired_is_no_stray(ring: Arena) -> None:
    """The commit that was to follow the latest of long ago takes nothing away."""
    late, upsert, overwrite = actor("append"), actor("upsert"), actor("overwrite")
    script = [
        # It is about to look for a stray.
        (late, "exists snapshot/snapshot-6"),
        (upsert, ""),
        (overwrite, ""),
    ]
    actors = [late, upsert, overwrite, actor("expire", 1)]
    content, outcomes = played(ring, actors, [*script, (actors[3], "")])
    assert [told(each) for each in outcomes] == ["done"] * 4
    table = whole(ring, content)
    assert [each.id for each in table.history.snapshots()] == [6, 7]
    assert {"append1-7", "overwrite1-9"} <= {*table.read().column("v").to_pylist()}


def test_a_rollback_takes_what_a_commit_made_on_top_of_what_it_was_taking(ring: Arena) -> None:
    dying, rollback = actor("append", 1), actor("rollback")
    script = [
        (dying, "put if absent snapshot/snapshot-5"),
        # It has seen no commit on top of the latest.
        (rollback, "replace snapshot/LATEST"),
        (dying, "read snapshot/snapshot-5"),
    ]
    content, outcomes = played(ring, [dying, rollback], script, dying=[dying])
    assert [told(each) for each in outcomes] == ["done"]
    table = whole(ring, content)
    assert [each.id for each in table.history.snapshots()] == [1, 2]
    assert not table.history.tags()


def test_a_rollback_leaves_what_was_committed_on_top_of_its_target(ring: Arena) -> None:
    append, rollback = actor("append", 1), actor("rollback")
    # It has rolled back, and is about to look for strays.
    script = [(rollback, "replace snapshot/EARLIEST"), (append, "")]
    content, outcomes = played(ring, [append, rollback], script)
    assert [told(each) for each in outcomes] == ["done", "done"]
    table = whole(ring, content)
    assert [each.id for each in table.history.snapshots()] == [1, 2, 3]
    assert "append1-7" in table.read().column("v").to_pylist()


def test_a_rollback_brings_nothing_back_that_another_one_has_deleted(ring: Arena) -> None:
    further, nearer = actor("rollback", 1), actor("rollback", 2)
    # The nearer one has rolled back, and is about to end.
    script = [(nearer, "replace snapshot/EARLIEST")]
    content, outcomes = played(ring, [further, nearer], script)
    assert told(outcomes[0]) == "done"
    assert [each.id for each in whole(ring, content).history.snapshots()] == [1, 2]


def test_an_append_whose_base_is_compacted_away_and_expired_goes_on_from_what_is_there(
    ring: Arena,
) -> None:
    append, compact, expire = actor("append"), actor("compact"), actor("expire")
    base = ring.table_in(ring.content).history.latest_snapshot()
    assert base is not None
    # It knows the base, and has not read it.
    script = [(append, f"read manifest/{base.base_manifest_list}")]
    content, outcomes = played(ring, [compact, expire, append], script)
    assert [told(each) for each in outcomes] == ["done", "done", "done"]
    table = whole(ring, content)
    assert [each.id for each in table.history.snapshots()] == [5, 6]


def test_a_commit_does_not_take_the_id_of_a_snapshot_that_expired(ring: Arena) -> None:
    """Its rows would be below what is latest, and no reader would see them."""
    upsert, append, overwrite = actor("upsert"), actor("append"), actor("overwrite")
    script = [(append, "put if absent snapshot/snapshot-5")]
    content, outcomes = played(ring, [upsert, overwrite, actor("expire"), append], script)
    assert [told(each) for each in outcomes] == ["done"] * 4
    table = whole(ring, content)
    assert [each.id for each in table.history.snapshots()] == [6, 7]
    assert "append1-6" in table.read().column("v").to_pylist()


def test_a_rollback_whose_plan_sees_every_later_snapshot_go_is_stale(ring: Arena) -> None:
    append, rollback = actor("append"), actor("rollback")
    # It has read its target, and of the snapshots after that it knows no more than the ids.
    script = [(rollback, "read snapshot/snapshot-3"), (append, ""), (actor("expire"), "")]
    _, outcomes = played(ring, [rollback, append, actor("expire")], script)
    assert isinstance(outcomes[0].error, StalePlan)


def test_an_expiry_takes_nothing_of_a_table_that_was_rolled_back_and_written_to_meanwhile(
    ring: Arena,
) -> None:
    """The ids are those of its plan, and what it would delete is live again."""
    expire, rollback = actor("expire"), actor("rollback")
    append, upsert = actor("append"), actor("upsert")
    script = [
        (expire, "replace .lakewright/condemned/"),
        *((each, "") for each in (rollback, append, upsert)),
    ]
    content, outcomes = played(ring, [rollback, append, upsert, expire], script)
    assert [told(each) for each in outcomes] == ["done", "done", "done", "StalePlan"]
    assert {"append1-6", "upsert1-1"} <= {*whole(ring, content).read().column("v").to_pylist()}


def test_what_went_while_ids_stayed_the_same_makes_a_plan_stale_and_is_no_damage(
    ring: Arena,
) -> None:
    latest = ring.table_in(ring.content).history.latest_snapshot()
    assert latest is not None
    expire, rollback, rescale = actor("expire"), actor("rollback"), actor("rescale")
    script = [
        (expire, f"read manifest/{latest.base_manifest_list}"),
        (rollback, ""),
        # It makes as many snapshots as there were.
        (rescale, ""),
    ]
    _, outcomes = played(ring, [rollback, rescale, expire], script)
    assert [told(each) for each in outcomes] == ["done", "done", "StalePlan"]


def test_a_commit_that_expired_before_it_looked_is_found_in_the_one_that_follows(
    ring: Arena,
) -> None:
    append, overwrite, expire = actor("append"), actor("overwrite"), actor("expire")
    # Its snapshot is there; it looks next whether its base still is.
    script = [(append, "read snapshot/snapshot-4"), (append, "put if absent snapshot/snapshot-5")]
    script += [(append, "read snapshot/snapshot-4"), (overwrite, ""), (expire, "")]
    content, outcomes = played(ring, [overwrite, expire, append], script)
    assert [told(each) for each in outcomes] == ["done"] * 3
    table = whole(ring, content)
    assert [each.id for each in table.history.snapshots()] == [6]
    assert "append1-6" in table.read().column("v").to_pylist()


def test_a_writer_deletes_nothing_that_a_rollback_may_put_back(ring: Arena) -> None:
    """It has numbered its rows again, and the snapshot that says so is out for a moment."""
    first, later = actor("upsert", 1), actor("upsert", 2)
    append, rollback = actor("append"), actor("rollback")
    script = [
        (later, "put if absent snapshot/snapshot-5"),
        (first, ""),
        (later, "put if absent snapshot/snapshot-6"),
        (later, "replace snapshot/LATEST"),
        (append, "put if absent snapshot/snapshot-7"),
        # It has taken the latest, and is about to look for newer ones.
        (rollback, "delete snapshot/snapshot-6"),
        (rollback, "list snapshot"),
        (later, ""),
        (append, "read snapshot/snapshot-7"),
        (rollback, ""),
    ]
    content, outcomes = played(ring, [first, later, append, rollback], script)
    assert [told(each) for each in outcomes] == ["done", "done", "done", "StalePlan"]
    table = whole(ring, content)
    assert "upsert2-8" in table.at(snapshot=6).read().column("v").to_pylist()


def test_an_expiry_beside_a_rollback_that_gives_up_counts_what_came_back(ring: Arena) -> None:
    def expire_later(table: Table, _: int) -> str:
        plan = table.upkeep.plan_expire_snapshots(
            retain_min=1, retain_max=1, time_retained_ms=0, grace_ms=0
        )
        table.table_files.fs.exists(f"{table.table_files.paths.root}/planned")
        table.upkeep.run(plan)
        return ""

    tag, append, rollback = actor("tag"), actor("append"), actor("rollback")
    expire = actor_of(ring, "expire", 1, seed=98, verb=expire_later)
    script = [
        # It keeps what the rollback keeps for its time.
        (tag, ""),
        (rollback, "delete snapshot/snapshot-3"),
        (append, ""),
        # It has taken two snapshots, and is about to see that there is a newer one.
        (rollback, "list snapshot"),
        (expire, "exists planned"),
        (expire, "list snapshot"),
        (rollback, ""),
    ]
    content, outcomes = played(ring, [tag, append, rollback, expire], script)
    assert [told(each) for each in outcomes] == ["done", "done", "StalePlan", "StalePlan"]
    assert [each.id for each in whole(ring, content).history.snapshots()] == [1, 2, 3, 4, 5]


def test_without_an_age_orphan_removal_takes_what_a_writer_has_staged(ring: Arena) -> None:
    def impatient(table: Table, _: int) -> str:
        table.upkeep.remove_orphans(older_than_ms=0, even_recent=True, grace_ms=0)
        return ""

    removal = actor_of(ring, "orphans", 1, seed=99, verb=impatient)
    race = Race(ring, [actor("append"), removal], preemptions=1)
    race.run()
    assert any("FilesGone" in each for each in race.problems), list(race.problems)
