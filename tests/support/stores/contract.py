"""The contract of a file system, as tests for every store.

A module with a fixture `store` imports the tests.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.storage.env import FileSystem
from lakewright.storage.errors import FileMissing

Store = tuple[FileSystem, str]

# Repeats of the racing tests; a store over a network is slow.
THREADS = 8
TARGETS = {"file": 40, "memory": 40}
ROUNDS = {"file": 300, "memory": 300}

# Stores where a folder went with its last file; and those that could take files with a folder, so
# that it is left there.
WITHOUT_FOLDERS = ("s3", "gs", "abfss")
LEAVE_FOLDERS = ("plain",)


def test_what_is_written_is_read(store: Store) -> None:
    fs, root = store
    fs.write_bytes(f"{root}/deep/down/file", b"abc")
    assert fs.read_bytes(f"{root}/deep/down/file") == b"abc"
    assert fs.exists(f"{root}/deep/down/file")
    with fs.open_input(f"{root}/deep/down/file") as source:
        assert pa.PythonFile(source).read() == b"abc"
    fs.write_bytes(f"{root}/empty", b"")
    assert fs.exists(f"{root}/empty")
    assert fs.read_bytes(f"{root}/empty") == b""
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
    removed = fs.remove_empty_dir(f"{root}/f")
    assert removed is (fs.scheme not in WITHOUT_FOLDERS + LEAVE_FOLDERS)
    assert fs.list_subdirs(root) == ([] if fs.scheme not in LEAVE_FOLDERS else ["f"])
    fs.write_bytes(f"{root}/g/h/i", b"")
    fs.delete_tree(f"{root}/g")
    assert fs.list_tree(root) == []


def test_a_file_is_put_once(store: Store) -> None:
    fs, root = store
    assert fs.put_if_absent(f"{root}/snapshot/one", b"first") is True
    assert fs.put_if_absent(f"{root}/snapshot/one", b"second") is False
    assert fs.read_bytes(f"{root}/snapshot/one") == b"first"
    # Only the file itself is left.
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
    """Make threads switch after a few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("impatient_threads")
def test_of_racing_threads_one_creates_the_file_and_none_sees_half_of_it(store: Store) -> None:
    fs, root = store
    threads, targets = THREADS, TARGETS.get(fs.scheme, 8)
    barrier = Barrier(threads)

    def race(writer: int) -> list[int]:
        won = []
        for target in range(targets):
            path, data = f"{root}/target-{target}", f"{writer}".encode() * 5000
            barrier.wait(60)
            if fs.put_if_absent(path, data):
                won.append(target)
            # Whichever write wins, the file is complete.
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
    path, rounds = f"{root}/hint", ROUNDS.get(fs.scheme, 25)
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


def test_a_file_of_many_parts_is_read_piece_by_piece(store: Store) -> None:
    fs, root = store
    piece = bytes(range(256)) * 4096
    with fs.open_output(f"{root}/large") as output:
        for number in range(10):
            output.write(bytes([number]) + piece)
    assert [each.size for each in fs.list_dir(root)] == [10 * (len(piece) + 1)]
    with fs.open_input(f"{root}/large") as source:
        source.seek(9 * (len(piece) + 1))
        assert bytes(source.read(3)) == b"\x09\x00\x01"
        source.seek(-2, 2)
        assert bytes(source.read()) == b"\xfe\xff"
        source.seek(0)
        assert len(bytes(source.read())) == 10 * (len(piece) + 1)
    assert fs.move_if_absent(f"{root}/large", f"{root}/quarantine/large") is True
    assert fs.read_bytes(f"{root}/quarantine/large")[-1] == 255
    assert fs.list_dir(root) == []


def test_parquet_is_written_and_its_columns_are_read(store: Store) -> None:
    fs, root = store
    rows = pa.table({"a": range(200_000), "b": [f"{number}" for number in range(200_000)]})
    with (
        fs.open_output(f"{root}/rows.parquet") as output,
        pq.ParquetWriter(output, rows.schema) as writer,
    ):
        writer.write_table(rows, row_group_size=50_000)
    with fs.open_input(f"{root}/rows.parquet") as source:
        file = pq.ParquetFile(source, pre_buffer=True)
        assert file.read(columns=["b"]) == rows.select(["b"])
        assert file.read_row_group(3, columns=["a"]) == rows.select(["a"]).slice(150_000)


def test_a_store_travels_to_other_threads(store: Store) -> None:
    fs, root = store
    copy: FileSystem = pickle.loads(pickle.dumps(fs))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(copy.write_bytes, f"{root}/x", b"1").result()
    assert fs.read_bytes(f"{root}/x") == b"1"


def test_a_copy_has_the_bytes_of_its_source_and_says_how_many(store: Store) -> None:
    fs, root = store
    fs.write_bytes(f"{root}/source", b"12345")
    assert fs.copy(f"{root}/source", f"{root}/new/folder/copy") == 5
    fs.delete(f"{root}/source")
    assert fs.read_bytes(f"{root}/new/folder/copy") == b"12345"
    with pytest.raises(FileMissing):
        fs.copy(f"{root}/source", f"{root}/other")
