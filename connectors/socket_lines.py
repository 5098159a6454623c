"""`socket`: records that a server sends over TCP, one after the other, decoded by a format.

Nothing remembers what was sent, so what is lost on the way, or was read when the process stopped,
does not come again. It is for trying things out, with one reader.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakewright.connectors.factories import FORMAT, Context, DynamicTableFactory
from lakewright.connectors.formats.model import Decoder, DecodingFormat
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.options import Option, OptionKind
from lakewright.connectors.runtime import Offset, Scan, Split
from lakewright.connectors.sources import ScanTableSource
from lakewright.storage.errors import UnavailableError
from lakewright.storage.spec.data_types import DataField

_WAIT_SECONDS = 0.2
_CHUNK_BYTES = 1 << 16
# A record without an end is damage, or another protocol.
_MOST_BYTES = 1 << 26


class Socket(DynamicTableFactory):
    """Makes the source."""

    identifier = "socket"
    description = "records that a server sends over TCP"
    required_options = (
        Option(name="hostname", description="the server"),
        Option(name="port", kind=OptionKind.INTEGER, description="where it listens", minimum=1),
    )
    optional_options = (
        Option(
            name="byte-delimiter",
            kind=OptionKind.INTEGER,
            description="the byte between two records; 10 is the end of a line",
            default=10,
            minimum=0,
        ),
    )
    format_options = (FORMAT,)

    def create_source(self, context: Context) -> ScanTableSource:
        options = context.options
        delimiter = bytes([options["byte-delimiter"]])
        address = options["hostname"], options["port"]
        return _SocketSource(address, delimiter, context.decoding_format(), context.table.fields)


class _SocketSource(ScanTableSource):
    def __init__(
        self,
        address: tuple[str, int],
        delimiter: bytes,
        decoding: DecodingFormat,
        fields: Sequence[DataField],
    ) -> None:
        self._address, self._delimiter = address, delimiter
        self._decoding, self._fields = decoding, tuple(fields)

    @property
    def summary(self) -> str:
        return f"socket of {self._address[0]}:{self._address[1]}"

    def changelog_mode(self) -> ChangelogMode:
        return self._decoding.changelog_mode()

    def scan(self) -> Scan:
        return _SocketScan(self._address, self._delimiter, self._decoding.decoder(self._fields))


class _SocketScan(Scan):
    """An offset is the number of records before it; those that came wait in this process."""

    is_bounded = False

    def __init__(self, address: tuple[str, int], delimiter: bytes, decoder: Decoder) -> None:
        self._address, self._delimiter, self._decoder = address, delimiter, decoder
        self._connection: socket.socket | None = None
        self._first = 0
        self._records: list[bytes] = []
        self._rest = b""
        self._is_over = False

    def __getstate__(self) -> dict[str, object]:
        # Tasks decode; the connection and what came stay where they are.
        return {**self.__dict__, "_connection": None, "_records": [], "_rest": b""}

    def earliest(self) -> Offset:
        return {"records": 0}

    def latest(self, start: Offset, limit: int | None = None) -> Offset:
        given: int = start["records"]
        if not self._records and self._first < given:
            # Started again: what came before is gone.
            self._first = given
        self._receive()
        there = self._first + len(self._records)
        return {"records": there if limit is None else min(there, given + limit)}

    def plan(self, start: Offset, end: Offset) -> Sequence[Split]:
        first, last = start["records"] - self._first, end["records"] - self._first
        return [self._records[max(0, first) : max(0, last)]] if last > first else []

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        yield self._decoder.decode(split)

    def is_over(self, offset: Offset) -> bool:
        return self._is_over and offset["records"] >= self._first + len(self._records)

    def acknowledge(self, end: Offset) -> None:
        done = end["records"] - self._first
        self._records, self._first = self._records[done:], end["records"]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _receive(self) -> None:
        """Take what has come, and wait a little for the first of it."""
        if self._is_over:
            return
        connection = self._connected()
        try:
            while chunk := connection.recv(_CHUNK_BYTES):
                *records, self._rest = (self._rest + chunk).split(self._delimiter)
                self._records += records
                if len(self._rest) > _MOST_BYTES:
                    raise UnavailableError(
                        f"socket {self._address[0]}:{self._address[1]} sent {len(self._rest)} "
                        f"bytes without the delimiter {self._delimiter!r}; say byte-delimiter"
                    )
                if len(chunk) < _CHUNK_BYTES and self._records:
                    return
        except TimeoutError:
            return
        self._is_over = True
        if self._rest:
            self._records.append(self._rest)
            self._rest = b""

    def _connected(self) -> socket.socket:
        if self._connection is None:
            try:
                self._connection = socket.create_connection(self._address, timeout=10)
            except OSError as error:
                host, port = self._address
                raise UnavailableError(
                    f"no server at {host}:{port}: {error}; start one first, such as `nc -lk {port}`"
                ) from error
            self._connection.settimeout(_WAIT_SECONDS)
        return self._connection
