"""Explores all interleavings of actors on one store, with the real code.

1. An actor is code that works on a store, and is deterministic for given answers: it has its own
   clock and ids. So the answers so far determine its next call, and a tree of answers describes it.
   The code runs only at unknown places of the tree; between calls it waits in its own thread.
2. A state is the content of the store and the place of each actor in its tree. The search explores
   each state once.
3. Two calls commute unless one changes what the other reads or changes. From a state, only a set of
   actors continues whose next calls commute with all possible later calls of the others (a
   persistent set): other orders give the same results to all actors and the same end. The search
   learns the possible calls as it proceeds, so it visits states again until nothing is missing.
4. With a bound, an actor runs until it ends, sleeps, or is delayed: at most that often, and only
   before a call that another actor may notice.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lakewright.storage.codec.sealed_json import sealed
from tests.support.stores.stepped_files import (
    Call,
    Content,
    SteppedFiles,
    Stored,
    Verb,
    answer,
    parent,
)

_READS = frozenset({Verb.READ, Verb.EXISTS, Verb.LIST, Verb.TREE, Verb.SUBDIRS})
# The most threads kept waiting; beyond, the actor of the oldest thread restarts when needed.
_MOST_STANDING = 48
_AVRO, _AVRO_MARK = b"Obj\x01", 16
# An Avro file in base64.
_IN_BASE64 = re.compile(rb"T2JqA[A-Za-z0-9+/]+=*")


def _computed_without_a_lock(self: cached_property[Any], instance: Any, _: Any = None) -> Any:
    if instance is None:
        return self
    assert self.attrname is not None
    kept = vars(instance)
    if self.attrname not in kept:
        kept[self.attrname] = self.func(instance)
    return kept[self.attrname]


if sys.version_info < (3, 12):
    # Here one lock for all instances is held while a property is computed. An actor that waits
    # between two calls of a computation would keep all other threads from theirs, for ever.
    cached_property.__get__ = _computed_without_a_lock  # type: ignore[assignment,method-assign]


class TooManyStates(AssertionError):
    """The exploration exceeded its limit of states."""


class Undetermined(AssertionError):
    """An actor made another call than before after the same answers."""


class _Stopped(BaseException):
    """The actor is stopped; the code under test must not catch this."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an actor ended: with a value, or with an error."""

    value: Any = None
    error: BaseException | None = None


@dataclass(eq=False, slots=True)
class Node:
    """A place in an actor's tree: its next call, or its outcome."""

    call: Call | None
    outcome: Outcome | None
    parent: Node | None
    # The answers that lead here.
    told: Any
    depth: int
    children: dict[Any, Node] = field(default_factory=dict)


class Actor:
    """Code that works on a store; its tree is kept, so that one exploration helps the next."""

    def __init__(self, name: str, body: Callable[[SteppedFiles], object]) -> None:
        self.name = name
        self.body = body
        self.runs = 0
        self._standing: dict[Node, _Run] = {}
        self._root: Node | None = None

    def root(self) -> Node:
        """Where the actor begins."""
        if self._root is None:
            run = self._start([])
            self._root = self._stand(run, None, None)
        return self._root

    def told(self, node: Node, result: Any) -> Node:
        """The node that follows an answer."""
        child = node.children.get(result)
        if child is None:
            run = self._standing.pop(node, None) or self._start(_way_to(node))
            if run.pending != node.call:
                raise Undetermined(f"{self.name} asked for {node.call}, and now {run.pending}")
            run.go_on(result)
            child = node.children[result] = self._stand(run, node, result)
        return child

    def rest(self) -> None:
        """Stop all waiting threads."""
        for run in self._standing.values():
            run.stop()
        self._standing.clear()

    def _start(self, recorded: list[tuple[Call | None, Any]]) -> _Run:
        self.runs += 1
        return _Run(self, recorded)

    def _stand(self, run: _Run, before: Node | None, told: Any) -> Node:
        depth = 0 if before is None else before.depth + 1
        node = Node(run.pending, run.outcome, before, told, depth)
        if run.outcome is None:
            self._standing[node] = run
            if len(self._standing) > _MOST_STANDING:
                self._standing.pop(next(iter(self._standing))).stop()
        elif isinstance(run.outcome.error, Undetermined):
            raise run.outcome.error
        return node


