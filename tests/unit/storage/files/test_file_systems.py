"""The contract of a file system, held against every store that claims it."""

from __future__ import annotations

import multiprocessing as mp
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from lakewright.storage.env import FileSystem
from lakewright.storage.errors import (
    InvalidRequestError,
    StorageError,
    UnavailableError,
    UnsupportedError,
)
from lakewright.storage.files.file_systems import open_file_system
from tests.support.processes.racing import put_each, share
from tests.support.stores.contract import *  # noqa: F403 - every test of the contract, by name
from tests.support.stores.contract import Store
from tests.support.tables.fixtures import memory_uri


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    uri = str(tmp_path / "a b%20#") if request.param == "local" else memory_uri()
    return open_file_system(uri)


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


@pytest.mark.parametrize("uri", ["nosuchstore://bucket/x", "file://host/x"])
def test_stores_that_are_not_implemented_are_refused_by_name(uri: str) -> None:
    with pytest.raises(UnsupportedError, match=r"nosuchstore|host"):
        open_file_system(uri)


def test_a_remote_store_is_named_by_its_uri_and_not_yet_asked() -> None:
    places = {
        "s3://bucket/a/b": ("s3", "bucket/a/b", "s3://bucket/a/b"),
        "s3a://bucket": ("s3", "bucket", "s3://bucket"),
        "gs://bucket/a b%20": ("gs", "bucket/a b%20", "gs://bucket/a b%20"),
        "abfss://box@acme.dfs.core.windows.net/w": (
            "abfss",
            "box/w",
            "abfss://box@acme.dfs.core.windows.net/w",
        ),
        "abfs://box/w/": ("abfss", "box/w", "abfss://box/w"),
        "webhdfs://ann@node:9870/data/w": ("webhdfs", "/data/w", "webhdfs://ann@node:9870/data/w"),
        "ftp://node/w": ("ftp", "/w", "ftp://node/w"),
    }
    for uri, (scheme, root, written) in places.items():
        fs, found = open_file_system(uri)
        assert (fs.scheme, found, fs.uri(found)) == (scheme, root, written)
        assert pickle.loads(pickle.dumps(fs)) == fs


@pytest.mark.parametrize(
    "uri",
    [
        "s3://AKIA:hidden-secret@bucket/x",
        "webhdfs://ann:hidden-secret@node/x",
        "gs://k@bucket/x",
        # A password with a / or an @ in it ends the name of the host too early.
        "ftp://ann:hidden-secret/w@node/x",
        "ftp://ann:pass@hidden-secret:w/w@node/x",
        "webhdfs://ann:1@hidden-secret/w@node/x",
        "abfss://box@acme.dfs.core.windows.net?sv=1&sig=hidden-secret",
        "s3://bucket:hidden-secret/x",
    ],
)
def test_a_uri_with_credentials_is_refused_without_repeating_them(uri: str) -> None:
    with pytest.raises(InvalidRequestError, match="holds credentials") as caught:
        open_file_system(uri)
    assert "hidden-secret" not in repr(caught.value)


@pytest.mark.mission("PT55")
@pytest.mark.parametrize(
    "uri",
    [
        "abfss://box@acme.dfs.core.windows.net/w?sv=1&sig=hidden-secret",
        "gs://bucket/w?token=hidden-secret",
        "s3:///x?X-Amz-Signature=hidden-secret",
        "file://ann:hidden-secret@host/x",
        "nosuchstore://ann:hidden-secret@host/x",
    ],
)
def test_a_uri_that_is_refused_is_not_repeated(uri: str) -> None:
    with pytest.raises((InvalidRequestError, UnsupportedError)) as caught:
        open_file_system(uri)
    assert "hidden-secret" not in repr(caught.value)


def test_a_host_may_have_a_port_and_be_written_as_ipv6() -> None:
    for host in ("node:9870", "[::1]:9870", "[fe80::1]", "ann@node:21", "ann@[::1]:9870"):
        fs, root = open_file_system(f"webhdfs://{host}/w")
        assert fs.uri(root) == f"webhdfs://{host}/w"


def test_a_path_that_the_stores_client_would_cut_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="has a # or a"):
        open_file_system("gs://bucket/a#b")


def test_a_uri_without_a_bucket_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="names no bucket"):
        open_file_system("s3:///path")


def test_a_store_whose_package_is_missing_says_how_to_install_it() -> None:
    fs, root = open_file_system("smb://node/share")
    with pytest.raises(UnsupportedError, match="needs a package"):
        fs.list_dir(root)


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
