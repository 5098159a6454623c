"""Files that are only read: every call that would change the store is refused."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import IO, Any, NoReturn

from lakewright.storage.env import FileStatus, FileSystem
from lakewright.storage.errors import InvalidRequestError


@dataclass(frozen=True)
class ReadOnlyFiles:
    """A store without its changes: nothing that is done over it can write or delete."""

    under: FileSystem

    @property
    def scheme(self) -> str:
        return self.under.scheme

    def uri(self, path: str) -> str:
        return self.under.uri(path)

    def read_bytes(self, path: str) -> bytes:
        return self.under.read_bytes(path)

    def open_input(self, path: str) -> Any:
        return self.under.open_input(path)

    def exists(self, path: str) -> bool:
        return self.under.exists(path)

    def list_dir(self, path: str) -> list[FileStatus]:
        return self.under.list_dir(path)

    def list_subdirs(self, path: str) -> list[str]:
        return self.under.list_subdirs(path)

    def list_tree(self, path: str) -> list[FileStatus]:
        return self.under.list_tree(path)

    def list_links(self, path: str, *, at_any_depth: bool = False) -> list[str]:
        return self.under.list_links(path, at_any_depth=at_any_depth)

    def open_output(self, path: str) -> IO[bytes]:
        self._refuse(f"write {path}")

    def write_bytes(self, path: str, data: bytes) -> None:
        self._refuse(f"write {path}")

    def copy(self, source: str, target: str) -> int:
        self._refuse(f"write {target}")

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._refuse(f"write {path}")

    def replace(self, path: str, data: bytes) -> None:
        self._refuse(f"replace {path}")

    def move_if_absent(self, source: str, target: str) -> bool:
        self._refuse(f"move {source} to {target}")

    def make_dirs(self, path: str) -> None:
        self._refuse(f"make the folder {path}")

    def make_durable(self, paths: Collection[str], *, below: str | None = None) -> None:
        self.under.make_durable(paths, below=below)

    def make_all_durable(self, path: str) -> None:
        self.under.make_all_durable(path)

    def delete(self, path: str) -> bool:
        self._refuse(f"delete {path}")

    def delete_tree(self, path: str) -> None:
        self._refuse(f"delete {path}")

    def remove_empty_dir(self, path: str) -> bool:
        self._refuse(f"remove the folder {path}")

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidRequestError(
            f"the warehouse was opened to be read only, so it was refused to {what}; open it with "
            "Catalog.open, or call the command that does this",
            refused=what,
        )
