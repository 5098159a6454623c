"""Declarations as they were loaded, and what is wrong with their files at the moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from lakewright.platform.documents.yaml_files import FileStamp, Problem, stamps_of, yaml_files
from lakewright.platform.tables.workspace import Workspace, sql_beside


class DeclarationWatch:
    """Reads declarations, and reads them again when their YAML or SQL files have changed."""

    def __init__(self, paths: Sequence[str | Path], read: Callable[[], Workspace]) -> None:
        self._paths, self._read = tuple(map(Path, paths)), read
        # Taken first: a file that changes while it is read is read again by the next look.
        self._stamps = self._stamps_now()
        self.loaded = read()
        self._now = self.loaded

    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the files as they are now."""
        stamps = self._stamps_now()
        if stamps != self._stamps:
            self._now, self._stamps = self._read(), stamps
        return self._now.problems

    def _stamps_now(self) -> tuple[FileStamp, ...]:
        beside = Workspace(sql_paths=sql_beside(self._paths)).sql_files()
        return stamps_of([*yaml_files(self._paths, []), *beside])
