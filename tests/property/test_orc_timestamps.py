"""Timestamps of ORC files: our own decoder reads what the library reads, and what it cannot."""

from __future__ import annotations

import io
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from lakewright.storage.codec.orc_timestamps import NotDecoded, OrcTimestamps, _micros

US = pa.timestamp("us")
# Microseconds of the years 1 to 9999; the library writes no fraction before 1970 rightly.
FAR = st.integers(-62_135_596_800, 253_402_300_799).map(lambda seconds: seconds * 1_000_000)
NEAR = st.integers(0, 9_000_000_000_000_000)
STEPS = st.integers(-(10**9), 10**9).map(lambda step: step * 1_000_000)


@st.composite
def runs(draw: st.DrawFn) -> list[int | None]:
    """Values in the kinds of runs that the encoding tells apart."""
    found: list[int | None] = []
    for _ in range(draw(st.integers(1, 5))):
        start, length = draw(FAR), draw(st.integers(1, 600))
        match draw(st.sampled_from(["same", "steps", "near", "outliers", "nulls"])):
            case "same":
                found += [start] * length
            case "steps":
                step = draw(STEPS)
                values = [start + step * number for number in range(length)]
                found += [each for each in values if -6e16 < each < 2.5e17]
            case "near":
                found += draw(st.lists(NEAR, max_size=40))
            case "outliers":
                found += [10**15 + number % 97 * 1000 for number in range(length)] + [start]
            case _:
                found += [None] * length
    return found


def orc_file(values: list[int | None], compression: str, **more: Any) -> bytes:
    sink = io.BytesIO()
    column = pa.array(values, pa.int64()).cast(US)
    orc.write_table(
        pa.table({"x": pa.array(range(len(values)), pa.int64()), "t": column}),
        sink,
        compression=compression,
        stripe_size=16_384,
        **more,
    )
    return sink.getvalue()


def decoded(data: bytes) -> list[int | None]:
    decoder = OrcTimestamps(io.BytesIO(data))
    assert decoder.is_timestamp(1)
    assert not decoder.is_timestamp(0)
    stripes = range(orc.ORCFile(io.BytesIO(data)).nstripes)
    return [
        each for stripe in stripes for each in decoder.read(stripe, 1).cast(pa.int64()).to_pylist()
    ]


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
@given(values=runs())
def test_what_was_written_is_decoded(compression: str, values: list[int | None]) -> None:
    assert decoded(orc_file(values, compression)) == values


def test_what_is_not_decoded_is_refused() -> None:
    with pytest.raises(NotDecoded, match="another encoding"):
        decoded(orc_file([1, 2], "zstd", file_version="0.11"))
    sink = io.BytesIO()
    orc.write_table(pa.table({"x": [1], "t": pa.array([1], pa.timestamp("ns"))}), sink)
    with pytest.raises(NotDecoded, match="nanoseconds"):
        decoded(sink.getvalue())


@given(st.data())
def test_damage_is_told_and_nothing_else_is_raised(data: st.DataObject) -> None:
    compression = data.draw(st.sampled_from(["uncompressed", "zlib", "snappy", "lz4", "zstd"]))
    held = bytearray(orc_file(data.draw(runs()), compression))
    for _ in range(data.draw(st.integers(1, 4))):
        held[data.draw(st.integers(0, len(held) - 1))] = data.draw(st.integers(0, 255))
    with suppress(NotDecoded):
        decoder = OrcTimestamps(io.BytesIO(bytes(held[: data.draw(st.integers(0, len(held)))])))
        decoder.is_timestamp(1)
        decoder.read(0, 1)


def test_timestamps_that_microseconds_do_not_reach_are_told() -> None:
    parts = np.zeros(1, np.int64)
    for since_2015 in (9_400_000_000_000, -9_400_000_000_000, 2**63 - 1, -(2**63)):
        with pytest.raises(NotDecoded, match="64-bit microseconds"):
            _micros(np.array([since_2015]), parts)
    assert _micros(np.array([-1_420_070_400]), parts).tolist() == [0]
