"""The explorer itself: it finds races that are there, misses none by leaving orders out."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from lakewright.storage.env import FileSystem
from lakewright.storage.errors import FileMissing
from lakewright.storage.files.file_systems import open_file_system
from tests.support.processes.interleaving import (
    Actor,
    Explored,
    Explorer,
    State,
    Undetermined,
    schedule,
)
from tests.support.stores.stepped_files import Call, DictFiles, SteppedFiles, Stored

NOW_MS = 1000
ROOT = "/w"


def add_one(files: SteppedFiles) -> int:
    """Count without care: what somebody else counts in between is lost."""
    number = int(files.read_bytes(f"{ROOT}/count")) + 1
    files.replace(f"{ROOT}/count", str(number).encode())
    return number


def claim(name: str) -> Actor:
    """An actor that takes the first free number, and writes notes that no other actor reads."""

    def body(files: SteppedFiles) -> int:
        for note in range(3):
            files.write_bytes(f"{ROOT}/notes/{name}-{note}", b"")
        number = 1
        while not files.put_if_absent(f"{ROOT}/taken/{number}", name.encode()):
            number += 1
        return number

    return Actor(name, body)


def explore(
    actors: list[Actor], *, preemptions: int | None = None, reduced: bool = True
) -> tuple[Explored, set[tuple[object, ...]], list[State]]:
    """What was explored, how the actors ended, and the last states."""
    ends: list[State] = []

    def look(state: State, call: Call | None) -> None:
        if call is None:
            ends.append(state)

    store = DictFiles(now_ms=NOW_MS)
    store.write_bytes(f"{ROOT}/count", b"0")
    explorer = Explorer(
        actors, store.content, now_ms=NOW_MS, look=look, preemptions=preemptions, reduced=reduced
    )
    explored = explorer.run()
    return explored, {tuple(each.value for each in end.outcomes) for end in ends}, ends


def test_a_lost_update_is_found_and_its_schedule_told() -> None:
    _, outcomes, ends = explore([Actor("one", add_one), Actor("two", add_one)])
    assert outcomes == {(1, 2), (2, 1), (1, 1)}
    lost = next(each for each in ends if [o.value for o in each.outcomes] == [1, 1])
    assert lost.content[f"{ROOT}/count"] == Stored(b"1", NOW_MS)
    told = [f"{name} {call}" for name, call in schedule(lost, [Actor("one", add_one)] * 2)]
    assert len(told) == 4
    assert told[0].endswith("read /w/count")
    assert told[1].endswith("read /w/count")


def test_without_being_held_up_actors_go_one_after_the_other() -> None:
    actors = [Actor("one", add_one), Actor("two", add_one)]
    assert explore(actors, preemptions=0)[1] == {(1, 2), (2, 1)}
    assert explore(actors, preemptions=1)[1] == {(1, 2), (2, 1), (1, 1)}


@pytest.mark.parametrize("count", [2, 3])
def test_leaving_out_orders_that_nobody_can_tell_apart_loses_no_outcome(count: int) -> None:
    actors = [claim(name) for name in "abc"[:count]] + [Actor("count", add_one)]
    every, outcomes, ends = explore(actors, reduced=False)
    fewer, same_outcomes, same_ends = explore(actors)
    numbers = range(1, count + 1)
    assert outcomes == same_outcomes == {(*order, 1) for order in permutations(numbers)}
    left = {frozenset(end.content.items()) for end in ends}
    assert left == {frozenset(end.content.items()) for end in same_ends}
    assert fewer.states < every.states / 3


def test_an_actor_runs_once_for_each_way_that_it_can_be_answered() -> None:
    actors = [claim("a"), claim("b")]
    explore(actors)
    assert [each.runs for each in actors] == [2, 2]
    explore(actors, reduced=False)
    assert [each.runs for each in actors] == [2, 2]


def test_an_actor_that_does_something_else_every_time_is_refused() -> None:
    rounds = iter(range(100))

    def body(files: SteppedFiles) -> None:
        files.write_bytes(f"{ROOT}/{next(rounds)}", b"")
        files.exists(f"{ROOT}/taken/1")

    with pytest.raises(Undetermined):
        explore([Actor("dice", body), claim("a"), claim("b")])


# --- the store --------------------------------------------------------------------------------


def test_the_store_of_the_explorer_answers_as_a_disk_does(tmp_path: Path) -> None:
    disk, root = open_file_system(str(tmp_path / "w"))
    assert transcript(DictFiles(), "/w") == transcript(disk, root)


def transcript(fs: FileSystem, root: str) -> list[object]:
    """What a store says to a little of everything."""
    said: list[object] = []
    fs.make_dirs(f"{root}/empty")
    for name in ("a", "f/b", "f/g/c"):
        fs.write_bytes(f"{root}/{name}", name.encode())
    with fs.open_output(f"{root}/streamed") as output:
        output.write(b"12")
        said.append((output.tell(), fs.exists(f"{root}/streamed")))
        output.write(b"3")
    said += [fs.put_if_absent(f"{root}/once", b"1"), fs.put_if_absent(f"{root}/once", b"2")]
    said += [fs.read_bytes(f"{root}/{name}") for name in ("once", "streamed", "f/g/c")]
    fs.replace(f"{root}/once", b"three")
    said += [
        fs.move_if_absent(f"{root}/a", f"{root}/once"),
        fs.move_if_absent(f"{root}/a", f"{root}/new/place"),
        missing(fs, f"{root}/a"),
        sorted((each.name, each.size) for each in fs.list_dir(root)),
        fs.list_subdirs(root),
        fs.list_dir(f"{root}/nowhere"),
        sorted(each.path.removeprefix(root) for each in fs.list_tree(root)),
        [fs.exists(f"{root}/{name}") for name in ("f", "f/g/c", "nowhere")],
        [fs.delete(f"{root}/{name}") for name in ("f/b", "f/b", "f/g/c")],
        [fs.remove_empty_dir(f"{root}/{name}") for name in ("f", "f/g", "f", "empty", "nowhere")],
    ]
    fs.delete_tree(f"{root}/new")
    said.append(sorted(each.path.removeprefix(root) for each in fs.list_tree(root)))
    return said


def missing(fs: FileSystem, path: str) -> bool:
    """Whether there is no such file to be read."""
    try:
        fs.read_bytes(path)
    except FileMissing:
        return True
    except OSError:
        return False
    return False