def _way_to(node: Node) -> list[tuple[Call | None, Any]]:
    found: list[tuple[Call | None, Any]] = []
    while node.parent is not None:
        found.append((node.parent.call, node.told))
        node = node.parent
    return found[::-1]


class _Run:
    """An actor's code in a thread that advances call by call."""

    def __init__(self, actor: Actor, recorded: list[tuple[Call | None, Any]]) -> None:
        self.pending: Call | None = None
        self.outcome: Outcome | None = None
        self._actor = actor
        self._recorded = iter(recorded)
        self._result: Any = None
        self._is_stopped = False
        self._go = threading.Semaphore(0)
        self._stands = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        self._stands.acquire()

    def go_on(self, result: Any) -> None:
        """Answer, and wait for the next call or the end."""
        self._result = result
        self._go.release()
        self._stands.acquire()

    def stop(self) -> None:
        """Let the thread end."""
        self._is_stopped = True
        self._go.release()
        self._thread.join()

    def _work(self) -> None:
        try:
            outcome = Outcome(value=self._actor.body(SteppedFiles(self._perform)))
        except _Stopped:
            return
        except BaseException as error:  # noqa: BLE001  # any exception is the actor's outcome
            outcome = Outcome(error=error.with_traceback(None))
        self.pending, self.outcome = None, outcome
        self._stands.release()

    def _perform(self, call: Call) -> Any:
        if self._is_stopped:
            raise _Stopped
        call = _without_chance(call)
        for before, result in self._recorded:
            if before != call:
                raise Undetermined(f"{self._actor.name} asked for {before}, and now for {call}")
            return result
        self.pending = call
        self._stands.release()
        self._go.acquire()
        if self._is_stopped:
            raise _Stopped
        return self._result


def _without_chance(call: Call) -> Call:
    """The same call without random bytes: Avro files end in a random mark.

    Records of staged partitions hold such files in base64.
    """
    data = _IN_BASE64.sub(_marked_alike, call.data)
    if data != call.data:
        data = _sealed_again(data)
    if call.data.startswith(_AVRO):
        data = _without_mark(call.data)
    return call if data == call.data else Call(call.verb, call.path, data, call.target)


def _sealed_again(data: bytes) -> bytes:
    """A record whose Avro files are others, with the checksum of these."""
    if b'"crc32": ' not in data:
        return data
    record = json.loads(data)
    del record["crc32"]
    return json.dumps(sealed(record)).encode()


def _marked_alike(found: re.Match[bytes]) -> bytes:
    return base64.b64encode(_without_mark(base64.b64decode(found[0])))


def _without_mark(data: bytes) -> bytes:
    return data.replace(data[-_AVRO_MARK:], bytes(_AVRO_MARK))


# --- what commutes ----------------------------------------------------------------------------


def commute(one: Call, other: Call) -> bool:
    """Whether two calls give the same answers and state in both orders."""
    if Verb.SLEEP in (one.verb, other.verb):
        return True
    if one.verb in _READS:
        return other.verb in _READS or not _is_seen(one, other)
    if other.verb in _READS:
        return not _is_seen(other, one)
    return not _touch_the_same(one, other)


def _is_seen(read: Call, change: Call) -> bool:
    """Whether a read may see a change."""
    return any(_sees(read, path, change.verb) for path in _touched(change))


def _sees(read: Call, path: str, change: Verb) -> bool:
    if change is Verb.DELETE_TREE and _is_below(read.path, path):
        return True
    match read.verb:
        case Verb.READ:
            return read.path == path
        case Verb.LIST:
            return parent(path) == read.path
        case Verb.TREE:
            return _is_below(path, read.path)
        case Verb.SUBDIRS:
            # A file directly inside, and a deletion, neither create nor remove a folder.
            return (
                change is not Verb.DELETE
                and _is_below(path, read.path)
                and (change in (Verb.MAKE_DIRS, Verb.REMOVE_DIR) or parent(path) != read.path)
            )
        case _:
            return read.path == path or (change is not Verb.DELETE and _is_below(path, read.path))


