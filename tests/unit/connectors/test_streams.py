"""Streams of this process: what a checkpoint keeps, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakewright.connectors import ExternalTables
from lakewright.connectors.planning.plan_sink import WriteRequest, plan_write
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.connectors.stream import run_stream
from lakewright.session import Session
from lakewright.storage import Catalog
from lakewright.storage.errors import CorruptionError, InvalidRequestError, UnavailableError

Carry = Callable[..., int]


@pytest.fixture
def carry(catalog: Catalog, tmp_path: Path) -> Carry:
    """Carries what is there from a folder into another; how many rows these were."""
    catalog.create_database("db")
    session, externals = Session(catalog), ExternalTables(catalog)
    for name in ("arriving", "copied", "other"):
        (tmp_path / name).mkdir()
        session.sql(f"""
            CREATE TABLE db.{name} (id BIGINT) WITH ('connector' = 'filesystem', 'format' = 'json',
              'path' = '{tmp_path / name}', 'source.monitor-interval' = '1 s')
        """)

    def carried(checkpoint: str | None, sink: str = "db.copied") -> int:
        scan = plan_scan(externals.context("db.arriving"), ScanRequest())
        target = plan_write(externals.context(sink), WriteRequest(mode=scan.mode))
        place = None if checkpoint is None else str(tmp_path / checkpoint)
        batches = run_stream(scan, target, catalog.env, checkpoint=place, available_now=True)
        return sum(each.rows for each in batches)

    return carried


def lines(folder: Path) -> int:
    """The rows of a folder."""
    return sum(len(each.read_text().splitlines()) for each in folder.glob("part-*"))


def arrive(tmp_path: Path, name: str) -> Path:
    path = tmp_path / "arriving" / name
    path.write_text('{"id": 1}\n')
    return path


def test_each_stream_into_a_folder_adds_its_rows(carry: Carry, tmp_path: Path) -> None:
    arrive(tmp_path, "a.json")
    for checkpoint in (None, None, "first", "second"):
        assert carry(checkpoint) == 1
    assert lines(tmp_path / "copied") == 4


def test_a_batch_that_is_repeated_leaves_its_rows_once(carry: Carry, tmp_path: Path) -> None:
    arrive(tmp_path, "a.json")
    carry("first")
    (tmp_path / "first" / "commits" / "0").unlink()
    assert carry("first") == 1
    assert lines(tmp_path / "copied") == 1


def test_a_checkpoint_belongs_to_one_source_and_one_sink(carry: Carry, tmp_path: Path) -> None:
    arrive(tmp_path, "a.json")
    carry("first")
    with pytest.raises(InvalidRequestError, match=r"of the stream from db\.arriving .* db\.other"):
        carry("first", "db.other")


def test_a_file_that_a_begun_batch_lost_is_named(carry: Carry, tmp_path: Path) -> None:
    arrived = arrive(tmp_path, "a.json")
    carry("first")
    (tmp_path / "first" / "commits" / "0").unlink()
    arrived.unlink()
    with pytest.raises(UnavailableError, match=r"1 of 1 files .* gone, such as a\.json"):
        carry("first")


def test_a_damaged_note_of_a_checkpoint_is_named(carry: Carry, tmp_path: Path) -> None:
    arrive(tmp_path, "a.json")
    carry("first")
    (tmp_path / "first" / "offsets" / "0").write_text('{"start"')
    with pytest.raises(CorruptionError, match=r"note of batch 0 at .*/offsets/0 cannot be read"):
        carry("first")
