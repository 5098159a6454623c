"""Table declarations: the schema of a table, the source of its rows, and its upkeep.

The models here are the shape of the YAML. They check each value by itself. `check_declaration` in
`declaration_checks` checks values against each other. `declaration_files` adds file and line to
each problem.

The file is long since every key of a declaration is described here, where its value is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from lakewright.platform.documents.declared_values import Day, Declared, Moment, Text
from lakewright.platform.documents.expectation_catalog import (
    COLUMN_ARGUMENTS,
    check_name_of,
    snake_name,
)
from lakewright.platform.documents.yaml_words import with_arguments_read
from lakewright.platform.tables.epoch_units import UNITS, Origin
from lakewright.platform.tables.partition_keys import PartitionColumn
from lakewright.platform.tables.partition_schemes import (
    Cadence,
    DynamicDimension,
    FormattedColumn,
    PartitionScheme,
    StaticDimension,
    TimeDimension,
    default_formats,
)
from lakewright.platform.tables.refresh import (
    SINGLE_RUN,
    AutomationDeclaration,
    BackfillDeclaration,
    FreshnessDeclaration,
    ScheduleDeclaration,
)
from lakewright.platform.tables.source_declarations import OnBadRow, SourceDeclaration
from lakewright.platform.tables.stream_declarations import StreamDeclaration
from lakewright.platform.tables.upkeep_policies import EngineChoice, SectionPolicy
from lakewright.storage.spec.bucketing import check_said_once, distributed
from lakewright.storage.spec.commit import OnDuplicate
from lakewright.storage.spec.data_types import DataField, parse_data_type
from lakewright.storage.spec.epoch_units import EpochUnit
from lakewright.storage.spec.partition_expiry import TIME_OPTION
from lakewright.storage.spec.schema import Column, SchemaSpec, TableSchema, new_schema
from lakewright.storage.spec.schema_gate import (
    EVERY_COLUMN,
    Compatibility,
    GateRules,
    Rule,
    Waiver,
)
from lakewright.storage.spec.table_distribution import Kind, TableDistribution


def rejects_name(table: str) -> str:
    """The name of the table with the bad rows of a table."""
    return f"{table}__rejects"


class ColumnDeclaration(Declared):
    """One column.

    `default` takes the place of null in written rows, `was` is its former name, and `from` are the
    columns that it is made of, or the unit of the numbers that it is read from.
    """

    name: Text = Field(description="the name of the column")
    type: str = Field(
        description="the type as the format writes it, such as DECIMAL(10, 2) NOT NULL"
    )
    comment: str | None = Field(default=None, description="a description of the column")
    default: Text | None = Field(
        default=None, description="the value that takes the place of null in written rows"
    )
    was: Text | None = Field(default=None, description="the name of the column before a rename")
    origin: Origin = Field(
        default=(),
        alias="from",
        description=(
            "columns of upstream tables, as db.table.column; or what the numbers of the source "
            f"count since 1970: {', '.join(UNITS)}"
        ),
    )

    @property
    def unit(self) -> EpochUnit | None:
        """What numbers of the source count, of a date or a timestamp that comes as a number."""
        return EpochUnit(self.origin[0]) if self.origin and self.origin[0] in UNITS else None

    @property
    def made_of(self) -> tuple[str, ...]:
        """The columns of upstream tables that it is made of."""
        return () if self.unit else self.origin


class TimePartitions(Declared):
    """Partitions by time; `end` is the first moment after the last partition."""

    column: str | None = Field(default=None, description="the partition column that holds the time")
    columns: Mapping[str, str] | None = Field(
        default=None, description="formats by column, where several columns make up the moment"
    )
    format: str | None = Field(
        default=None, description="the layout of text values, in the syntax of strftime"
    )
    start: Moment = Field(description="the first partition")
    end: Moment | None = Field(
        default=None,
        description="the first moment after the last partition; without it partitions go on",
    )
    timezone: str = Field(default="UTC", description="the time zone in which partitions begin")


class StaticPartitions(Declared):
    """Partitions by a fixed list of values of one column."""

    column: str = Field(description="the partition column")
    values: tuple[Text, ...] = Field(description="every value of the column, in order")


class DynamicPartitions(Declared):
    """Partitions that are found in the data."""

    columns: tuple[str, ...] = Field(
        description="the partition columns whose values are found in the data"
    )


class PartitionsDeclaration(Declared):
    """One way to partition, or two that are crossed."""

    hourly: TimePartitions | None = None
    daily: TimePartitions | None = None
    weekly: TimePartitions | None = None
    monthly: TimePartitions | None = None
    static: StaticPartitions | None = None
    dynamic: DynamicPartitions | None = None

    @property
    def given(self) -> Mapping[str, TimePartitions | StaticPartitions | DynamicPartitions]:
        """The given ways, by key."""
        every = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in every.items() if value is not None}


class DistributionDeclaration(Declared):
    """How rows are distributed over buckets, in place of the options `bucket` and `bucket-key`."""

    by: tuple[Text, ...] = Field(
        default=(),
        description="columns whose hash chooses the bucket of a row; without any the primary key",
    )
    buckets: int | None = Field(
        default=None, description="the number of buckets; without it there are as many as rows need"
    )

    @model_validator(mode="after")
    def _check(self) -> DistributionDeclaration:
        self.said  # noqa: B018  # it refuses what goes not together
        return self

    @property
    def said(self) -> TableDistribution:
        """What the clause `DISTRIBUTED` of a statement would say."""
        return TableDistribution(Kind.HASH if self.by else Kind.UNKNOWN, self.buckets, self.by)


class WriteKind(Enum):
    """What a run does with the existing rows of the table."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    UPSERT = "upsert"


