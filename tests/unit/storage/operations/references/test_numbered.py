"""Paths as numbers: what is in the set is found, by its path and by the name of its file."""

from __future__ import annotations

import pyarrow as pa

from lakewright.storage.operations.references.numbered import Numbered, NumberedPaths


def test_what_is_in_the_set_is_found_and_nothing_else() -> None:
    some = Numbered.of(f"bucket-0/{number}" for number in range(1_000))
    assert len(some) == 1_000
    assert "bucket-0/999" in some
    assert "bucket-0/1000" not in some
    assert some.mark(["bucket-1/7", "bucket-0/7"]).tolist() == [False, True]
    assert some.mark_bytes(pa.array([b"bucket-0/8", b"x\xff"], pa.large_binary())).tolist() == [
        True,
        False,
    ]
    assert len(some.places(["bucket-0/1", "bucket-0/2", "x"])) == 2


def test_an_empty_set_has_nothing() -> None:
    assert "a" not in Numbered()
    assert Numbered().mark(["a"]).tolist() == [False]
    assert len(Numbered.all([])) == 0
    assert not NumberedPaths.all([])


def test_sets_of_paths_are_joined_with_their_names() -> None:
    one, two = NumberedPaths.of(["a/x", "b/x"]), NumberedPaths.of(["c/y", "a/x"])
    both = NumberedPaths.all([one, two])
    assert (len(both), len(both.names)) == (3, 2)
    assert "c/y" in both.paths
    assert "y" in both.names
