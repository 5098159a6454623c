"""The place of a warehouse that is no folder: only its server says where tables lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import FileMissing, UnsupportedError
from lakewright.storage.files.read_only_files import ReadOnlyFiles


@dataclass(frozen=True)
class NoFiles(ReadOnlyFiles):
    """A store without a file, in which none can be written; `where` is the warehouse's address."""

    where: str = ""

    @property
    def scheme(self) -> str:
        return "rest"

    def uri(self, path: str) -> str:
        return self.where

    def read_bytes(self, path: str) -> bytes:
        raise FileMissing(f"file {path} does not exist in {self.where}", path=path)

    def open_input(self, path: str) -> Any:
        return self.read_bytes(path)

    def exists(self, path: str) -> bool:
        # The warehouse itself, of which the server has answered.
        return not path

    def list_dir(self, path: str) -> list[FileStatus]:
        return []

    def list_subdirs(self, path: str) -> list[str]:
        return []

    def list_tree(self, path: str) -> list[FileStatus]:
        return []

    def list_links(self, path: str, *, at_any_depth: bool = False) -> list[str]:
        return []

    def _refuse(self, what: str) -> NoReturn:
        raise UnsupportedError(
            f"{self.where} is a REST catalog, which has tables and no folder of its own, so it was "
            f"refused to {what}"
        )
