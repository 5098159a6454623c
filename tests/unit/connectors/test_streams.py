"""Streams of this process: what a checkpoint keeps, and what it refuses."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakewright.connectors import ExternalTables
from lakewright.connectors.managed_stream import TableStream
from lakewright.connectors.planning.plan_sink import WriteRequest, plan_write
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.connectors.runtime import NextBatch, Offset
from lakewright.connectors.stream import run_stream
from lakewright.session import Session
from lakewright.storage import Catalog, Table
from lakewright.storage.errors import CorruptionError, InvalidRequestError, NotFoundError
from lakewright.storage.operations.streams.batches import Watch
from lakewright.storage.spec.stream import CommittedBatch
from tests.support.tables.builders import expire
from tests.support.tables.environment import FixedEnv
from tests.support.tables.invariants import assert_only_reachable_files

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

    def carried(
        checkpoint: str | None,
        sink: str = "db.copied",
        done: Callable[[int], object] = lambda number: None,
        source: str = "db.arriving",
    ) -> int:
        scan = plan_scan(externals.context(source), ScanRequest())
        known = externals.context if externals.has(sink) else externals.managed_context
        target = plan_write(known(sink), WriteRequest(mode=scan.mode))
        place = None if checkpoint is None else str(tmp_path / checkpoint)
        batches = run_stream(
            scan, target, catalog.env, checkpoint=place, max_rows=1, available_now=True
        )
        row_count = 0
        for each in batches:
            row_count += each.rows
            done(each.number)
        return row_count

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


def test_files_have_each_row_or_an_error_whatever_becomes_of_the_checkpoint(
    carry: Carry, tmp_path: Path
) -> None:
    kept, older = tmp_path / "kept", tmp_path / "older"
    arrive(tmp_path, "a.json")
    assert carry("kept") == 1
    shutil.copytree(kept, older)
    files = shutil.copytree(tmp_path / "copied", tmp_path / "earlier")
    arrive(tmp_path, "b.json")
    arrive(tmp_path, "c.json")
    assert carry("kept") == 2
    newest = shutil.move(kept, tmp_path / "newest")
    # An older copy is put back. Its next batch has the number of one that is there.
    shutil.copytree(older, kept)
    for name in ("d.json", "e.json"):
        arrive(tmp_path, name)
        with pytest.raises(InvalidRequestError, match=r"has batches 0 to 2 .* an older one, which"):
            carry("kept")
    # It was deleted.
    shutil.rmtree(kept)
    with pytest.raises(InvalidRequestError, match="batches 0 to 2 of an earlier stream"):
        carry("kept")
    assert lines(tmp_path / "copied") == 3
    # The files were put back, and the checkpoint was not.
    shutil.rmtree(kept)
    shutil.copytree(newest, kept)
    now = shutil.move(tmp_path / "copied", tmp_path / "now")
    shutil.copytree(files, tmp_path / "copied")
    with pytest.raises(InvalidRequestError, match=r"has batches 0 to 0 .* is at batch 3: the sink"):
        carry("kept")
    shutil.rmtree(tmp_path / "copied")
    shutil.copytree(now, tmp_path / "copied")
    shutil.rmtree(kept)
    shutil.copytree(newest, kept)
    assert carry("kept") == 2
    assert lines(tmp_path / "copied") == 5


def test_an_older_checkpoint_goes_on_with_the_same_batch_that_is_there(
    carry: Carry, tmp_path: Path
) -> None:
    arrive(tmp_path, "a.json")
    assert carry("kept") == 1
    shutil.copytree(tmp_path / "kept", tmp_path / "older")
    arrive(tmp_path, "b.json")
    assert carry("kept") == 1
    shutil.rmtree(tmp_path / "kept")
    shutil.copytree(tmp_path / "older", tmp_path / "kept")
    arrive(tmp_path, "c.json")
    # Batch 1 reads b.json again, and finds its file.
    assert carry("kept") == 2
    assert lines(tmp_path / "copied") == 3


def test_a_folder_that_was_emptied_takes_a_stream_from_its_beginning(
    carry: Carry, catalog: Catalog, tmp_path: Path
) -> None:
    arrive(tmp_path, "a.json")
    assert carry("kept") == 1
    shutil.rmtree(tmp_path / "kept")
    Session(catalog).sql("TRUNCATE TABLE db.copied")
    assert carry("kept") == 1
    assert lines(tmp_path / "copied") == 1


def test_a_damaged_mark_of_a_last_batch_is_named(carry: Carry, tmp_path: Path) -> None:
    arrive(tmp_path, "a.json")
    assert carry("kept") == 1
    [mark] = (tmp_path / "copied").glob(".lakewright-stream-*")
    mark.write_text("{}")
    arrive(tmp_path, "b.json")
    with pytest.raises(CorruptionError, match=f"{mark.name}, which says the last batch"):
        carry("kept")


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
    with pytest.raises(NotFoundError, match=r"1 of 1 files .* gone, such as a\.json"):
        carry("first")


def test_a_folder_that_is_not_there_is_no_empty_one(carry: Carry, tmp_path: Path) -> None:
    assert carry("first") == 0
    (tmp_path / "arriving").rmdir()
    with pytest.raises(NotFoundError, match="/arriving, which is not there; make it"):
        carry("first")


def test_a_damaged_note_of_a_checkpoint_is_named(carry: Carry, tmp_path: Path) -> None:
    arrive(tmp_path, "a.json")
    carry("first")
    (tmp_path / "first" / "offsets" / "0").write_text('{"start"')
    with pytest.raises(CorruptionError, match=r"note of batch 0 at .*/offsets/0 cannot be read"):
        carry("first")
    (tmp_path / "first" / "offsets" / "0").unlink()
    (tmp_path / "first" / "beginning").write_text("")
    with pytest.raises(CorruptionError, match="/beginning, which says where a stream began"):
        carry("first")


@pytest.fixture
def table(carry: Carry, catalog: Catalog) -> Table:
    """A table into which `carry` may carry rows."""
    Session(catalog).sql("CREATE TABLE db.kept (id BIGINT)")
    return catalog.table("db.kept")


def ids(table: Table) -> list[int]:
    return sorted(table.read().column("id").to_pylist())


def test_a_stream_into_a_table_stands_where_its_rows_end_also_after_rollbacks(
    carry: Carry, table: Table, tmp_path: Path
) -> None:
    for number, rows in enumerate((2, 3, 4)):
        (tmp_path / "arriving" / f"{number}.json").write_text(f'{{"id": {number}}}\n' * rows)
        assert carry("first", "db.kept") == rows
    assert not (tmp_path / "first").exists()
    for _ in range(2):
        table.history.rollback(snapshot=1, grace_ms=0)
        assert carry("first", "db.kept") == 7
        assert carry("first", "db.kept") == 0
        assert ids(table) == [0] * 2 + [1] * 3 + [2] * 4


def test_a_stream_whose_table_is_rolled_back_meanwhile_stops_and_then_goes_on(
    carry: Carry, table: Table, tmp_path: Path
) -> None:
    for number in range(4):
        arrive(tmp_path, f"{number}.json")

    def roll_back(number: int) -> None:
        if number == 2:
            table.history.rollback(snapshot=1, grace_ms=0)

    with pytest.raises(InvalidRequestError, match="rolled back behind batch 2 of stream"):
        carry("first", "db.kept", roll_back)
    assert_only_reachable_files(table)
    assert carry("first", "db.kept") == 3
    assert len(ids(table)) == 4


def test_a_second_process_of_a_stream_commits_nothing(
    carry: Carry, table: Table, tmp_path: Path
) -> None:
    for number in range(3):
        arrive(tmp_path, f"{number}.json")

    def other(number: int) -> None:
        if number == 0:
            assert carry("first", "db.kept") == 2

    with pytest.raises(InvalidRequestError, match=r"holds batch 2 of stream|another process runs"):
        carry("first", "db.kept", other)
    assert_only_reachable_files(table)
    assert carry("first", "db.kept") == 0
    assert len(ids(table)) == 3


def stream_into(table: Table, name: str = "/first") -> TableStream:
    return TableStream(table).of_stream("", name)


def test_a_stream_begins_anew_where_it_began_although_its_source_begins_elsewhere(
    table: Table,
) -> None:
    rows = pa.table({"id": pa.array([7], pa.int64())})
    table.write(rows)
    stream = stream_into(table)
    assert stream.position() is None
    first = stream.stand("source", lambda: {"at": 5})
    assert first == NextBatch(0, {"at": 5})
    assert stream_into(table).stand("source", lambda: {"at": 9}) == first
    assert stream.commit_until([stream.write(iter(rows.to_batches()))], first, {"at": 6})
    assert stream_into(table).position() == {"at": 6}
    table.history.rollback(snapshot=1, grace_ms=0)
    assert stream_into(table).position() == {"at": 5}
    assert stream_into(table).stand("source", lambda: {"at": 9}) == first


def test_positions_without_rows_are_kept_at_most_once_a_minute(table: Table, env: FixedEnv) -> None:
    stream = stream_into(table)
    batch = stream.stand("source", lambda: {"at": 0})

    def moved(batch: NextBatch, end: Offset) -> bool:
        return stream.commit_until([stream.write(iter([]))], batch, end)

    # A new stream is known from then on.
    assert moved(batch, {"at": 1})
    batch = stream_into(table).stand("source", lambda: {"at": 0})
    assert (batch.number, batch.start) == (1, {"at": 1})
    assert not moved(batch, {"at": 2})
    assert len(table.history.snapshots()) == 1
    env.clock.now_ms += 60_000
    assert moved(NextBatch(1, {"at": 2}), {"at": 3})
    assert stream_into(table).position() == {"at": 3}
    rows = pa.table({"id": pa.array([7], pa.int64())})
    assert stream.commit_until(
        [stream.write(iter(rows.to_batches()))], NextBatch(2, {"at": 3}), {"at": 4}
    )
    assert [each.total_record_count for each in table.history.snapshots()] == [0, 0, 1]


def test_a_batch_that_was_committed_and_not_reported_is_reported_at_the_next_start(
    table: Table,
) -> None:
    rows = pa.table({"id": pa.array([7], pa.int64())})
    told: list[int] = []

    def crash(_: CommittedBatch) -> None:
        raise KeyboardInterrupt

    def run(tell: Callable[[CommittedBatch], None]) -> TableStream:
        stream = TableStream(table, watch=Watch(tell=tell)).of_stream("", "/first")
        stream.stand("source", lambda: {"at": 0})
        return stream

    stream = run(crash)
    with pytest.raises(KeyboardInterrupt):
        stream.commit_until(
            [stream.write(iter(rows.to_batches()))], NextBatch(0, {"at": 0}), {"at": 1}
        )
    for _ in range(2):
        run(lambda batch: told.append(batch.number))
    assert told == [0]


def test_a_batch_that_comes_again_after_a_rollback_is_reported_again(table: Table) -> None:
    told: list[int] = []

    def run(count: int, tell: Callable[[CommittedBatch], None]) -> None:
        stream = TableStream(table, watch=Watch(tell=tell)).of_stream("", "/first")
        batch = stream.stand("source", lambda: {"at": 0})
        for _ in range(count):
            rows = pa.table({"id": pa.array([batch.number], pa.int64())})
            end = {"at": batch.start["at"] + 1}
            stream.commit_until([stream.write(iter(rows.to_batches()))], batch, end)
            batch = NextBatch(batch.number + 1, end)

    def crash(_: CommittedBatch) -> None:
        raise KeyboardInterrupt

    run(3, lambda batch: told.append(batch.number))
    table.history.rollback(snapshot=1, grace_ms=0)
    with pytest.raises(KeyboardInterrupt):
        run(1, crash)
    run(0, lambda batch: told.append(batch.number))
    assert told == [0, 1, 2, 1]


def test_a_stream_that_has_no_row_yet_outlives_the_expiry_of_what_others_wrote(
    carry: Carry, table: Table, tmp_path: Path
) -> None:
    assert carry("first", "db.kept") == 0
    for _ in range(3):
        table.write(pa.table({"id": pa.array([7], pa.int64())}))
    expire(table)
    arrive(tmp_path, "a.json")
    assert carry("first", "db.kept") == 1
    assert ids(table) == [1, 7, 7, 7]


def test_a_rollback_behind_the_first_batch_begins_the_stream_anew(
    carry: Carry, table: Table, tmp_path: Path
) -> None:
    table.write(pa.table({"id": pa.array([7], pa.int64())}))
    arrive(tmp_path, "a.json")
    assert carry("first", "db.kept") == 1
    table.history.rollback(snapshot=1, grace_ms=0)
    assert carry("first", "db.kept") == 1
    assert ids(table) == [1, 7]


def test_a_stream_goes_on_where_it_stands_after_the_expiry_of_its_batches(
    carry: Carry, table: Table, tmp_path: Path
) -> None:
    for number in range(3):
        arrive(tmp_path, f"{number}.json")
        assert carry("first", "db.kept") == 1
    table.write(table.read())
    expire(table)
    assert carry("first", "db.kept") == 0
    assert len(ids(table)) == 6


def test_a_checkpoint_is_known_by_its_place_and_not_by_its_spelling(
    carry: Carry, table: Table, tmp_path: Path
) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "link").symlink_to("first")
    arrive(tmp_path, "a.json")
    assert carry("link", "db.kept") == 1
    assert carry("first", "db.kept") == 0
    assert ids(table) == [1]


def test_a_stream_of_another_source_is_refused_until_a_person_says_that_it_moved(
    carry: Carry, table: Table, catalog: Catalog, tmp_path: Path
) -> None:
    arrive(tmp_path, "a.json")
    carry("first", "db.kept")
    session = Session(catalog)
    session.sql("ALTER TABLE db.arriving RENAME TO db.coming")
    with pytest.raises(InvalidRequestError, match=r"reads db\.arriving .* or delete .*/stream-"):
        carry("first", "db.kept", source="db.coming")
    (start,) = (Path(table.location.removeprefix("file://")) / ".lakewright/streams").iterdir()
    start.unlink()
    arrive(tmp_path, "b.json")
    assert carry("first", "db.kept", source="db.coming") == 1
    assert ids(table) == [1, 1]
    # Where it began is unknown now.
    table.history.rollback(snapshot=1, grace_ms=0)
    assert carry("first", "db.kept", source="db.coming") == 1
    table.history.forget_stream(table.history.streams()[0].stream)
    assert carry("first", "db.kept", source="db.coming") == 2


def test_a_stream_goes_on_into_its_renamed_table(
    carry: Carry, table: Table, catalog: Catalog, tmp_path: Path
) -> None:
    arrive(tmp_path, "a.json")
    carry("first", "db.kept")
    catalog.rename_table("db.kept", "db.renamed")
    arrive(tmp_path, "b.json")
    assert carry("first", "db.renamed") == 1
    assert ids(catalog.table("db.renamed")) == [1, 1]


def test_a_snapshot_says_how_far_its_stream_read(
    carry: Carry, table: Table, tmp_path: Path
) -> None:
    arrive(tmp_path, "a.json")
    carry("first", "db.kept")
    properties = table.at().snapshot.properties
    assert properties is not None
    assert "a.json" in properties["lakewright.streams"]
