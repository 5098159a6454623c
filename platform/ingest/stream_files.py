"""Files of a stream: each is read as the files of a source are, in Spark's tasks.

The stream has the columns of the table, without those that `partition` makes, and with the columns
whose times make them. A folder `key=value` tells the value of a column, as Hive's folders do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lakewright.platform.ingest.source_files import file_form
from lakewright.platform.tables.source_declarations import SourceDeclaration
from lakewright.storage import Table
from lakewright.storage.codec.conform import Units
from lakewright.storage.errors import InvalidRequestError, InvalidRows
from lakewright.storage.file_reader.location import FoundFile
from lakewright.storage.file_reader.path_pattern import PathPattern, values_of_folders
from lakewright.storage.file_reader.reader import FileReader, fields_with_kinds
from lakewright.storage.files.file_systems import open_file_system
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot
from lakewright.storage.spec.partition_clock import EventTime
from lakewright.storage.spec.values import Value

_AT_TIME = AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=6)
_NOTHING_WRITTEN = "; nothing was written"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFileReader:
    """Reads the files of a stream; it pickles for Spark's tasks."""

    table: str
    source: SourceDeclaration
    fields: tuple[DataField, ...]
    partition_keys: tuple[str, ...]
    needed: tuple[str, ...]
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
        file = FileReader(
            file=FoundFile(fs=fs, path=place, size_bytes=size_bytes, values=self._told(place)),
            form=file_form(self.source),
            fields=self.fields,
            partition_keys=self.partition_keys,
            needed=self.needed,
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
        _, root = open_file_system(PathPattern.parse(text).base)
        folders = path.removeprefix(root).split("/")[:-1]
        try:
            return tuple(
                values_of_folders(folders, {field.name: field for field in self.fields}).items()
            )
        except InvalidRequestError as error:
            raise InvalidRows(
                f"{path}: {error.message}; nothing of the batch was written", **error.details
            ) from error


def stream_file_reader(
    table: Table,
    source: SourceDeclaration,
    partition: Mapping[str, object],
    units: Units | None = None,
) -> StreamFileReader:
    """The reader of files that arrive for a table; `source` names them as those of a run."""
    times = [each.column for each in partition.values() if isinstance(each, EventTime)]
    fields = [field for field in fields_with_kinds(table.schema) if field.name not in partition]
    names = {field.name for field in fields}
    fields += [DataField(-1, name, _AT_TIME) for name in dict.fromkeys(times) if name not in names]
    return StreamFileReader(
        table=table.name,
        source=source,
        fields=tuple(fields),
        partition_keys=table.schema.partition_keys,
        needed=tuple(times),
        units=units or {},
    )
