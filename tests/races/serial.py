"""Actors one after the other: the ends that a race may have too."""

from __future__ import annotations

from collections.abc import Sequence

from tests.races.verbs import NOW_MS, Arena
from tests.support.processes.interleaving import Actor
from tests.support.stores.stepped_files import Content, DictFiles, answer


def one_by_one(arena: Arena, actors: Sequence[Actor]) -> tuple[frozenset[str], Content]:
    """The names of the actors that ended without an error, and the files that all leave."""
    content, done = arena.content, set()
    for actor in actors:
        node, files = actor.root(), DictFiles(content, NOW_MS)
        while node.call is not None:
            result, _ = answer(files.content, node.call, NOW_MS)
            files.perform(node.call)
            node = actor.told(node, result)
        content = files.content
        assert node.outcome is not None
        if node.outcome.error is None:
            done.add(actor.name)
    return frozenset(done), content