def _touch_the_same(one: Call, other: Call) -> bool:
    for left in _touched(one):
        for right in _touched(other):
            if left == right:
                return True
            wide = (Verb.DELETE_TREE, Verb.REMOVE_DIR)
            if one.verb in wide and _is_below(right, left):
                return True
            if other.verb in wide and _is_below(left, right):
                return True
    return False


def _touched(change: Call) -> tuple[str, ...]:
    return (change.path, change.target) if change.verb is Verb.MOVE else (change.path,)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


class _Footprints:
    """Numbered calls, each with a mask of the calls that it does not commute with."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Verb, str, str], int] = {}
        self._calls: list[Call] = []
        self.disturbing: list[int] = []

    def number(self, call: Call) -> int:
        key = (call.verb, call.path, call.target)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._calls)
            self._calls.append(call)
            self.disturbing.append(0)
            for other, known in enumerate(self._calls):
                if not commute(call, known):
                    self.disturbing[number] |= 1 << other
                    self.disturbing[other] |= 1 << number
        return number


# --- exploring --------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class State:
    """The store and each actor's place; `last` acted last, `left` is the rest of the bound."""

    content: Content
    fingerprint: int
    nodes: tuple[Node, ...]
    last: int | None
    left: int
    before: State | None
    # Actors that have continued from here.
    gone: set[int] = field(default_factory=set)

    @property
    def outcomes(self) -> list[Outcome]:
        """How each actor ended, in the last state."""
        return [node.outcome for node in self.nodes if node.outcome is not None]


@dataclass(slots=True)
class Explored:
    """The result of an exploration; `ends` differ in the store, or in an actor's outcome."""

    states: int = 0
    steps: int = 0
    ends: int = 0


# Called for every changing step, and for every end.
Look = Callable[[State, Call | None], None]


class Explorer:
    """Explores the effects of actors on a store."""

    def __init__(
        self,
        actors: Sequence[Actor],
        content: Content,
        *,
        now_ms: int,
        look: Look,
        preemptions: int | None = None,
        most_states: int | None = None,
        reduced: bool = True,
    ) -> None:
        self._actors = actors
        self._now_ms = now_ms
        self._look = look
        self._bound = preemptions
        self._most_states = most_states
        self._reduced = reduced
        self._footprints = _Footprints()
        # The possible later calls of an actor from a place in its tree, as far as known.
        self._futures: dict[Node, int] = {}
        self._seen: dict[object, State] = {}
        self.explored = Explored()
        nodes = tuple(actor.root() for actor in actors)
        self._start = State(content, 0, nodes, None, preemptions or 0, None)

    def run(self) -> Explored:
        """Run the whole exploration."""
        try:
            self._go_on_from([self._visit(self._start)])
            # Pruned orders may need a visit, since more calls are known now.
            while again := [state for state in self._seen.values() if self._next(state)]:
                self._go_on_from(again)
        finally:
            for actor in self._actors:
                actor.rest()
        return self.explored

    def _go_on_from(self, stack: list[State]) -> None:
        while stack:
            state = stack.pop()
            for index in self._next(state):
                after = self._step(state, index)
                if after is not None:
                    stack.append(after)

    def _next(self, state: State) -> list[int]:
        """The actors that must continue from a state and have not; the last actor comes last."""
        able = [index for index, node in enumerate(state.nodes) if node.call is not None]
        if not able:
            return []
        if self._bound is not None:
            chosen = self._within_bound(state, able)
        else:
            chosen = self._persistent(state, able) if self._reduced else able
        found = [index for index in chosen if index not in state.gone]
        return sorted(found, key=lambda index: (index == state.last, -index))

    def _within_bound(self, state: State, able: list[int]) -> list[int]:
        last = state.last
        if last is None or last not in able:
            return able
        call = state.nodes[last].call
        assert call is not None
        if call.verb is Verb.SLEEP:
            return able
        if state.left == 0 or not self._disturbed(state, last, able):
            return [last]
        return able

    def _persistent(self, state: State, able: list[int]) -> list[int]:
        best = able
        for first in able:
            chosen = [first]
            for index in chosen:
                chosen += [
                    each for each in self._disturbed(state, index, able) if each not in chosen
                ]
            if len(chosen) < len(best):
                best = chosen
            if len(best) == 1:
                break
        return best

    def _disturbed(self, state: State, index: int, able: list[int]) -> list[int]:
        """The actors with possible later calls that do not commute with an actor's next call."""
        call = state.nodes[index].call
        assert call is not None
        mask = self._footprints.disturbing[self._footprints.number(call)]
        return [each for each in able if each != index and self._futures[state.nodes[each]] & mask]

    def _step(self, state: State, index: int) -> State | None:
        """Let one actor take its next step; None if that leads to a known state."""
        state.gone.add(index)
        node = state.nodes[index]
        assert node.call is not None
        result, changes = answer(state.content, node.call, self._now_ms)
        content, fingerprint = state.content, state.fingerprint
        if changes:
            content, fingerprint = _changed(content, fingerprint, changes)
        following = self._actors[index].told(node, result)
        nodes = (*state.nodes[:index], following, *state.nodes[index + 1 :])
        left = state.left
        is_held_up = state.last not in (None, index) and self._bound is not None
        if is_held_up and state.last is not None:
            held_up = state.nodes[state.last].call
            left -= held_up is not None and held_up.verb is not Verb.SLEEP
        last = index if self._bound is not None else None
        self.explored.steps += 1
        after = State(content, fingerprint, nodes, last, left, state)
        known = self._seen.get(self._key(after))
        if known is not None and known.left >= after.left:
            return None
        after = self._visit(after)
        if changes:
            self._look(after, node.call)
        if all(each.call is None for each in nodes):
            self.explored.ends += known is None
            self._look(after, None)
        return after

    def _visit(self, state: State) -> State:
        self._seen[self._key(state)] = state
        self.explored.states += 1
        if self._most_states is not None and self.explored.states > self._most_states:
            raise TooManyStates(f"more than {self._most_states} states")
        for node in state.nodes:
            if node not in self._futures:
                self._learn(node)
        return state

    def _key(self, state: State) -> object:
        return (state.fingerprint, state.nodes, state.last)

    def _learn(self, node: Node) -> None:
        """Add a node's call to the possible later calls of all nodes before it."""
        bits = 0 if node.call is None else 1 << self._footprints.number(node.call)
        self._futures[node] = bits
        above = node.parent
        while above is not None and self._futures.get(above, 0) | bits != self._futures.get(above):
            self._futures[above] = self._futures.get(above, 0) | bits
            above = above.parent