class WriteDeclaration(Declared):
    """How rows are written; by default, keyed tables are upserted and others overwritten.

    A stream appends to tables without a key.
    """

    mode: WriteKind | None = None
    engine: EngineChoice = EngineChoice.AUTO
    compact: bool = Field(
        default=False, description="whether a run compacts the buckets that it wrote, if due"
    )
    on_duplicate: OnDuplicate = Field(
        default=OnDuplicate.MERGE,
        description=(
            "what becomes of rows of one run with the same primary key: merge keeps the one with "
            "the greatest `sequence.field`, or one of them without it; refuse fails the run"
        ),
    )


class ExpectationSeverity(Enum):
    """What happens if an expectation is not met."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class ExpectationDeclaration(BaseModel):
    """An expectation of Great Expectations with its arguments, or a query of the rows that fail."""

    # Arguments differ by expectation; `declaration_checks` checks them against the catalogue.
    model_config = ConfigDict(
        extra="allow",
        frozen=True,
        json_schema_extra={"oneOf": [{"required": ["expect"]}, {"required": ["sql"]}]},
    )

    expect: str | None = Field(
        default=None,
        description="an expectation of Great Expectations, by snake or camel name",
    )
    sql: str | None = Field(
        default=None,
        description=(
            "a query that returns the rows which are wrong, or counts them; the rows of the run "
            "are batch, and other tables are database.table; it runs on DuckDB, or on Spark by "
            "`write.engine: spark`"
        ),
    )
    name: str | None = Field(
        default=None,
        description="the name of the asset check; without it made of columns and expectation",
    )
    severity: ExpectationSeverity = ExpectationSeverity.CRITICAL
    show: int = Field(
        default=10, ge=1, le=200, description="how many of the rows that a query returns are shown"
    )

    @property
    def kind(self) -> str:
        """The expectation's snake name; `sql` for a query."""
        return snake_name(self.expect) if self.expect is not None else "sql"

    @property
    def text(self) -> str:
        """The expectation in one line."""
        if self.sql is not None:
            return " ".join(self.sql.split())
        shown = ", ".join(f"{name}={value}" for name, value in self.arguments.items())
        return f"{self.kind}({shown})"

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments that the expectation gets."""
        return dict(self.model_extra or {})

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the arguments name."""
        found: list[str] = []
        for argument in COLUMN_ARGUMENTS:
            value = self.arguments.get(argument)
            given = value if isinstance(value, (list, tuple)) else [value]
            found.extend(each for each in given if isinstance(each, str))
        return tuple(found)

    @property
    def check_name(self) -> str:
        """The name of the asset check, such as `carrier_not_null`."""
        return self.name or check_name_of(self.kind, self.columns)


