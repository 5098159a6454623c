"""Windows hold whole keys, lose no row, and keep little in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage.lsm.windows import key_windows

RUNS = st.lists(st.sets(st.integers(0, 60), max_size=40), max_size=5)


def batches(keys: list[int], size: int, drawn: list[int]) -> Iterator[pa.Table]:
    for start in range(0, len(keys), size):
        part = keys[start : start + size]
        drawn[0] += len(part)
        yield pa.table({"k": pa.array(part, pa.int64())})


@given(runs=RUNS, size=st.integers(1, 50))
@pytest.mark.mission("FS16")
def test_a_key_is_in_one_window_and_no_row_is_lost(runs: list[set[int]], size: int) -> None:
    ordered = [sorted(run) for run in runs]
    taken: list[list[int]] = [[] for _ in runs]
    highest = -1
    for pieces in key_windows([batches(run, size, [0]) for run in ordered], ["k"]):
        assert len(pieces) == len(runs)
        held = [piece.column("k").to_pylist() if piece is not None else [] for piece in pieces]
        flat = [key for keys in held for key in keys]
        assert flat
        assert min(flat) > highest
        highest = max(flat)
        for run, keys in enumerate(held):
            taken[run] += keys
    assert taken == ordered


def test_runs_are_drawn_from_as_their_keys_come_up() -> None:
    drawn = [[0], [0]]
    runs = [list(range(1000)), list(range(900, 2000))]
    windows = key_windows(
        [batches(run, 100, count) for run, count in zip(runs, drawn, strict=True)], ["k"]
    )
    for _ in range(8):
        next(windows)
    # The second run begins where the first ends: one batch of it waits.
    assert drawn == [[800], [100]]


def test_a_run_that_has_ended_bounds_no_window() -> None:
    runs = [batches([1, 2, 3], 10, [0]), batches(list(range(50)), 10, [0])]
    windows = list(key_windows(runs, ["k"]))
    assert sum(piece.num_rows for piece in windows[0] if piece is not None) == 7
    # Batch by batch of the second run, though the first has long ended.
    assert len(windows) <= 6


@given(runs=st.lists(st.sets(st.tuples(st.text(max_size=3), st.booleans())), max_size=4))
def test_keys_of_several_columns_are_compared_as_a_whole(runs: list[set[tuple[str, bool]]]) -> None:
    def tables(run: set[tuple[str, bool]]) -> Iterator[pa.Table]:
        ordered = sorted(run, key=lambda key: (key[0].encode(), key[1]))
        for start in range(0, len(ordered), 2):
            part = ordered[start : start + 2]
            yield pa.table(
                {"a": pa.array([a for a, _ in part], pa.string()), "b": [b for _, b in part]}
            )

    seen: set[tuple[str, bool]] = set()
    for pieces in key_windows([tables(run) for run in runs], ["a", "b"]):
        window = {
            (row["a"], row["b"])
            for piece in pieces
            if piece is not None
            for row in piece.to_pylist()
        }
        assert not window & seen
        seen |= window
    assert seen == set().union(*runs)