def _changed(
    content: Content, fingerprint: int, changes: dict[str, Stored | None]
) -> tuple[Content, int]:
    after = dict(content)
    for path, stored in changes.items():
        before = after.pop(path, None)
        if before is not None:
            fingerprint ^= hash((path, before))
        if stored is not None:
            after[path] = stored
            fingerprint ^= hash((path, stored))
    return after, fingerprint


def schedule(state: State, actors: Sequence[Actor]) -> list[tuple[str, Call]]:
    """The steps that lead to a state."""
    found = []
    while state.before is not None:
        before = state.before
        index = next(i for i, node in enumerate(state.nodes) if node is not before.nodes[i])
        call = before.nodes[index].call
        assert call is not None
        found.append((actors[index].name, call))
        state = before
    return found[::-1]


def follow(
    actors: Sequence[Actor],
    content: Content,
    script: Sequence[tuple[Actor, str]],
    *,
    now_ms: int,
    dying: Collection[Actor] = (),
) -> tuple[Content, list[Outcome]]:
    """Run one schedule; returns the store and the outcomes.

    Each stretch runs an actor until its next call has the given text. After the script, all actors
    but those `dying` run to their end, in order.
    """
    nodes = {actor: actor.root() for actor in actors}
    try:
        for actor, stop in [*script, *((each, "") for each in actors if each not in dying)]:
            node = nodes[actor]
            while node.call is not None and not (stop and stop in str(node.call)):
                result, changes = answer(content, node.call, now_ms)
                content, _ = _changed(content, 0, changes)
                node = actor.told(node, result)
            assert node.call is not None or not stop, f"{actor.name} never came to: {stop}"
            nodes[actor] = node
    finally:
        for actor in actors:
            actor.rest()
    return content, [node.outcome for node in nodes.values() if node.outcome is not None]
