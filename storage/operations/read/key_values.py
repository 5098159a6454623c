"""The values that data files hold in the columns that become partition keys.

A file belongs to a partition of the new keys if all of its rows have the same values in them. The
statistics of the file prove it where its bounds are exact. Otherwise its columns are read. A caller
that does not trust the statistics has the columns of all files read, and compared with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from lakewright.storage.codec.arrow_values import value_of
from lakewright.storage.codec.column_stats import file_bounds
from lakewright.storage.errors import VerificationFailed
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.state.file_schemas import FileSchemas
from lakewright.storage.spec.data_types import AtomicType, DataField, not_null
from lakewright.storage.spec.manifest import DataFileMeta, ManifestEntry
from lakewright.storage.spec.values import Value

# Values of the keys in some rows of a file, in the order of the keys.
KeyRow = tuple[Value, ...]
# So many files are read by one task of an engine.
_FILES_A_TASK = 32


@dataclass
class KeyValues:
    """The values of some columns in each live file; what was found out is kept by file name.

    With `reads_all`, columns are read also where statistics prove their values.
    """

    files: TableFiles
    fields: tuple[DataField, ...]
    found: dict[str, frozenset[KeyRow]] = field(default_factory=dict)
    reads_all: bool = False

    def look(self, entries: Iterable[ManifestEntry], engine: Engine) -> None:
        """Find the values of files that are not known yet, from statistics or by reading.

        Raises:
            VerificationFailed: a file was read, and has other values than its statistics prove.
        """
        unknown: list[ManifestEntry] = []
        claimed: dict[str, frozenset[KeyRow]] = {}
        schemas = FileSchemas(self.files)
        for entry in entries:
            if entry.file.file_name in self.found:
                continue
            values = self._by_statistics(entry, schemas)
            if values is not None:
                claimed[entry.file.file_name] = frozenset([values])
            if values is None or (self.reads_all and self._has_columns(entry)):
                unknown.append(entry)
            else:
                self.found[entry.file.file_name] = frozenset([values])
        starts = range(0, len(unknown), _FILES_A_TASK)
        tasks = [tuple(unknown[start : start + _FILES_A_TASK]) for start in starts]
        for task, read in zip(
            tasks, engine.map(partial(_read_values, self.files, self.fields), tasks), strict=True
        ):
            for entry, rows in zip(task, read, strict=True):
                if claimed.get(entry.file.file_name, rows) != rows:
                    raise self._other_values(entry.file, rows)
                self.found[entry.file.file_name] = rows

    def single(self, file: DataFileMeta) -> Mapping[str, Value] | None:
        """The values by column, if all rows of a file share them; None if they differ."""
        rows = self.found[file.file_name]
        if len(rows) != 1:
            return None
        names = (each.name for each in self.fields)
        return dict(zip(names, next(iter(rows)), strict=True))

    def _has_columns(self, entry: ManifestEntry) -> bool:
        """Whether rows of the file tell its values, and not its partition alone."""
        partition = self.files.partitions.of_entry(entry).stored
        return entry.file.row_count > 0 and any(each.name not in partition for each in self.fields)

    def _other_values(self, file: DataFileMeta, rows: frozenset[KeyRow]) -> VerificationFailed:
        names = ", ".join(each.name for each in self.fields)
        return VerificationFailed(
            f"data file {file.file_name} of {self.files.name} has other values of ({names}) than "
            f"its statistics say: one for {file.row_count} rows by these, and {len(rows)} by the "
            "rows, or one that differs. It was not given to a partition. Filters leave rows of it "
            "out, too; let all files be rewritten, with statistics of their rows "
            f"(lakewright sort-compact {self.files.name} --by {self.fields[-1].name})"
        )

    def _by_statistics(self, entry: ManifestEntry, schemas: FileSchemas) -> KeyRow | None:
        """The values of all rows, if metadata proves them."""
        partition = self.files.partitions.of_entry(entry).stored
        if entry.file.row_count == 0:
            return tuple(partition.get(each.name) for each in self.fields)
        if all(each.name in partition for each in self.fields):
            return tuple(partition[each.name] for each in self.fields)
        schema = schemas.schema_of(entry.file)
        bounds = file_bounds(entry.file, schema)
        by_id = {each.id: each for each in schema.fields}
        values: list[Value] = []
        for wanted in self.fields:
            own = by_id.get(wanted.id)
            if wanted.name in partition:
                values.append(partition[wanted.name])
                continue
            if own is None:
                # Rows read as null in a column that was added later.
                values.append(None)
                continue
            known = bounds.get(own.name)
            if known is None or not _is_exact(own, wanted):
                return None
            if known.all_null:
                values.append(None)
            elif known.no_null and known.minimum is not None and known.minimum == known.maximum:
                values.append(known.minimum)
            else:
                return None
        return tuple(values)


def _is_exact(own: DataField, wanted: DataField) -> bool:
    """Whether equal bounds prove equal values: those of texts may be cut, and 0.0 equals -0.0."""
    kind = own.type
    if not isinstance(kind, AtomicType) or not_null(kind) != not_null(wanted.type):
        return False
    return not (kind.root.is_text or kind.root.is_bytes or kind.root.is_floating)


def _read_values(
    files: TableFiles, fields: Sequence[DataField], entries: Sequence[ManifestEntry]
) -> list[frozenset[KeyRow]]:
    """The different values in each file."""
    source = FileRows(files, fields)
    names = [each.name for each in fields]
    found: list[frozenset[KeyRow]] = []
    for entry in entries:
        split = DataSplit(
            partition=entry.partition, bucket=entry.bucket, files=(entry.file,), merge=False
        )
        rows: set[KeyRow] = set()
        for batch in source.batches(split, entry.file):
            distinct = batch.select(names).group_by(names).aggregate([])
            rows.update(_key_rows(distinct.select(names), fields))
        found.append(frozenset(rows))
    return found


def _key_rows(rows: pa.Table, fields: Sequence[DataField]) -> Iterable[KeyRow]:
    columns = [
        [value_of(scalar, each.type) for scalar in rows.column(each.name)] for each in fields
    ]
    return zip(*columns, strict=True)
