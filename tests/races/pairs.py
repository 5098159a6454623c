"""Which verbs race in pairs and triples, how far each race is explored, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations, combinations_with_replacement

from tests.races.outcomes import Race
from tests.races.verbs import VERBS, Arena, actors_of, append_arena, keyed_arena
from tests.support.processes.interleaving import Actor, Explored

ARENAS = {"keyed": keyed_arena, "append": append_arena}
# Every pair of these, each with itself too, and a third of all triples: what a pair does not show
# is rare, and a triple takes a quarter of a minute.
RACING = tuple(
    name
    for name in VERBS
    if name not in ("tag", "branch", "read", "alter", "rename", "delete", "update")
)

PAIRS = [pair for pair in combinations_with_replacement(VERBS, 2) if pair != ("read", "read")]
TRIPLES = list(combinations(RACING, 3))[::3]


@dataclass(frozen=True)
class Finding:
    """What came of a race."""

    race: Race
    explored: Explored


@cache
def arena(kind: str) -> Arena:
    """A table to race on, made once."""
    return ARENAS[kind]()


@cache
def _actors(kind: str) -> dict[tuple[str, int], Actor]:
    return actors_of(arena(kind))


def actor(name: str, number: int = 1, kind: str = "keyed") -> Actor:
    """A verb, the first or second of its kind; its tree is kept for other races."""
    return _actors(kind)[name, number]


@cache
def explore(*names: str, kind: str = "keyed", preemptions: int | None = None) -> Finding:
    """Let verbs race, in every way or with so many of them held up; the same one twice differs."""
    actors = [actor(name, 1 + names[:at].count(name), kind) for at, name in enumerate(names)]
    race = Race(arena(kind), actors, preemptions)
    return Finding(race, race.run())


def deep_bound(pair: tuple[str, str], kind: str = "keyed") -> int | None:
    """How often actors are held up where a race is explored deeply; None for every way there is.

    The other arena differs in what is committed, and not in what is deleted.
    """
    both = {*pair}
    if not both & {"rollback", "orphans"} and both != {"expire"}:
        return None
    return 3 if kind == "keyed" and both != {"rollback"} else 2