class OnDestructive(Enum):
    """What a run of `evolve_schema` does with changes that may lose stored values."""

    REFUSE = "refuse"
    PLAN = "plan"
    ALLOW = "allow"


class Evolve(Enum):
    """What a run does about columns that its source has and the table lacks."""

    NEVER = "never"
    ADDITIVE = "additive"


class SchemaValidation(Declared):
    """When a sample of the stored rows is read under the current schema, and how large it is."""

    enabled: bool = Field(
        default=True, description="whether a sample of the rows is read regularly"
    )
    schedule: str = Field(default="47 4 * * *", description="when it runs: cron with five fields")
    timezone: str = Field(default="UTC", description="the time zone of `schedule`")
    files_per_version: int = Field(
        default=2, ge=1, description="how many files of each schema version are read"
    )
    rows_per_file: int = Field(
        default=1000, ge=1, description="how many rows of each file are read"
    )
    engine: EngineChoice = EngineChoice.AUTO


class WaiverDeclaration(Declared):
    """A finding of the gate that its owner accepts until a day."""

    rule: Rule
    column: Text = Field(
        default=EVERY_COLUMN, description="the column of the finding; without it every column"
    )
    owner: Text = Field(description="the person or team that accepts the finding")
    until: Day = Field(description="the day on which the waiver ends")
    reason: Text = Field(default="", description="why the finding is accepted")

    @field_validator("rule")
    @classmethod
    def _check_rule(cls, rule: Rule) -> Rule:
        if not rule.can_be_waived:
            raise ValueError(f"findings of {rule.value} cannot be waived; leave the waiver out")
        return rule


class SchemaPolicy(Declared):
    """How the schema of a table may change.

    `columns` are under contract; without any, all are. `readers` are clients that must be able to
    read the table.

    Destructive changes are drops, of columns that are not declared and of members of rows, and
    casts that may change values. `refuse` fails and changes nothing, `plan` makes the other changes
    and shows the destructive ones as a plan that waits, `allow` makes them too.
    """

    infer: bool = Field(
        default=False,
        description="whether columns that are not declared come from the source's first file",
    )
    on_destructive: OnDestructive = OnDestructive.PLAN
    evolve: Evolve = Field(
        default=Evolve.NEVER,
        description=(
            "whether a run adds columns that its source has and the table lacks: additive adds "
            "them by the gate, and keeps them until they are declared"
        ),
    )
    validation: SchemaValidation = SchemaValidation()
    compatibility: Compatibility = Compatibility.BACKWARD
    columns: tuple[Text, ...] = Field(
        default=(), description="the columns under contract; without any, all are"
    )
    readers: tuple[Text, ...] = Field(
        default=(), description="clients that must be able to read the table"
    )
    waivers: tuple[WaiverDeclaration, ...] = ()

    @property
    def gate_rules(self) -> GateRules:
        """What the gate judges changes by."""
        return GateRules(
            compatibility=self.compatibility,
            columns=self.columns,
            readers=self.readers,
            waivers=tuple(Waiver(**dict(waiver)) for waiver in self.waivers),
        )


def _schema_of_word(given: object) -> object:
    """`schema: infer`, in short."""
    return {"infer": True} if given == "infer" else given


