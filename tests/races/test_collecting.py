"""The collector beside the verbs that condemn: nothing is lost, and nothing is left unaccounted."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from lakewright.storage import Table
from tests.races.outcomes import Race
from tests.races.pairs import Finding, actor, arena
from tests.races.test_races import check
from tests.races.verbs import Arena, Verb, actor_of
from tests.support.processes.interleaving import Actor
from tests.support.stores.stepped_files import DictFiles

_HOUR_MS = 3_600_000


def _expire_for_an_hour(table: Table, number: int) -> str:
    kept = {"retain_min": number, "retain_max": number, "time_retained_ms": 0}
    return "" if table.upkeep.expire_snapshots(**kept, grace_ms=_HOUR_MS).expired else "none"


def _collect(table: Table, number: int) -> str:
    table.upkeep.collect(early=True)
    return ""


def _put_back(table: Table, number: int) -> str:
    for each in table.upkeep.condemned():
        table.upkeep.put_back(each.id)
    return ""


def _untag(table: Table, number: int) -> str:
    table.history.delete_tags("kept", grace_ms=0)
    return ""


VERBS: dict[str, Verb] = {
    "expire": _expire_for_an_hour,
    "collect": _collect,
    "put_back": _put_back,
    "untag": _untag,
}


@cache
def expired_arena() -> Arena:
    """A table whose first two snapshots were expired, and whose tag was deleted, for a while."""
    table = arena("keyed").table
    made = arena("keyed").table_in(arena("keyed").content)
    made.history.create_tag("kept", snapshot=1)
    made.history.create_tag("gone", snapshot=2)
    made.upkeep.expire_snapshots(retain_min=2, retain_max=2, time_retained_ms=0, grace_ms=_HOUR_MS)
    made.history.delete_tags("gone", grace_ms=_HOUR_MS)
    files = made.table_files.fs
    assert isinstance(files, DictFiles)
    return Arena(table, files.content)


@cache
def rolled_back_arena() -> Arena:
    """A table that was rolled back for a while, to a snapshot that only a tag held."""
    table = arena("keyed").table
    made = arena("keyed").table_in(arena("keyed").content)
    made.history.create_tag("kept", snapshot=1)
    made.upkeep.expire_snapshots(retain_min=2, retain_max=2, time_retained_ms=0, grace_ms=0)
    made.history.rollback(tag="kept", grace_ms=_HOUR_MS)
    files = made.table_files.fs
    assert isinstance(files, DictFiles)
    return Arena(table, files.content)


def _actor(name: str, at: int) -> Actor:
    if name in VERBS:
        number = 1 + at
        return actor_of(expired_arena(), name, number, seed=100 + at, verb=VERBS[name])
    return actor(name, 1 + at % 2)


BESIDE = ("collect", "append", "compact", "untag", "rollback", "tag", "expire", "orphans")
PAIRS = [("collect", each) for each in BESIDE] + [
    ("put_back", each) for each in ("collect", "append", "expire", "rollback")
]
TRIPLES = [
    ("collect", "put_back", "append"),
    ("collect", "expire", "untag"),
    ("collect", "rollback", "append"),
    ("collect", "expire", "rollback"),
    ("collect", "tag", "expire"),
]


@pytest.mark.mission("FS19")
@pytest.mark.parametrize(
    "names",
    [*PAIRS, *(pytest.param(each, marks=pytest.mark.deep) for each in TRIPLES)],
    ids="-".join,
)
@pytest.mark.sampled(4)
def test_what_is_collected_beside_other_verbs_loses_and_leaves_nothing(
    names: tuple[str, ...],
) -> None:
    race = Race(expired_arena(), [_actor(name, at) for at, name in enumerate(names)], 1)
    check(Finding(race, race.run()))


@pytest.mark.parametrize("other", ["put_back", "rollback", "append", "collect"])
@pytest.mark.parametrize("ring", [expired_arena, rolled_back_arena], ids=["expiry", "rollback"])
@pytest.mark.parametrize("held_up", [1, pytest.param(2, marks=pytest.mark.deep)])
@pytest.mark.sampled(each="other")
def test_what_is_put_back_beside_other_verbs_is_all_there_or_not_at_all(
    ring: Callable[[], Arena], other: str, held_up: int
) -> None:
    actors = [_actor("put_back", 0), _actor(other, 1)]
    race = Race(ring(), actors, held_up)
    check(Finding(race, race.run()))
