"""Records of JSON and Avro files, with the line or the row where each begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakewright.storage.codec.hybrid_calendar import HybridCalendar
from lakewright.storage.codec.python_columns import Reading, UnfitValueError, python_column
from lakewright.storage.errors import InvalidRows
from lakewright.storage.files.data_file import in_calendar_of_format
from lakewright.storage.spec.data_types import DataField


@dataclass(frozen=True, slots=True)
class Records:
    """Some records of a file, and the number of the line, or row, where each begins.

    `texts` are the records as the file has them, if it is one of text. Its days are counted by
    `calendar`.
    """

    records: list[Mapping[str, object]]
    numbers: list[int]
    unit: str = "line"
    texts: list[str] = field(default_factory=list)
    calendar: HybridCalendar | None = None

    def part(self, start: int, length: int) -> Records:
        """Some of the records."""
        end = start + length
        return replace(
            self,
            records=self.records[start:end],
            numbers=self.numbers[start:end],
            texts=self.texts[start:end],
        )

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of all members, each once."""
        return tuple(dict.fromkeys(name for record in self.records for name in record))

    def table(self, fields: Sequence[DataField], reading: Reading, *, path: str) -> pa.Table:
        """The columns of these fields; a member that a record lacks is null.

        Raises:
            InvalidRows: a value is not of its column's type.
        """
        columns = []
        for one in fields:
            if reading.requires_members:
                self._check_members(one.name, path)
            values = [record.get(one.name) for record in self.records]
            try:
                columns.append(python_column(values, one, reading))
            except UnfitValueError as error:
                raise InvalidRows(
                    f"{path}: {self.unit} {self.numbers[error.at]}: column {error.path} "
                    f"{error.why}",
                    column=one.name,
                ) from error
        # A table without columns would lose the number of its rows.
        columns.append(pa.nulls(len(self.records)))
        rows = pa.table(columns, names=[*(each.name for each in fields), ""])
        if self.calendar is None:
            return rows
        return in_calendar_of_format(rows, lambda: self.calendar, path=path)

    def _check_members(self, name: str, path: str) -> None:
        for record, number in zip(self.records, self.numbers, strict=True):
            if name not in record:
                raise InvalidRows(
                    f"{path}: {self.unit} {number}: column {name} is missing", column=name
                )
