"""S3 over a network that loses answers, refuses, cuts and waits: nothing is lost or done twice."""

from __future__ import annotations

import logging
import multiprocessing as mp
import pickle
import traceback
from concurrent.futures import ProcessPoolExecutor

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.env import FileSystem
from lakewright.storage.errors import (
    AccessRefused,
    AlreadyExistsError,
    ClockJumped,
    CredentialsMissing,
    FileMissing,
    StorageError,
    StoreNotFound,
    UnavailableError,
    UnsafeStore,
)
from lakewright.storage.files.clients import client, forget_clients
from lakewright.storage.files.file_systems import open_file_system
from tests.support.processes.racing import append_many, share
from tests.support.stores.faulty_proxy import FaultyProxy, Trouble
from tests.support.stores.servers import SECRET
from tests.support.tables.builders import EVENTS, events, new_table, rows
from tests.support.tables.invariants import assert_only_reachable_files, assert_sound
from tests.support.tally import tally

Store = tuple[FileSystem, str]


@pytest.fixture
def store(s3: str, proxy: FaultyProxy) -> Store:
    return open_file_system(s3)


@pytest.fixture
def table(s3: str, proxy: FaultyProxy) -> Table:
    table = new_table(Catalog.open(s3), EVENTS, keys=["id"], options={"bucket": "2"})
    table.write(rows(table, events(0, 10)))
    return table


def ids(table: Table) -> list[int]:
    found: list[int] = table.read().column("id").to_pylist()
    return sorted(found)


def fresh(s3: str) -> Table:
    return Catalog.open(s3).table("db.t")


@pytest.mark.mission("FS10")
def test_a_commit_whose_answer_is_lost_is_made_once(
    s3: str, table: Table, proxy: FaultyProxy
) -> None:
    proxy.make(Trouble.ANSWER_LOST, method="PUT", within="snapshot/snapshot-2")
    result = table.write(rows(table, events(10, 20)))
    assert [trouble for trouble, *_ in proxy.made] == [Trouble.ANSWER_LOST]
    # It was sent again, and found its own.
    tries = [path for method, path in proxy.seen if method == "PUT" and "snapshot-2" in path]
    assert len(tries) >= 2
    assert result.snapshot is not None
    assert result.snapshot.id == 2
    assert result.attempts == 1
    again = fresh(s3)
    assert ids(again) == list(range(20))
    assert [each.id for each in again.history.snapshots()] == [1, 2]
    assert_sound(again)
    tally("S3 answers lost, requests refused or cut", len(proxy.made))


def test_a_table_and_a_tag_whose_answers_are_lost_are_there_and_told_to_be(
    s3: str, proxy: FaultyProxy
) -> None:
    proxy.make(Trouble.ANSWER_LOST, method="PUT", within="schema/schema-0")
    proxy.make(Trouble.ANSWER_LOST, method="PUT", within="tag/tag-")
    table = new_table(Catalog.open(s3), EVENTS)
    table.write(rows(table, events(0, 3)))
    assert table.history.create_tag("kept").snapshot.id == 1
    assert len(proxy.made) == 2
    with pytest.raises(AlreadyExistsError):
        table.history.create_tag("kept")
    assert_sound(table)
    tally("S3 answers lost, requests refused or cut", len(proxy.made))


# What a write sends, by what is in the path of the request.
SENT = ("snapshot/snapshot-", "manifest/manifest-list", "manifest/manifest-", "bucket-", "LATEST")
READ = ("snapshot/snapshot-1", "manifest/manifest-list", "bucket-", "schema-0")


@pytest.mark.parametrize("trouble", [Trouble.ANSWER_LOST, Trouble.BUSY, Trouble.CUT_UPLOAD])
def test_a_write_whose_requests_are_lost_refused_or_cut_is_made_once(
    s3: str, table: Table, proxy: FaultyProxy, trouble: Trouble
) -> None:
    for number, place in enumerate(SENT, start=1):
        proxy.make(trouble, method="PUT", within=place)
        result = table.write(rows(table, events(10 * number, 10 * number + 10)))
        assert len(proxy.made) == number, f"no request for {place}"
        assert result.snapshot is not None
        assert (result.snapshot.id, result.attempts) == (number + 1, 1)
    again = fresh(s3)
    assert ids(again) == list(range(10 + 10 * len(SENT)))
    assert_sound(again)
    tally("S3 answers lost, requests refused or cut", len(proxy.made))


@pytest.mark.parametrize("trouble", [Trouble.CUT_DOWNLOAD, Trouble.BUSY, Trouble.SLOW])
def test_a_read_that_is_cut_refused_or_slow_is_whole(
    s3: str, table: Table, proxy: FaultyProxy, trouble: Trouble
) -> None:
    for number, place in enumerate(READ, start=1):
        proxy.make(trouble, method="GET", within=place)
        assert ids(fresh(s3)) == list(range(10))
        assert len(proxy.made) == number, f"no request for {place}"
    tally("S3 answers lost, requests refused or cut", len(proxy.made))


