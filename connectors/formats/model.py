"""What a format is: planned from options, then a decoder or an encoder that crosses processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import pyarrow as pa

from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.options import Option, ReadOptions
from lakewright.storage.file_reader.file_form import FileForm
from lakewright.storage.spec.data_types import DataField, DataType

# Told of a message that gives no row: its number among those given, from 0, and why.
OnBadRecord = Callable[[int, str], None]


class Decoder(Protocol):
    """Makes rows of messages. It pickles."""

    def decode(
        self, messages: Sequence[bytes | None], on_bad: OnBadRecord | None = None
    ) -> pa.RecordBatch:
        """The rows of some messages, in the format's fields.

        A message may give no row, or several. If the format's mode is not insert-only, the last
        column is `_rowkind`. With `on_bad`, a message that cannot be decoded gives no row.

        Raises:
            InvalidRows: a message cannot be decoded, and there is no `on_bad`.
        """
        ...


class Encoder(Protocol):
    """Makes one message of each row. It pickles."""

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        """A message for each row; None is a deletion without a value.

        Raises:
            InvalidRows: a row has a kind or a value that the format cannot hold.
        """
        ...


class DecodingFormat(ABC):
    """A format with its options, before the columns are known."""

    @abstractmethod
    def changelog_mode(self) -> ChangelogMode:
        """The kinds of rows that it gives."""

    @abstractmethod
    def decoder(self, fields: Sequence[DataField]) -> Decoder:
        """What decodes messages into columns.

        Raises:
            UnsupportedError: the format has no form for a column's type.
        """

    def file_form(self) -> FileForm | None:
        """How files of the format are read; None if each of their lines is a message."""
        return None

    def readable_metadata(self) -> dict[str, DataType]:
        """Metadata of a message that a table may have as columns, with their types, by key.

        A decoder gives them in fields that are named by the key behind `metadata.`.
        """
        return {}


@runtime_checkable
class SupportsKey(Protocol):
    """A decoding format that finds the former row of an update by the table's key."""

    def with_key(self, key: Sequence[str]) -> DecodingFormat:
        """The format for a table with a primary key."""
        ...


class EncodingFormat(ABC):
    """A format with its options, before the columns are known."""

    @abstractmethod
    def changelog_mode(self) -> ChangelogMode:
        """The kinds of rows that it takes."""

    @abstractmethod
    def encoder(self, fields: Sequence[DataField]) -> Encoder:
        """What encodes rows with these columns, and `_rowkind` if the mode is not insert-only.

        Raises:
            UnsupportedError: the format has no form for a column's type.
        """


class FormatFactory(ABC):
    """What is found by the name of a format; roles are the two classes below it."""

    identifier: str
    description: str = ""
    # Their names stand without the format's prefix: `field-delimiter`, not `csv.field-delimiter`.
    required_options: Sequence[Option] = ()
    optional_options: Sequence[Option] = ()


@runtime_checkable
class DecodingFormatFactory(Protocol):
    """Makes decoding formats."""

    identifier: str
    required_options: Sequence[Option]
    optional_options: Sequence[Option]

    def decoding_format(self, options: ReadOptions) -> DecodingFormat: ...


@runtime_checkable
class EncodingFormatFactory(Protocol):
    """Makes encoding formats."""

    identifier: str
    required_options: Sequence[Option]
    optional_options: Sequence[Option]

    def encoding_format(self, options: ReadOptions) -> EncodingFormat: ...
