"""Statistics files of one table."""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.storage.codec.statistics_json import decode_statistics, encode_statistics
from lakewright.storage.env import Env, FileSystem
from lakewright.storage.errors import CorruptionError, FileMissing
from lakewright.storage.files.paths import TablePaths
from lakewright.storage.spec.table_statistics import STATISTICS_PREFIX, TableStatistics


@dataclass(frozen=True, slots=True)
class StatisticsStore:
    """Reads and writes the statistics files that snapshots name; a file never changes."""

    fs: FileSystem
    paths: TablePaths
    env: Env

    def read(self, name: str) -> TableStatistics:
        """One statistics file.

        Raises:
            CorruptionError: the file is missing though a snapshot names it, or holds no statistics.
        """
        path = self.paths.statistics(name)
        try:
            data = self.fs.read_bytes(path)
        except FileMissing as error:
            raise CorruptionError(
                f"{path} is missing though a snapshot names it; analyze the table again",
                path=path,
            ) from error
        return decode_statistics(data, name=path)

    def new_name(self) -> str:
        """A name for the next file."""
        return f"{STATISTICS_PREFIX}{self.env.new_id()}-0"

    def write(self, name: str, statistics: TableStatistics) -> None:
        """Write one file."""
        self.fs.write_bytes(self.paths.statistics(name), encode_statistics(statistics))