def test_a_large_file_whose_last_part_fails_is_never_visible(
    store: Store, proxy: FaultyProxy
) -> None:
    fs, root = store
    output = fs.open_output(f"{root}/large")
    for _ in range(20):
        output.write(b"x" * 1_000_000)
    proxy.make(Trouble.UNKNOWN_KEY, method="PUT", within="partNumber", times=100)
    with pytest.raises(AccessRefused):
        output.write(b"x" * 20_000_000)
    output.close()
    assert fs.list_tree(root) == []
    # The parts that had arrived are given back as well.
    proxy.plans.clear()
    uploads = client("s3", use_listings_cache=False, fixed_upload_size=True).call_s3(
        "list_multipart_uploads", Bucket=root.split("/")[0]
    )
    assert not uploads.get("Uploads")


def test_an_upload_whose_last_answer_is_lost_is_no_missing_file(
    store: Store, proxy: FaultyProxy
) -> None:
    fs, root = store
    output = fs.open_output(f"{root}/large")
    output.write(b"x" * 20_000_000)
    # Sent again, it is refused by stores that forget an upload when it is finished.
    proxy.make(Trouble.ANSWER_LOST, method="POST", within="uploadId")
    proxy.make(Trouble.UPLOAD_GONE, method="POST", within="uploadId")
    with pytest.raises(UnavailableError, match="check whether the file exists"):
        output.close()
    assert [trouble for trouble, *_ in proxy.made] == [Trouble.ANSWER_LOST, Trouble.UPLOAD_GONE]
    assert [each.size for each in fs.list_dir(root)] == [20_000_000]


def test_a_file_that_is_opened_is_looked_up_once(store: Store, proxy: FaultyProxy) -> None:
    fs, root = store
    fs.write_bytes(f"{root}/x", b"abc")
    proxy.seen.clear()
    with fs.open_input(f"{root}/x") as source:
        assert source.read(2) == b"ab"
    assert [method for method, _ in proxy.seen] == ["HEAD", "GET"]


def test_a_store_that_ignores_conditions_is_for_reading_until_it_is_given_a_lock(
    s3: str, table: Table, proxy: FaultyProxy, tmp_path_factory: pytest.TempPathFactory
) -> None:
    proxy.make(Trouble.STRIPPED, method="PUT", times=10_000)
    forget_clients()
    unsafe = fresh(s3)
    assert ids(unsafe) == list(range(10))
    with pytest.raises(UnsafeStore, match="LAKEWRIGHT_LOCK"):
        unsafe.write(rows(unsafe, events(10, 20)))
    assert_sound(unsafe)
    lock = f"sqlite://{tmp_path_factory.mktemp('lock')}/lock"
    locked = Catalog.open(s3, lock=lock).table("db.t")
    locked.write(rows(locked, events(10, 20)))
    assert (
        locked.table_files.fs.put_if_absent(locked.table_files.paths.snapshot(2), b"another")
        is False
    )
    assert ids(locked) == list(range(20))
    assert_sound(locked)
    # A move streams: its last request would carry the condition.
    fs, away = locked.table_files.fs, f"{locked.table_files.paths.root}/away"
    fs.write_bytes(f"{away}/x", b"mine")
    fs.write_bytes(f"{away}/taken", b"theirs")
    assert fs.move_if_absent(f"{away}/x", f"{away}/taken") is False
    assert fs.move_if_absent(f"{away}/x", f"{away}/y") is True
    assert (fs.read_bytes(f"{away}/y"), fs.exists(f"{away}/x")) == (b"mine", False)
    forget_clients()


def every_call(store: Store) -> list[tuple[str, StorageError | object]]:
    """What each call of the file system says."""
    fs, root = store
    path = f"{root}/snapshot/snapshot-1"
    calls = {
        "read_bytes": lambda: fs.read_bytes(path),
        "open_input": lambda: fs.open_input(path),
        "open_output": lambda: fs.open_output(path).close(),
        "write_bytes": lambda: fs.write_bytes(path, b"1"),
        "put_if_absent": lambda: fs.put_if_absent(path, b"1"),
        "replace": lambda: fs.replace(path, b"1"),
        "move_if_absent": lambda: fs.move_if_absent(path, f"{path}-moved"),
        "exists": lambda: fs.exists(path),
        "list_dir": lambda: fs.list_dir(root),
        "list_subdirs": lambda: fs.list_subdirs(root),
        "list_tree": lambda: fs.list_tree(root),
        "delete": lambda: fs.delete(path),
        "delete_tree": lambda: fs.delete_tree(root),
    }
    found: list[tuple[str, StorageError | object]] = []
    for name, call in calls.items():
        try:
            found.append((name, call()))
        except StorageError as error:
            found.append((name, error))
    return found


