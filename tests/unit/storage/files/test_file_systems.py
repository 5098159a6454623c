"""The contract of a file system, held against every store that claims it."""

from __future__ import annotations

import multiprocessing as mp
import pickle
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pytest

from lakewright.storage.env import FileSystem
from lakewright.storage.errors import FileMissing, StorageError, UnavailableError, UnsupportedError
from lakewright.storage.files.file_systems import open_file_system
from tests.support.fixtures import memory_uri
from tests.support.racing import put_each, share

Store = tuple[FileSystem, str]


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    uri = str(tmp_path / "a b%20#") if request.param == "local" else memory_uri()
    return open_file_system(uri)


def test_what_is_written_is_read(store: Store) -> None:
    fs, root = store
    fs.write_bytes(f"{root}/deep/down/file", b"abc")
    assert fs.read_bytes(f"{root}/deep/down/file") == b"abc"
    assert fs.exists(f"{root}/deep/down/file")
    with fs.open_input(f"{root}/deep/down/file") as source:
        assert pa.PythonFile(source).read() == b"abc"
    with fs.open_output(f"{root}/other") as output:
        output.write(b"x" * 10)
        assert output.tell() == 10
    assert fs.read_bytes(f"{root}/other") == b"x" * 10


def test_what_is_not_there_is_missing_and_lists_as_nothing(store: Store) -> None:
    fs, root = store
    with pytest.raises(FileMissing):
        fs.read_bytes(f"{root}/nothing")
    with pytest.raises(FileMissing):
        fs.open_input(f"{root}/nothing")
    assert not fs.exists(f"{root}/nothing")
    assert fs.list_dir(f"{root}/nothing") == []
    assert fs.list_subdirs(f"{root}/nothing") == []
    assert fs.list_tree(f"{root}/nothing") == []
    assert fs.delete(f"{root}/nothing") is False
    assert fs.remove_empty_dir(f"{root}/nothing") is False
    fs.delete_tree(f"{root}/nothing")


def test_listings_tell_files_from_folders(store: Store) -> None:
    fs, root = store
    for name in ("a", "b", "f/c", "f/g/d", "h/e"):
        fs.write_bytes(f"{root}/{name}", name.encode())
    assert sorted(each.name for each in fs.list_dir(root)) == ["a", "b"]
    assert [each.size for each in fs.list_dir(root)] == [1, 1]
    assert fs.list_subdirs(root) == ["f", "h"]
    tree = sorted(each.path.removeprefix(f"{root}/") for each in fs.list_tree(root))
    assert tree == ["a", "b", "f/c", "f/g/d", "h/e"]
    assert all(each.modified_ms > 0 for each in fs.list_tree(root))


def test_deleting_takes_what_was_named_and_nothing_else(store: Store) -> None:
    fs, root = store
    for name in ("a", "f/b", "f/c"):
        fs.write_bytes(f"{root}/{name}", b"")
    assert fs.delete(f"{root}/a") is True
    assert fs.remove_empty_dir(f"{root}/f") is False
    assert [fs.delete(f"{root}/f/{name}") for name in "bc"] == [True, True]
    assert fs.remove_empty_dir(f"{root}/f") is True
    fs.write_bytes(f"{root}/g/h/i", b"")
    fs.delete_tree(f"{root}/g")
    assert fs.list_tree(root) == []


def test_a_file_is_put_once(store: Store) -> None:
    fs, root = store
    assert fs.put_if_absent(f"{root}/snapshot/one", b"first") is True
    assert fs.put_if_absent(f"{root}/snapshot/one", b"second") is False
    assert fs.read_bytes(f"{root}/snapshot/one") == b"first"
    # Nothing but the file itself is left.
    assert [each.name for each in fs.list_dir(f"{root}/snapshot")] == ["one"]


def test_a_file_moves_to_where_nothing_is(store: Store) -> None:
    fs, root = store
    fs.write_bytes(f"{root}/from/here", b"mine")
    fs.write_bytes(f"{root}/taken", b"theirs")
    assert fs.move_if_absent(f"{root}/from/here", f"{root}/taken") is False
    assert fs.read_bytes(f"{root}/taken") == b"theirs"
    assert fs.move_if_absent(f"{root}/from/here", f"{root}/to/there") is True
    assert fs.read_bytes(f"{root}/to/there") == b"mine"
    assert not fs.exists(f"{root}/from/here")
    with pytest.raises(FileMissing):
        fs.move_if_absent(f"{root}/from/here", f"{root}/elsewhere")


