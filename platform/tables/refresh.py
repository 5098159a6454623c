"""When a table is written, by itself or after its upstream, and how old its rows may become."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, ClassVar

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from lakewright.platform.documents.declared_values import DURATION_PATTERN, Declared, DurationMs
from lakewright.platform.documents.wrong_places import did_you_mean


class Shortened(Declared):
    """A mapping of which the value of one key may stand alone: `schedule: "0 5 * * *"`."""

    main_key: ClassVar[str]

    @model_validator(mode="before")
    @classmethod
    def _read_main_key(cls, given: object) -> object:
        return {cls.main_key: given} if isinstance(given, str) else given

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        reference = handler(core)
        schema = handler.resolve_ref_schema(reference)
        whole = dict(schema)
        alone = whole["properties"][cls.main_key]
        schema.clear()
        schema |= {"description": whole.pop("description"), "anyOf": [alone, whole]}
        return reference


class ScheduleDeclaration(Shortened):
    """When the ingest job runs; a cron schedule may stand alone."""

    main_key: ClassVar[str] = "cron"

    cron: str = Field(description="cron of five fields, when the table is written")
    timezone: str = Field(default="UTC", description="the time zone of `cron`")
    partitions: int = Field(
        default=1, ge=1, description="how many partitions by time are written, the last to end"
    )
    enabled: bool = Field(default=True, description="whether the schedule runs")


class AutomationKind(Enum):
    """Conditions without a schedule under which Dagster writes a table by itself."""

    EAGER = "eager"
    ON_MISSING = "on_missing"


_Delay = Annotated[
    DurationMs,
    # Scalars of YAML come as texts.
    BeforeValidator(lambda given: "1min" if given in (True, "true") else given),
    WithJsonSchema({"type": ["string", "boolean"], "pattern": DURATION_PATTERN}),
]


class AutomationDeclaration(Shortened):
    """When Dagster writes the table by itself.

    It is eager, on_missing, on_cron with a schedule, or of a stream continuous with a delay.
    """

    main_key: ClassVar[str] = "when"

    when: AutomationKind | None = Field(
        default=None,
        description="eager: after each change upstream; on_missing: once upstream has all rows",
    )
    on_cron: str | None = Field(
        default=None,
        description="cron of five fields: after each tick, as soon as upstream was written, too",
    )
    timezone: str = Field(default="UTC", description="the time zone of `on_cron`")
    continuous: _Delay | None = Field(
        default=None,
        description="of a stream: about how long rows take from the source into the table; true "
        "is 1min",
    )

    @field_validator("when", mode="before")
    @classmethod
    def _check_when(cls, given: object) -> object:
        known = [each.value for each in AutomationKind]
        if isinstance(given, str) and given not in known:
            near = did_you_mean(given, [*known, "on_cron", "continuous"])
            raise ValueError(
                f'{given!r} is no automation; {near} ({{on_cron: "0 6 * * *"}}, {{continuous: 1m}})'
            )
        return given

    @model_validator(mode="after")
    def _check_one(self) -> AutomationDeclaration:
        if [self.when, self.on_cron, self.continuous].count(None) != 2:
            raise ValueError(
                'write eager, on_missing, {on_cron: "0 6 * * *"}, or {continuous: 1m} of a stream'
            )
        return self


class FreshnessDeclaration(Shortened):
    """How old the rows may become; a duration may stand alone."""

    main_key: ClassVar[str] = "within"

    within: DurationMs | None = Field(
        default=None, description="the table is stale if its last write is older"
    )
    warn_after: DurationMs | None = Field(
        default=None, description="Dagster warns if the last write is older; with `within`"
    )
    by: str | None = Field(
        default=None, description="cron of five fields: the table is stale if a tick finds it old"
    )
    not_before: DurationMs | None = Field(
        default=None,
        description="a write counts for a tick of `by` if it is no older at the tick; without it "
        "each write since the tick before",
    )
    timezone: str = Field(default="UTC", description="the time zone of `by`")
    newest_partition: bool = Field(
        default=False,
        description="whether a check asks at each tick of `by` that the partition by time which "
        "ended last has rows",
    )

    @model_validator(mode="after")
    def _check_one(self) -> FreshnessDeclaration:
        if (self.within is None) == (self.by is None):
            raise ValueError('write a duration such as 36h, or {by: "0 9 * * *"}')
        return self


class BackfillRuns(Enum):
    """How many partitions a run of a backfill writes: all of them, or one."""

    SINGLE_RUN = "single_run"
    MULTI_RUN = "multi_run"


class BackfillDeclaration(Shortened):
    """How a backfill is cut into runs: single_run, multi_run, or batches_of N partitions."""

    main_key: ClassVar[str] = "runs"

    runs: BackfillRuns | None = Field(
        default=None, description="single_run: all partitions in one run; multi_run: a run for each"
    )
    batches_of: int | None = Field(
        default=None, ge=1, description="how many partitions one run writes"
    )

    @field_validator("runs", mode="before")
    @classmethod
    def _check_runs(cls, given: object) -> object:
        known = [BackfillRun.value for BackfillRun in BackfillRuns]
        if isinstance(given, str) and given not in known:
            near = did_you_mean(given, [*known, "batches_of"])
            raise ValueError(f"{given!r} is no way to cut a backfill; {near}")
        return given

    @model_validator(mode="after")
    def _check_one(self) -> BackfillDeclaration:
        if (self.runs is None) == (self.batches_of is None):
            raise ValueError("write single_run, multi_run, or {batches_of: 30}")
        return self

    @property
    def partitions_per_run(self) -> int | None:
        """At most so many partitions a run; None if one run writes all."""
        if self.batches_of is not None:
            return self.batches_of
        return 1 if self.runs is BackfillRuns.MULTI_RUN else None


SINGLE_RUN = BackfillDeclaration(runs=BackfillRuns.SINGLE_RUN)
