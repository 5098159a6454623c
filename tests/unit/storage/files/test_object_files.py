"""Object stores without conditional creates, or with refusals without a reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from lakewright.storage.errors import AccessRefused, ClockJumped, StorageError, UnsafeStore
from lakewright.storage.files.clients import forget_clients
from lakewright.storage.files.locks import SqliteLock
from lakewright.storage.files.object_files import ObjectFiles
from tests.support.tables.environment import FixedEnv


class Answer(OSError):
    """As a client raises: with what the store answered."""

    def __init__(self, code: str) -> None:
        super().__init__(f"an error occurred ({code})")
        self.response = {"Error": {"Code": code}}


class UnconditionalStore(MemoryFileSystem):
    """A bucket that answers 501 to a condition."""

    store: dict[str, object] = {}  # noqa: RUF012 - as in the class above
    pseudo_dirs = [""]  # noqa: RUF012 - as in the class above

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: object) -> None:
        if mode == "create":
            raise Answer("NotImplemented")
        super().pipe_file(path, value)

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if mode == "xb":
            raise Answer("NotImplemented")
        return super().open(path, mode, **options)


@dataclass(frozen=True)
class UnconditionalFiles(ObjectFiles):
    scheme = "s3"

    @property
    def fs(self) -> fsspec.AbstractFileSystem:
        return UnconditionalStore(skip_instance_cache=True)

    def _ask_for_bucket(self, bucket: str) -> None:
        """Nothing: it is there."""


class RefusingStore(MemoryFileSystem):
    """A bucket that refuses access; its answer to a HEAD has no room for a reason."""

    def info(self, path: str, **_: object) -> dict[str, object]:
        raise Answer("403")


@dataclass(frozen=True)
class RefusingFiles(UnconditionalFiles):
    reason: str = "AccessDenied"

    @property
    def fs(self) -> fsspec.AbstractFileSystem:
        return RefusingStore(skip_instance_cache=True)

    def _ask_for_bucket(self, bucket: str) -> None:
        raise Answer(self.reason)


@pytest.fixture(autouse=True)
def new_bucket() -> Iterator[None]:
    forget_clients()
    UnconditionalStore.store.clear()
    UnconditionalStore.pseudo_dirs[:] = [""]
    yield
    forget_clients()


def test_a_file_moves_under_a_lock_where_the_store_knows_no_conditions(tmp_path: Path) -> None:
    unsafe = UnconditionalFiles(FixedEnv())
    with pytest.raises(UnsafeStore):
        unsafe.put_if_absent("bucket/t/x", b"mine")
    fs = UnconditionalFiles(FixedEnv(), SqliteLock(str(tmp_path / "lock")))
    assert fs.put_if_absent("/bucket/t/x", b"mine") is True
    assert fs.put_if_absent("/bucket/t/taken", b"theirs") is True
    assert fs.move_if_absent("/bucket/t/x", "/bucket/t/taken") is False
    assert fs.move_if_absent("/bucket/t/x", "/bucket/quarantine/x") is True
    assert fs.read_bytes("/bucket/quarantine/x") == b"mine"
    assert fs.read_bytes("/bucket/t/taken") == b"theirs"
    assert not fs.exists("/bucket/t/x")


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("RequestTimeTooSkewed", ClockJumped),
        ("AccessDenied", AccessRefused),
        ("403", AccessRefused),
    ],
)
def test_a_refusal_without_a_reason_is_asked_for_it(reason: str, kind: type[StorageError]) -> None:
    fs = RefusingFiles(FixedEnv(), reason=reason)
    with pytest.raises(kind):
        fs.exists("bucket/t/x")
    with pytest.raises(kind):
        fs.delete("bucket/t/x")
