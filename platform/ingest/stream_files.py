"""Files of a stream: each is read as the files of a source are, in Spark's tasks.

The stream has the columns of the table, without those that `partition` makes, and with the columns
whose times make them. A folder `key=value` tells the value of a column, as Hive's folders do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa

from lakewright.platform.ingest.epoch_numbers import Units
from lakewright.platform.ingest.find_files import FoundFile
from lakewright.platform.ingest.source_files import SourceFile, fields_with_kinds
from lakewright.platform.tables.source_declarations import SourceDeclaration
from lakewright.platform.tables.source_paths import NULL_FOLDERS, SourcePath
from lakewright.storage import Table
from lakewright.storage.errors import InvalidRequestError, InvalidRows
from lakewright.storage.files.file_systems import open_file_system
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot
from lakewright.storage.spec.partition_clock import EventTime
from lakewright.storage.spec.values import Value, from_python

_AT_TIME = AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=6)
_NOTHING_WRITTEN = "; nothing was written"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFileReader:
    """Reads the files of a stream; it pickles for Spark's tasks."""

    table: str
    source: SourceDeclaration
    fields: tuple[DataField, ...]
    partition_keys: tuple[str, ...]
    units: Units

    def __call__(self, path: str, size_bytes: int) -> Iterator[pa.Table]:
        """The rows of a file that Spark found.

        Raises:
            InvalidRows: the file does not hold what the table has.
        """
        fs, place = open_file_system(path)
        if fs.scheme == "file":
            # Spark escapes nothing in the URI of a local file.
            place = path.removeprefix("file:")
        file = SourceFile(
            file=FoundFile(fs=fs, path=place, size_bytes=size_bytes, values=self._told(place)),
            source=self.source,
            fields=self.fields,
            partition_keys=self.partition_keys,
            units=self.units,
        )
        try:
            yield from file.read(None)
        except InvalidRows as error:
            raise InvalidRows(
                f"{error.message.removesuffix(_NOTHING_WRITTEN)}; nothing of the batch was "
                "written: correct the file or what is declared, and start the stream again",
                **error.details,
            ) from error

    def _told(self, path: str) -> tuple[tuple[str, Value], ...]:
        """The values of columns in the names of the folders below that of the stream."""
        (text,) = self.source.paths.values()
        _, root = open_file_system(SourcePath.parse(text).base)
        fields = {field.name: field for field in self.fields}
        told: dict[str, Value] = {}
        for name in path.removeprefix(root).split("/")[:-1]:
            key, is_pair, value = name.partition("=")
            if not is_pair or unquote(key) not in fields:
                continue
            field = fields[unquote(key)]
            try:
                told[field.name] = (
                    None if value in NULL_FOLDERS else from_python(unquote(value), field.type)
                )
            except InvalidRequestError as error:
                raise InvalidRows(
                    f"{path}: folder {name} is no value of column {field.name}: {error.message}; "
                    "nothing of the batch was written",
                    column=field.name,
                ) from error
        return tuple(told.items())


def stream_file_reader(
    table: Table,
    source: SourceDeclaration,
    partition: Mapping[str, object],
    units: Units | None = None,
) -> StreamFileReader:
    """The reader of files that arrive for a table; `source` names them as those of a run."""
    times = [each.column for each in partition.values() if isinstance(each, EventTime)]
    fields = [each for each in fields_with_kinds(table.schema) if each.name not in partition]
    names = {field.name for field in fields}
    fields += [DataField(-1, name, _AT_TIME) for name in dict.fromkeys(times) if name not in names]
    return StreamFileReader(
        table=table.name,
        source=source,
        fields=tuple(fields),
        partition_keys=table.schema.partition_keys,
        units=units or {},
    )
