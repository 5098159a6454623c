"""Where the rows of a declared table come from, and how files are read."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from pydantic import Field

from lakewright.platform.documents.declared_values import Declared, Text
from lakewright.platform.tables.stream_declarations import StreamDeclaration
from lakewright.storage.spec.extra_columns import ExtraColumns
from lakewright.storage.spec.missing_columns import MissingColumns


class OnBadRow(Enum):
    """What a run does with rows that do not parse or do not fit the table."""

    FAIL = "fail"
    SKIP = "skip"
    QUARANTINE = "quarantine"


class SourceDeclaration(Declared):
    """Where rows come from: a function, a query, a connector, files, or a stream.

    The path of files is a path or a URI of a file, a folder or a pattern, in which `{column}` is
    the value of a partition column. A relative path is relative to the file of the declaration.
    """

    python: str | None = Field(
        default=None, description="a function that returns the rows, as module:function"
    )
    parquet: str | None = Field(
        default=None, description="Parquet files: a path or URI of a file, a folder or a pattern"
    )
    orc: str | None = Field(default=None, description="ORC files, as for parquet")
    avro: str | None = Field(default=None, description="Avro files, as for parquet")
    csv: str | None = Field(default=None, description="CSV files, as for parquet")
    # Pydantic's models have a method `json`.
    json_files: str | None = Field(
        default=None,
        alias="json",
        description="JSON files, an object on each line or arrays of objects, as for parquet",
    )
    sql: str | None = Field(
        default=None,
        description=(
            "a query over tables of the warehouse, or the path of a .sql file with one; it runs "
            "on DuckDB, or on Spark by `write.engine: spark`"
        ),
    )
    connector: str | None = Field(
        default=None,
        description="a connector that `lakewright connectors` lists, with its `options`",
    )
    options: Mapping[str, Text] = Field(
        default_factory=dict,
        description="options of the connector; ${env:NAME} is an environment variable",
    )
    stream: StreamDeclaration | None = Field(
        default=None, description="rows that arrive; each run processes what is new"
    )
    allow_empty: bool = Field(
        default=False,
        description="whether a run may empty partitions that get no rows from the source",
    )
    extra_columns: ExtraColumns = ExtraColumns.REFUSE
    missing_columns: MissingColumns = Field(
        default=MissingColumns.FILL,
        description=(
            "what becomes of declared columns that the source lacks: fill them with the default "
            "or null where the column allows it, or refuse the rows"
        ),
    )
    on_bad_row: OnBadRow = Field(
        default=OnBadRow.FAIL,
        description=(
            "what becomes of rows that do not parse, do not fit their types or row by row "
            "expectations, or were not asked for: quarantine keeps them in `<table>__rejects`"
        ),
    )
    max_bad_rows: int = Field(
        default=10_000, ge=1, description="how many bad rows a run leaves out before it fails"
    )
    delimiter: str = Field(default=",", description="the field separator of a CSV")
    header: bool = Field(
        default=True, description="whether a CSV begins with the names of its columns"
    )
    quote: str = Field(
        default='"', description="the quote character of a CSV; empty for a file without quotes"
    )
    escape: str = Field(default="", description="the escape character of a CSV, such as Spark's \\")
    decimal: str = Field(default=".", description="the decimal point of numbers in a CSV")
    thousands: str = Field(default="", description="the thousands separator of numbers in a CSV")
    encoding: str = Field(default="utf-8", description="the encoding of a CSV or of JSON")
    nulls: tuple[Text, ...] = Field(default=("",), description="unquoted texts that mean null")
    date_format: str | None = Field(
        default=None,
        description="the layout of dates in a CSV or in JSON, in the syntax of strptime",
    )
    timestamp_format: str | None = Field(
        default=None,
        description="the layout of timestamps in a CSV or in JSON, in the syntax of strptime",
    )

    @property
    def given(self) -> Mapping[str, str]:
        """The given sources, by key."""
        stream = None if self.stream is None else self.stream.text
        query = None if self.sql is None else " ".join(self.sql.split())
        every = {
            "python": self.python,
            "sql": query,
            "connector": self.connector,
            **self._files,
            "stream": stream,
        }
        return {name: value for name, value in every.items() if value is not None}

    @property
    def returns_rows(self) -> bool:
        """Whether it is a function, a query or a connector, and no files."""
        return any(each is not None for each in (self.python, self.sql, self.connector))

    @property
    def file_format(self) -> str | None:
        """The format of the files; None for a function or a query."""
        return next((name for name, value in self._files.items() if value is not None), None)

    @property
    def paths(self) -> Mapping[str, str]:
        """The paths that the source names, by key; those of a stream by their own keys."""
        if self.stream is not None:
            return self.stream.paths
        return {name: path for name, path in self._files.items() if path is not None}

    def with_paths(self, paths: Mapping[str, str]) -> SourceDeclaration:
        """The source with other paths of files, by key."""
        if self.stream is not None:
            return self.model_copy(update={"stream": self.stream.with_paths(paths)})
        return self.model_copy(
            update={"json_files" if name == "json" else name: path for name, path in paths.items()}
        )

    @property
    def of_files(self) -> SourceDeclaration:
        """The source of a stream of files as one of files that runs read."""
        assert self.stream is not None
        return self.model_copy(update={"stream": None}).with_paths(self.stream.files)

    @property
    def _files(self) -> Mapping[str, str | None]:
        return {
            "parquet": self.parquet,
            "orc": self.orc,
            "avro": self.avro,
            "csv": self.csv,
            "json": self.json_files,
        }