def test_replacing_sets_the_whole_content(store: Store) -> None:
    fs, root = store
    fs.replace(f"{root}/hints/LATEST", b"a long content")
    fs.replace(f"{root}/hints/LATEST", b"2")
    assert fs.read_bytes(f"{root}/hints/LATEST") == b"2"
    assert [each.name for each in fs.list_dir(f"{root}/hints")] == ["LATEST"]


@pytest.fixture
def impatient_threads() -> Iterator[None]:
    """Threads that take turns after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("impatient_threads")
@pytest.mark.mission("FS10")
def test_of_racing_threads_one_creates_the_file_and_none_sees_half_of_it(store: Store) -> None:
    fs, root = store
    threads, targets = 8, 40
    barrier = Barrier(threads)

    def race(writer: int) -> list[int]:
        won = []
        for target in range(targets):
            path, data = f"{root}/target-{target}", f"{writer}".encode() * 5000
            barrier.wait()
            if fs.put_if_absent(path, data):
                won.append(target)
            # Whoever came first, what is there is whole.
            assert len(set(fs.read_bytes(path))) == 1
            assert len(fs.read_bytes(path)) == 5000
        return won

    with ThreadPoolExecutor(threads) as pool:
        won = [target for each in pool.map(race, range(threads)) for target in each]
    assert sorted(won) == list(range(targets))
    assert len(fs.list_tree(root)) == targets


@pytest.mark.usefixtures("impatient_threads")
def test_a_reader_of_a_file_being_replaced_sees_one_version_of_it(store: Store) -> None:
    fs, root = store
    path, rounds = f"{root}/hint", 300
    fs.replace(path, b"0" * 1000)

    def write() -> None:
        for number in range(rounds):
            fs.replace(path, str(number % 10).encode() * 1000)

    def read() -> set[int]:
        return {len(fs.read_bytes(path)) for _ in range(rounds)}

    with ThreadPoolExecutor(3) as pool:
        writer = pool.submit(write)
        readers = [pool.submit(read) for _ in range(2)]
        writer.result()
        assert {size for each in readers for size in each.result()} == {1000}


@pytest.mark.mission("FS10")
def test_of_racing_processes_one_creates_the_file(tmp_path: Path) -> None:
    processes, targets = 3, 150
    context = mp.get_context("spawn")
    barrier = context.Barrier(processes)
    with ProcessPoolExecutor(
        processes, mp_context=context, initializer=share, initargs=(barrier,)
    ) as pool:
        runs = [pool.submit(put_each, str(tmp_path), each, targets) for each in range(processes)]
        winners = {(writer, target) for writer, run in enumerate(runs) for target in run.result()}
    assert sorted(target for _, target in winners) == list(range(targets))
    for writer, target in winners:
        assert (tmp_path / f"target-{target}").read_bytes() == f"{writer}:{target}".encode() * 1000


def test_a_local_store_travels_to_other_processes(tmp_path: Path) -> None:
    fs, root = open_file_system(str(tmp_path))
    copy: FileSystem = pickle.loads(pickle.dumps(fs))
    copy.write_bytes(f"{root}/x", b"1")
    assert fs.read_bytes(f"{root}/x") == b"1"


def test_a_store_is_named_by_path_or_uri(tmp_path: Path) -> None:
    plain = tmp_path / "a b%20#c"
    for uri in (str(plain), plain.as_uri(), "file:" + plain.as_uri().removeprefix("file://")):
        fs, root = open_file_system(uri)
        assert (fs.scheme, root) == ("file", str(plain))
        assert fs.uri(root) == plain.as_uri()
    fs, root = open_file_system("memory://w/x")
    assert (fs.scheme, root, fs.uri(root)) == ("memory", "/w/x", "memory://w/x")


def test_a_relative_path_is_taken_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_file_system("w")[1] == str(tmp_path / "w")


@pytest.mark.parametrize("uri", ["s3://bucket/x", "hdfs://host/x", "file://host/x"])
def test_stores_that_are_not_implemented_are_refused_by_name(uri: str) -> None:
    with pytest.raises(UnsupportedError, match=r"s3|hdfs|host"):
        open_file_system(uri)


@pytest.fixture
def blocked(tmp_path: Path) -> Store:
    """A folder whose name a file has taken."""
    fs, root = open_file_system(str(tmp_path))
    (tmp_path / "folder").write_text("a file")
    return fs, f"{root}/folder"


def test_what_the_disk_refuses_is_said_in_words_of_ours(blocked: Store) -> None:
    fs, folder = blocked
    with pytest.raises(UnavailableError, match="cannot be reached"):
        fs.write_bytes(f"{folder}/x", b"")
    with pytest.raises(StorageError):
        fs.put_if_absent(f"{folder}/x", b"")
    with pytest.raises(StorageError):
        fs.read_bytes(f"{folder}/x")