class TableDeclaration(Declared):
    """The declaration of a table.

    A table without a `source` has other writers. The platform only watches and maintains it, and
    its columns need not be declared.
    """

    table: str = Field(description="the name, as database.table")
    comment: str = Field(default="", description="a description of the table, which is stored")
    description: str | None = Field(
        default=None,
        description="the description of the asset, as Markdown; without it the comment",
    )
    group: str | None = Field(
        default=None, description="the group of the asset; without it the database"
    )
    owners: tuple[Text, ...] = Field(
        default=(),
        description="the people responsible for the table: e-mail addresses, or team:name",
    )
    kinds: tuple[Text, ...] = Field(
        default=(), description="labels beside those of format and engine"
    )
    tags: Mapping[str, Text] = Field(default_factory=dict, description="tags of the asset")
    columns: tuple[ColumnDeclaration, ...] = ()
    partition_keys: tuple[str, ...] = Field(default=(), description="the partition columns")
    primary_key: tuple[str, ...] = Field(default=(), description="the columns that identify a row")
    distribution: DistributionDeclaration | None = None
    options: Mapping[str, Text] = Field(
        default_factory=dict, description="options of the table, by Paimon's names"
    )
    partitions: PartitionsDeclaration | None = None
    source: SourceDeclaration | None = None
    depends_on: tuple[str, ...] = Field(
        default=(),
        description="upstream tables, which the source can read, as database.table; and other "
        "assets, by their keys, such as raw_orders or dbt/raw_orders",
    )
    write: WriteDeclaration = WriteDeclaration()
    schedule: ScheduleDeclaration | None = None
    automation: AutomationDeclaration | None = None
    freshness: FreshnessDeclaration | None = None
    backfill: BackfillDeclaration = SINGLE_RUN
    expectations: tuple[ExpectationDeclaration, ...] = ()
    maintenance: SectionPolicy = SectionPolicy()
    # Pydantic's models have a method `schema`.
    schema_policy: Annotated[
        SchemaPolicy,
        BeforeValidator(_schema_of_word, json_schema_input_type=SchemaPolicy | Literal["infer"]),
    ] = Field(default=SchemaPolicy(), alias="schema")

    @model_validator(mode="before")
    @classmethod
    def _read_arguments(cls, declared: object) -> object:
        return with_arguments_read(declared)

    @property
    def grows(self) -> bool:
        """Whether runs add the columns that their source has and the table lacks."""
        return self.schema_policy.evolve is Evolve.ADDITIVE

    def undeclared(self, schema: TableSchema) -> tuple[DataField, ...]:
        """The columns that runs added to a table by `evolve: additive`, and none declares."""
        if not self.grows or not self.columns:
            return ()
        known = {column.name for column in self.columns} | {column.was for column in self.columns}
        return tuple(field for field in schema.fields if field.name not in known)

    def with_undeclared(self, schema: TableSchema) -> TableDeclaration:
        """The declaration with the columns that runs added, in the order of the table."""
        added = {each.name: each for each in self.undeclared(schema)}
        if not added:
            return self
        columns = [*self.columns]
        names = [column.name for column in columns]
        for at, each in enumerate(schema.fields):
            if each.name not in added:
                continue
            before = schema.fields[at - 1].name if at else None
            place = names.index(before) + 1 if before in names else len(names)
            names.insert(place, each.name)
            columns.insert(
                place,
                ColumnDeclaration(
                    name=each.name,
                    type=str(each.type),
                    comment=each.description,
                    default=each.default_value,
                ),
            )
        return self.model_copy(update={"columns": tuple(columns)})

    @property
    def database(self) -> str:
        return self.table.split(".")[0]

    @property
    def is_written_here(self) -> bool:
        """Whether this platform writes the table."""
        return self.source is not None

    @property
    def stream(self) -> StreamDeclaration | None:
        """The stream that the rows come from; None for other sources."""
        return None if self.source is None else self.source.stream

    @property
    def leaves_rows_out(self) -> bool:
        """Whether runs leave bad rows out, and go on."""
        return self.source is not None and self.source.on_bad_row is not OnBadRow.FAIL

    @property
    def keeps_rejects(self) -> bool:
        """Whether the rows that runs leave out are kept in a table beside it."""
        return self.source is not None and self.source.on_bad_row is OnBadRow.QUARANTINE

    @property
    def is_stream(self) -> bool:
        return self.stream is not None

    @property
    def continuous_ms(self) -> int | None:
        """About how long rows of the stream take into the table; None if no sensor follows it."""
        return None if self.automation is None else self.automation.continuous

    @property
    def upstream(self) -> tuple[str, ...]:
        """What it is made of: tables, with the one that streams into it, and other assets."""
        streamed = None if self.stream is None else self.stream.table
        return tuple(dict.fromkeys([*self.depends_on, *([streamed] if streamed else [])]))

    @property
    def upstream_tables(self) -> tuple[str, ...]:
        """The tables in `depends_on`; other assets have no dot in their keys."""
        return tuple(each for each in self.depends_on if "." in each)

    @property
    def expires_partitions(self) -> bool:
        """Whether the declaration says how old partitions may become."""
        policy = self.maintenance.partitions
        return policy.older_than is not None or TIME_OPTION in self.options

    @property
    def may_have_partitions(self) -> bool:
        """Whether the table has partition keys, or its columns are not declared."""
        return bool(self.partition_keys) or not self.columns

    @property
    def write_kind(self) -> WriteKind:
        """The declared mode, or the mode in which a repeated run writes no row twice."""
        if self.write.mode is not None:
            return self.write.mode
        if self.primary_key:
            return WriteKind.UPSERT
        return WriteKind.APPEND if self.is_stream else WriteKind.OVERWRITE

    @cached_property
    def partition_columns(self) -> tuple[PartitionColumn, ...]:
        types = {column.name: column.type for column in self.columns}
        return tuple(
            PartitionColumn(name, parse_data_type(types[name])) for name in self.partition_keys
        )

    @cached_property
    def scheme(self) -> PartitionScheme:
        """How the asset is partitioned; by default, by the partitions found in the data."""
        columns = {column.name: column for column in self.partition_columns}
        if not columns:
            return PartitionScheme()
        if self.partitions is None:
            return PartitionScheme((DynamicDimension(columns=self.partition_columns),))
        return PartitionScheme(
            tuple(_dimension(name, given, columns) for name, given in self.partitions.given.items())
        )

    @property
    def units(self) -> Mapping[str, EpochUnit]:
        """The units of numbers, of the columns that are read from numbers."""
        return {column.name: column.unit for column in self.columns if column.unit is not None}

    @property
    def schema_spec(self) -> SchemaSpec:
        """The schema with which storage creates the table; a distribution is in its options.

        Raises:
            StorageError: the table cannot be distributed as declared.
        """
        # A keyed table needs buckets, so that a key can be found.
        default_options = {"bucket": "1"} if self.primary_key and not self.distribution else {}
        spec = SchemaSpec(
            columns=tuple(
                Column(column.name, parse_data_type(column.type), column.comment, column.default)
                for column in self.columns
            ),
            partition_keys=self.partition_keys,
            primary_keys=self.primary_key,
            options={**default_options, **self.options},
            comment=self.comment,
        )
        if self.distribution is None:
            return spec
        said = self.distribution.said
        check_said_once(said, spec.options, self.table)
        made = distributed(new_schema(spec, time_millis=0), said, self.table)
        return replace(spec, options=made.options)


def _dimension(
    name: str,
    given: TimePartitions | StaticPartitions | DynamicPartitions,
    columns: Mapping[str, PartitionColumn],
) -> TimeDimension | StaticDimension | DynamicDimension:
    match given:
        case StaticPartitions():
            return StaticDimension(column=columns[given.column], values=given.values)
        case DynamicPartitions():
            return DynamicDimension(columns=tuple(columns[column] for column in given.columns))
        case TimePartitions():
            cadence = Cadence(name)
            names = tuple(given.columns or (given.column or "",))
            involved = tuple(columns[each] for each in names)
            formats = tuple((given.columns or {}).values())
            if given.format is not None:
                formats = (given.format,)
            formatted = zip(involved, formats or default_formats(cadence, involved), strict=True)
            return TimeDimension(
                cadence=cadence,
                columns=tuple(FormattedColumn(*pair) for pair in formatted),
                start=given.start,
                end=given.end,
                timezone=given.timezone,
            )
