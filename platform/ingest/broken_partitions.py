"""Partitions of a run whose files cannot be read: they are left out, and the others published.

Which partition a file belongs to is known only if its path tells all partition columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.partition_keys import partition_identity
from lakewright.storage.errors import InvalidRows
from lakewright.storage.file_reader.bad_rows import TooManyBadRows, reason_of
from lakewright.storage.file_reader.reader import FileReader
from lakewright.storage.spec.values import to_python

Spec = Mapping[str, object]


@dataclass
class BrokenPartitions:
    """Takes the errors of files whose paths tell their partitions.

    With `grows`, a file with new columns is no broken one: the table gets its columns first.
    """

    declaration: TableDeclaration
    grows: bool = False
    errors: dict[tuple[tuple[str, object], ...], InvalidRows] = field(default_factory=dict)
    specs: list[Spec] = field(default_factory=list)

    @property
    def first(self) -> InvalidRows:
        return next(iter(self.errors.values()))

    def leaves_out(self, file: FileReader, error: InvalidRows) -> bool:
        """Whether a file is left out with all of its partition."""
        columns = {
            partition_column.name: partition_column.type
            for partition_column in self.declaration.partition_columns
        }
        told = {
            name: to_python(value, columns[name])
            for name, value in file.file.values
            if name in columns
        }
        is_new = self.grows and bool(error.details.get("new"))
        if told.keys() != columns.keys() or is_new or isinstance(error, TooManyBadRows):
            return False
        spec = {name: told[name] for name in columns}
        if not self.has(spec):
            self.errors[partition_identity(spec)] = error
            self.specs.append(spec)
        return True

    def has(self, spec: Spec) -> bool:
        return partition_identity(spec) in self.errors

    def why(self, spec: Spec) -> str:
        return reason_of(self.errors[partition_identity(spec)])


def broken_partitions(
    declaration: TableDeclaration, asked: Sequence[Spec] | None, *, grows: bool
) -> BrokenPartitions | None:
    """What takes errors of files; None where the run has one partition, which fails with it."""
    if not declaration.partition_keys or (asked is not None and len(asked) < 2):
        return None
    return BrokenPartitions(declaration, grows)
