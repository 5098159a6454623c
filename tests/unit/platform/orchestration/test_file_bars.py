"""Bars of characters: one for the table, and one for each of its worst partitions."""

from __future__ import annotations

from lakewright.platform.decide.survey import FileFigures
from lakewright.platform.orchestration.file_bars import small_files_bars
from lakewright.platform.upkeep.health import PartitionHealth


def of_small_files(key: str, count: int) -> PartitionHealth:
    return PartitionHealth(
        key=key,
        spec={},
        row_count=count,
        file_count=count,
        size_bytes=count,
        small_files=count,
        sorted_runs=count,
        worst_bucket=0,
        last_file_creation_ms=0,
    )


def test_names_of_several_keys_that_differ_at_their_ends_stay_apart() -> None:
    keys = [f"dt=2026-01-01/origin=JFK/carrier={each}" for each in ("AA", "DL", "UA")]
    partitions = [of_small_files(key, 3) for key in keys]
    table = FileFigures(files=9, small_files=9)
    bars = small_files_bars(table, partitions, keyed=False)
    assert len({bar.split()[0] for bar in bars}) == 4
    assert any("dt=2026-01-01…JFK/carrier=UA" in bar for bar in bars)


def test_of_many_partitions_the_worst_have_bars_and_the_others_are_counted() -> None:
    partitions = [of_small_files(f"d{number}", number) for number in range(7)]
    bars = small_files_bars(FileFigures(files=21, small_files=21), partitions, keyed=False)
    assert [bar.split()[0] for bar in bars] == ["the", "d6", "d5", "d4", "d3", "and"]
    assert bars[-1] == "and 3 other partitions"
