"""A source that is a stream: files that arrive, changes of another table, or a connector."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field, model_validator

from lakewright.platform.documents.declared_values import Declared, DurationMs, Text
from lakewright.platform.tables.refresh import Shortened
from lakewright.storage.spec.partition_clock import EventTime, ProcessingTime


class StreamedPartition(Shortened):
    """The value of a partition key, or the time that makes it; a value may stand alone."""

    main_key: ClassVar[str] = "value"

    value: Text | None = Field(default=None, description="the value of all rows")
    event_time: Text | None = Field(
        default=None, description="the column of the rows whose time makes the value"
    )
    processing_time: bool = Field(
        default=False, description="whether the time at which a batch is written makes the value"
    )
    layout: Text | None = Field(
        default=None, description="how the time is written, such as yyyy-MM-dd or HH"
    )
    zone: str = Field(default="UTC", description="the time zone by whose clock partitions begin")
    delay: DurationMs = Field(
        default=0, description="how late rows may come before their partition counts as over"
    )

    @model_validator(mode="after")
    def _check_one(self) -> StreamedPartition:
        given = [self.value is not None, self.event_time is not None, self.processing_time]
        if sum(given) != 1:
            raise ValueError(
                "write a value, {event_time: COLUMN}, or {processing_time: true}, and one of them"
            )
        if self.value is not None and self.model_fields_set & {"layout", "zone", "delay"}:
            raise ValueError("layout, zone and delay describe a time; leave them out of a value")
        if self.processing_time and self.delay:
            raise ValueError("delay is for event_time; leave it out")
        return self

    @property
    def of_rows(self) -> object:
        """What a stream takes: a time, or the value of all rows."""
        if self.event_time is not None:
            delay = dt.timedelta(milliseconds=self.delay)
            return EventTime(self.event_time, self.layout, zone=self.zone, delay=delay)
        return ProcessingTime(self.layout, self.zone) if self.processing_time else self.value


class StreamDeclaration(Declared):
    """Rows that arrive: each run of the table processes what is new, each row once."""

    # Pydantic's models have a method `json`.
    json_files: str | None = Field(
        default=None,
        alias="json",
        description="a folder of JSON files: a path or URI, or a pattern of folders",
    )
    csv: str | None = Field(default=None, description="a folder of CSV files, as for json")
    parquet: str | None = Field(default=None, description="a folder of Parquet files")
    orc: str | None = Field(default=None, description="a folder of ORC files")
    avro: str | None = Field(default=None, description="a folder of Avro files")
    table: str | None = Field(
        default=None, description="the table whose rows and changes are read, as database.table"
    )
    connector: str | None = Field(
        default=None,
        description="a connector that `lakewright connectors` lists, with its `options`",
    )
    options: Mapping[str, Text] = Field(
        default_factory=dict,
        description="options of the connector; ${env:NAME} is an environment variable",
    )
    consumer: Text | None = Field(
        default=None,
        description="the consumer that keeps the snapshots of `table` until they are read",
    )
    after: int | None = Field(
        default=None, ge=0, description="a stream of `table` begins with the changes after this one"
    )
    checkpoint: str | None = Field(
        default=None,
        description=(
            "the folder in which Spark keeps what it has read, and the name of a stream without "
            "Spark; without it below the table's own folder"
        ),
    )
    files_per_batch: int | None = Field(
        default=None, ge=1, description="maximum number of files of one commit; without it all"
    )
    rows_per_batch: int | None = Field(
        default=None, ge=1, description="about how many rows of a connector one commit takes"
    )
    partition: Mapping[str, StreamedPartition] = Field(
        default_factory=dict,
        description="partition keys whose values do not come with the rows",
    )

    @property
    def given(self) -> Mapping[str, str]:
        """The given kinds of streams, by key."""
        every = {**self.files, "table": self.table, "connector": self.connector}
        return {name: value for name, value in every.items() if value is not None}

    @property
    def files(self) -> Mapping[str, str]:
        """The folder of files, by format; empty for a table."""
        every = {
            "json": self.json_files,
            "csv": self.csv,
            "parquet": self.parquet,
            "orc": self.orc,
            "avro": self.avro,
        }
        return {name: value for name, value in every.items() if value is not None}

    @property
    def paths(self) -> Mapping[str, str]:
        """The paths that the stream names, by key."""
        kept = {} if self.checkpoint is None else {"checkpoint": self.checkpoint}
        return {**self.files, **kept}

    def with_paths(self, paths: Mapping[str, str]) -> StreamDeclaration:
        """The stream with other paths, by key."""
        return self.model_copy(
            update={"json_files" if name == "json" else name: path for name, path in paths.items()}
        )

    @property
    def partition_of_rows(self) -> Mapping[str, object]:
        """The values and times of partition keys, as a stream takes them."""
        return {name: each.of_rows for name, each in self.partition.items()}

    @property
    def text(self) -> str:
        """The stream in one line."""
        return ", ".join(f"{kind} {where}" for kind, where in self.given.items())
