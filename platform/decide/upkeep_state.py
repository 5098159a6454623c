"""The state of a table that decisions are made from: its survey, partitions and retention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from heapq import nsmallest

from lakewright.platform.decide.survey import TableSurvey
from lakewright.platform.decide.take_survey import survey_table
from lakewright.platform.ledger.intents import WhyNot
from lakewright.platform.tables.upkeep_policies import (
    ChangelogPolicy,
    IcebergPolicy,
    RespecPolicy,
    SnapshotPolicy,
    SortPolicy,
)
from lakewright.platform.upkeep.health import TableHealth
from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError, StorageError, UnsupportedError
from lakewright.storage.lsm.sort_layout import SortOrder
from lakewright.storage.operations.iceberg.metadata_files import (
    IcebergStatus,
    check_publishable,
    read_status,
    unpublished,
)
from lakewright.storage.operations.respec.respec_checks import check_keys, check_nothing_waits
from lakewright.storage.spec.partition_expiry import TIME_OPTION

# Of a table with more partitions to compact, the worst are taken first.
_MOST_PARTITIONS = 1000
# Of a table with more tags, the oldest are known by name.
_MOST_TAGS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """Which snapshots stay, or the changes of which commits."""

    retain_min: int = 1
    retain_max: int = 1 << 31
    time_retained_ms: int = 0

    def under(self, policy: SnapshotPolicy | ChangelogPolicy) -> RetentionSettings:
        """The table's own retention, with what the policy says in its place."""
        given = {
            "retain_min": policy.retain_min,
            "retain_max": policy.retain_max,
            "time_retained_ms": policy.time_retained,
        }
        return replace(self, **{name: value for name, value in given.items() if value is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsorted:
    """What a sorting by some columns would rewrite, or the problem for which none is possible."""

    columns: tuple[str, ...]
    order: SortOrder
    files: int = 0
    bytes: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyKeys:
    """The partition keys that a policy names, and why the table cannot have them, if so.

    Whether the rows allow them is found by a plan, which reads files; here is what the schema, the
    options and other readers say.
    """

    keys: tuple[str, ...]
    primary_key: tuple[str, ...] | None = None
    why_not: WhyNot | None = None
    problem: str = ""

    def is_of(self, policy: RespecPolicy) -> bool:
        """Whether it was read for this policy."""
        return (self.keys, self.primary_key) == (policy.keys, policy.primary_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepState:
    """What metadata shows of a table at one snapshot.

    `health` has the partitions with something to join. `retention` is what the table's options
    say of snapshots, `changelog_retention` what they say of changelogs, and `expires_partitions`
    whether these let partitions expire. `tags_made_ms` has the oldest tags by name. `created_ms` is
    None if the first schema is gone or does not tell. `unsorted` is None where the reader asked for
    no order, and `keys_change` where it named no partition keys. `iceberg` says what Iceberg
    readers see, where the policy publishes for them.
    """

    survey: TableSurvey
    health: TableHealth
    retention: RetentionSettings = RetentionSettings()
    changelog_retention: RetentionSettings = RetentionSettings()
    tags_made_ms: Mapping[str, int] = field(default_factory=dict)
    expires_partitions: bool = False
    collect_due_ms: int | None = None
    created_ms: int | None = None
    unsorted: Unsorted | None = None
    keys_change: PolicyKeys | None = None
    iceberg: IcebergStatus | None = None


def read_state(
    catalog: Catalog,
    name: str,
    *,
    now_ms: int,
    sort: SortPolicy | None = None,
    respec: RespecPolicy | None = None,
    iceberg: IcebergPolicy | None = None,
) -> UpkeepState:
    """Read the state of a table from its metadata; a table that cannot be read has a `problem`.

    With a policy for its order, what is not in this order is read too, and with one for its
    partition keys, whether it can have them. With one that publishes for Iceberg readers, what
    these see.
    """
    try:
        table = catalog.table(name)
        options = table.options
        due = (each.due_ms for each in table.upkeep.condemned())
        collect_due_ms = min(due, default=None)
        created_ms = table.history.created_ms()
    except StorageError as err:
        survey = TableSurvey(table=name, uuid="", taken_ms=now_ms, problem=str(err))
        return UpkeepState(survey=survey, health=health_of(survey))
    survey = survey_table(table, worst=_MOST_PARTITIONS)
    tags = _oldest_tags(table) if survey.history.tags else {}
    return UpkeepState(
        survey=survey,
        health=health_of(survey),
        retention=RetentionSettings(
            retain_min=options.snapshot_num_retained_min,
            retain_max=options.snapshot_num_retained_max,
            time_retained_ms=options.snapshot_time_retained_ms,
        ),
        changelog_retention=RetentionSettings(
            retain_min=options.changelog_num_retained_min,
            retain_max=options.changelog_num_retained_max,
            time_retained_ms=options.changelog_time_retained_ms,
        ),
        tags_made_ms=tags,
        expires_partitions=TIME_OPTION in table.schema.options,
        created_ms=created_ms,
        collect_due_ms=collect_due_ms,
        unsorted=None if survey.problem or sort is None else _unsorted(table, sort),
        keys_change=None if survey.problem or respec is None else _keys_change(table, respec),
        iceberg=None if survey.problem or iceberg is None else _iceberg(table, iceberg),
    )


def read_beside(table: Table) -> object:
    """What of a table changes without a commit, by little reading; equal as long as nothing did.

    Raises:
        StorageError: the table cannot be read.
    """
    return (
        table.schema.id,
        table.history.span(),
        table.history.consumers(),
        table.table_files.references.tag_modified_ms(),
        tuple(table.table_files.condemned.listed()),
    )


def _iceberg(table: Table, iceberg: IcebergPolicy) -> IcebergStatus | None:
    if not iceberg.enabled:
        return None
    try:
        check_publishable(table.table_files)
    except UnsupportedError as error:
        return replace(unpublished(table.table_files), refused=error.message)
    try:
        return read_status(table.table_files) or unpublished(table.table_files)
    except StorageError:
        # The run says what is wrong.
        return unpublished(table.table_files)


def _unsorted(table: Table, sort: SortPolicy) -> Unsorted | None:
    if not sort.enabled or not sort.columns:
        return None
    try:
        plan = table.upkeep.plan_sort_compact(sort.columns, order=sort.order.value)
    except StorageError as error:
        return Unsorted(columns=sort.columns, order=sort.order, problem=error.message)
    return Unsorted(
        columns=sort.columns, order=sort.order, files=plan.files_before, bytes=plan.bytes_before
    )


def _keys_change(table: Table, respec: RespecPolicy) -> PolicyKeys | None:
    if not respec.enabled or respec.keys is None:
        return None
    change = PolicyKeys(keys=respec.keys, primary_key=respec.primary_key)
    why_not = WhyNot.UNSUPPORTED
    try:
        check_keys(table.table_files, respec.keys, respec.primary_key)
        if respec.keys != table.schema.partition_keys:
            # Others end what waits; the rest stays as it is until the table or the policy changes.
            why_not = WhyNot.BLOCKED
            check_nothing_waits(table.table_files)
    except InvalidRequestError as error:
        return replace(change, why_not=WhyNot.CONTRADICTION, problem=error.message)
    except UnsupportedError as error:
        return replace(change, why_not=why_not, problem=error.message)
    except StorageError as error:
        return replace(change, why_not=WhyNot.BLOCKED, problem=error.message)
    return change


def _oldest_tags(table: Table) -> dict[str, int]:
    """By name, when tags were written, without a read of any."""
    written = table.table_files.references.tag_modified_ms()
    return dict(nsmallest(_MOST_TAGS, written.items(), key=lambda each: (each[1], each[0])))


def health_of(survey: TableSurvey) -> TableHealth:
    """Of a table's partitions only those that have something to join, or rows that wait."""
    return TableHealth(
        table=survey.table,
        keyed=survey.keyed,
        snapshot_id=survey.history.latest_snapshot,
        partitions=survey.worst,
    )