def test_a_bucket_that_vanishes_is_an_error_of_its_own_for_every_call(store: Store) -> None:
    fs, root = store
    assert fs.put_if_absent(f"{root}/x", b"1")
    fs.delete(f"{root}/x")
    client("s3", use_listings_cache=False).call_s3("delete_bucket", Bucket=root.split("/")[0])
    for name, said in every_call(store):
        assert isinstance(said, StoreNotFound), name
        assert not isinstance(said, FileMissing)
        assert root.split("/")[0] in str(said)


def test_a_table_in_a_bucket_that_vanishes_is_no_empty_table(table: Table) -> None:
    bucket = table.table_files.paths.root.split("/")[0]
    s3_client = client("s3", use_listings_cache=False)
    for each in table.table_files.fs.list_tree(bucket):
        table.table_files.fs.delete(each.path)
    s3_client.call_s3("delete_bucket", Bucket=bucket)
    with pytest.raises(StoreNotFound):
        table.read()
    with pytest.raises(StoreNotFound):
        table.write(rows(table, events(10, 20)))


@pytest.mark.parametrize(
    ("trouble", "kind"), [(Trouble.UNKNOWN_KEY, AccessRefused), (Trouble.CLOCK, ClockJumped)]
)
def test_a_refusal_is_an_error_of_its_own_and_tells_no_secret(
    store: Store,
    proxy: FaultyProxy,
    caplog: pytest.LogCaptureFixture,
    trouble: Trouble,
    kind: type[StorageError],
) -> None:
    proxy.make(trouble, times=10_000)
    with caplog.at_level(logging.DEBUG):
        for name, said in every_call(store):
            assert isinstance(said, kind), name
            assert_tells_nothing(said)
    assert SECRET not in caplog.text


def test_missing_credentials_are_an_error_of_their_own(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    forget_clients()
    for name, said in every_call(store):
        assert isinstance(said, CredentialsMissing), name
        assert "AWS_PROFILE" in str(said)


def test_a_secret_that_a_store_repeats_is_not_repeated(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs, root = store
    with pytest.raises(UnavailableError) as caught, fs.translated(root):  # type: ignore[attr-defined]
        raise OSError(f"bad request with secret {SECRET} at http://ann:pass1234@host/x?sig=abcdef")
    assert_tells_nothing(caught.value)
    assert "pass1234" not in str(caught.value)
    assert "abcdef" not in str(caught.value)


def assert_tells_nothing(said: object) -> None:
    assert isinstance(said, StorageError)
    shown = [repr(said), repr(said.details), *traceback.format_exception(said)]
    assert not any(SECRET in each for each in shown)
    assert SECRET.encode() not in pickle.dumps(said)


def test_no_secret_is_in_a_table_or_in_what_travels_to_workers(s3: str, table: Table) -> None:
    assert SECRET.encode() not in pickle.dumps(table.table_files)
    assert SECRET not in repr(table.table_files)
    for each in table.table_files.fs.list_tree(table.table_files.paths.root):
        assert SECRET.encode() not in table.table_files.fs.read_bytes(each.path)


def count_ids(s3: str) -> int:
    return len(ids(fresh(s3)))


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_store_is_used_in_forked_and_in_spawned_processes(
    s3: str, table: Table, start: str
) -> None:
    assert ids(table) == list(range(10))
    with ProcessPoolExecutor(2, mp_context=mp.get_context(start)) as pool:
        assert list(pool.map(count_ids, [s3, s3], timeout=60)) == [10, 10]
    # And here as before.
    assert ids(table) == list(range(10))


@pytest.mark.mission("FS10")
def test_racing_processes_lose_no_commit(s3: str, table: Table, proxy: FaultyProxy) -> None:
    writers, commits = 3, 3
    context = mp.get_context("spawn")
    barrier = context.Barrier(writers)
    with ProcessPoolExecutor(
        writers, mp_context=context, initializer=share, initargs=(barrier,)
    ) as pool:
        runs = [
            pool.submit(append_many, s3, "db.t", 1 + writer, commits) for writer in range(writers)
        ]
        lost = sum(run.result(timeout=90) for run in runs)
    again = fresh(s3)
    expected = [1000 * (1 + writer) + each for writer in range(writers) for each in range(commits)]
    assert ids(again) == sorted([*range(10), *expected])
    assert [each.id for each in again.history.snapshots()] == list(range(1, 2 + writers * commits))
    assert_only_reachable_files(again)
    tally("commits raced on S3", writers * commits)
    tally("races lost and tried again on S3", lost)
