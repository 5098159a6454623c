"""Backfill: a job that writes many partitions of tables in one run, wherever they lie.

Dagster gives a run one range of partitions, so that partitions that do not follow each other are as
many runs. A run of this job names its partitions in its config. It writes them batch by batch, and
each batch is published by itself. A batch or a partition that fails does not keep the run from the
others; the run fails at its end, and a retry writes only what is left.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import dagster as dg
from pydantic import Field

from lakewright.assets.checks import check_results
from lakewright.assets.hooks import AssetHooks, PlainHooks, TableRun
from lakewright.assets.ingest_run import IngestRun, WriteConfig, fitting_kind
from lakewright.platform.ingest.publication import AlreadyPublished, Rejected
from lakewright.platform.ledger.kept_verbs import BACKFILL
from lakewright.platform.orchestration.asset_partitions import key_of_asset, partitions_def
from lakewright.platform.orchestration.failures import failures_for_dagster
from lakewright.platform.orchestration.names import (
    TABLE_TAG,
    VERB_TAG,
    TableNames,
    UpkeepNames,
    table_tag,
)
from lakewright.platform.orchestration.partition_choice import (
    PartitionChoice,
    attempts,
    chosen_partitions,
)
from lakewright.platform.orchestration.partition_events import tell_begun, tell_written
from lakewright.platform.orchestration.reports import (
    filled_texts,
    rejected_metadata,
    table_metadata,
)
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import SparkResource, WarehouseResource
from lakewright.platform.orchestration.run_identity import commit_user
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.open_declared import check_rows_fit
from lakewright.platform.tables.partition_keys import InvalidPartitionKeyError, first_few
from lakewright.platform.upkeep.words import counted
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.file_reader.bad_rows import BadRows
from lakewright.storage.file_reader.filled_columns import FilledColumns
from lakewright.storage.operations.commit.commits_of_user import partitions_of_commit
from lakewright.storage.spec.partition_words import describe_partition

VERB = BACKFILL
# The key of the metadata that tells what came of all partitions.
OUTCOME = "outcome"
NO_ROWS = "no rows in the source"
ALL_ROWS = "all rows"
_DESCRIPTION = "Write partitions of tables from their sources, many in a run, wherever they lie."
_MOST_SHOWN = 1000


class BackfilledTable(WriteConfig):
    """Which partitions of a table are written; all that is given must hold.

    Of a table whose partitions are found in data, all of the source is written where nothing is
    given.
    """

    partitions: list[str] = Field(
        default=[],
        description="Keys of partitions of the asset, such as 2024-01-31, or "
        "region=eu/hour=7 where they are found in the data.",
    )
    where: str | None = Field(
        default=None,
        description="A filter on the partition columns, such as dt >= '2024-01-01'.",
    )
    missing: bool = Field(default=False, description="Only partitions that the table lacks.")
    failed: bool = Field(
        default=False, description="Only partitions that the asset's page shows as failed."
    )
    batch: int | None = Field(
        default=None,
        description="How many partitions to read and publish at a time, at least 1 (default: as "
        "many as `backfill` of the declaration gives a run).",
    )


class BackfillConfig(dg.Config):
    """The tables of a run, each with its partitions."""

    tables: dict[str, BackfilledTable] = Field(
        description="The tables by their names, each with the choice of partitions, such as "
        "database.table: {missing: true}."
    )
    dry_run: bool = Field(default=False, description="Tell which partitions; write nothing.")


def build_backfill_job(
    declarations: Sequence[TableDeclaration],
    *,
    names: UpkeepNames | None = None,
    resources: ResourceKeys | None = None,
    hooks: AssetHooks | None = None,
) -> dg.JobDefinition:
    """The job for all tables that are written here by partition; a run names those it is for."""
    names, hooks = names or UpkeepNames(), hooks or PlainHooks()
    keys = resources or ResourceKeys()
    by_name = {
        declaration.table: declaration
        for declaration in declarations
        if can_be_backfilled(declaration)
    }

    @dg.op(
        name=names.op(VERB),
        pool=names.pool(VERB),
        required_resource_keys={keys.warehouse, keys.spark},
        description=_DESCRIPTION,
    )
    def backfill_tables(context: dg.OpExecutionContext, config: BackfillConfig) -> Iterator[Any]:
        with failures_for_dagster():
            if not config.tables:
                raise InvalidRequestError(
                    "the run names no table; write for example "
                    "tables: {database.table: {missing: true}}"
                )
            for table in config.tables:
                if table not in by_name:
                    raise InvalidRequestError(
                        f"{table} is no table that is written here by partition; there are "
                        f"{first_few(sorted(by_name)) or 'none'}"
                    )
        context.instance.add_run_tags(context.run_id, {TABLE_TAG: table_tag(config.tables)})
        warehouse: WarehouseResource = getattr(context.resources, keys.warehouse)
        spark: SparkResource = getattr(context.resources, keys.spark)
        step = names.job(VERB)
        backfills = []
        with failures_for_dagster():
            for name, given in config.tables.items():
                backfill = _Backfill(
                    by_name[name], names.of(name), given, context, warehouse, spark, step, hooks
                )
                backfill.choose()
                backfills.append(backfill)
        if not config.dry_run:
            for backfill in backfills:
                yield from backfill.write()
            for backfill in backfills:
                backfill.tell_missed()
            _raise_for(backfills)
        metadata: dict[str, Any] = {each.declaration.table: each.table() for each in backfills}
        if not config.dry_run:
            metadata[OUTCOME] = "; ".join(each.outcome() for each in backfills)
        yield dg.Output(None, metadata=metadata)

    @dg.job(
        name=names.job(VERB),
        tags={VERB_TAG: VERB},
        executor_def=dg.in_process_executor,
        description=_DESCRIPTION,
    )
    def backfill_job() -> None:
        backfill_tables.alias(names.job(VERB))()

    return backfill_job


def can_be_backfilled(declaration: TableDeclaration) -> bool:
    """Whether runs write a table by partition."""
    return bool(
        declaration.is_written_here
        and not declaration.is_stream
        and declaration.columns
        and declaration.scheme.dimensions
    )


def partitions_per_batch(declaration: TableDeclaration, asked: int | None) -> int | None:
    """How many partitions are read and published at a time; None for all of them.

    Raises:
        InvalidRequestError: less than one is asked for.
    """
    if asked is not None and asked < 1:
        raise InvalidRequestError(f"batch is {asked}; give 1 or more, or leave it out")
    return declaration.backfill.partitions_per_run if asked is None else asked


@dataclass
class _Backfill:
    """The partitions of one table that a run writes, and what came of each."""

    declaration: TableDeclaration
    names: TableNames
    given: BackfilledTable
    context: dg.OpExecutionContext
    warehouse: WarehouseResource
    spark: SparkResource
    step: str
    hooks: AssetHooks
    keys: tuple[str, ...] = ()
    batch: int | None = None
    # Why a partition was not published, and why it is worth another try.
    reasons: dict[str, str] = field(default_factory=dict)
    again: dg.RetryRequested | None = None
    rows: dict[str, int] = field(default_factory=dict)
    left_out: int = 0
    # Partitions without a good row, and how many bad ones they have.
    only_bad: dict[str, int] = field(default_factory=dict)
    filled: FilledColumns = field(default_factory=FilledColumns)
    makes_table: bool = False
    writes_all: bool = False
    rejects: bool = False

    @property
    def _user(self) -> str:
        """What the users of all commits of the run to this table begin with."""
        user = commit_user(self.context.instance, self.context.run, self.step)
        return f"{user}-{self.names.identifier}"

    def choose(self) -> None:
        """Find the partitions that are to be written, without those of an earlier try."""
        catalog, given = self.warehouse.catalog(), self.given
        fitting_kind(self.declaration, None if given.mode is None else given.mode.value)
        self.makes_table = not catalog.table_exists(self.declaration.table)
        self.batch = partitions_per_batch(self.declaration, given.batch)
        choice = PartitionChoice(
            keys=tuple(given.partitions),
            where=given.where,
            missing=given.missing,
            failed=given.failed,
        )
        if choice.is_empty and self.declaration.scheme.is_found_in_data:
            self.writes_all = True
            self.context.log.info("%s: all of its source", self.declaration.table)
            return
        run_id, instance = self.context.run_id, self.context.instance
        chosen = chosen_partitions(
            choice, self.declaration, catalog, instance, names=self.names, run_id=run_id
        )
        done = self._done(catalog)
        self.keys = tuple(key for key in chosen if key not in done)
        told = f"{counted(len(self.keys), 'partition')}: {first_few(self.keys, between=', ')}"
        self.context.log.info("%s: %s", self.declaration.table, told)
        if done:
            self._tell_done(catalog, done)

    def _done(self, catalog: Catalog) -> frozenset[str]:
        """The partitions that commits of an earlier try of the run wrote."""
        if not catalog.table_exists(self.declaration.table):
            return frozenset()
        files = catalog.table(self.declaration.table).table_files
        found: set[str] = set()
        for snapshot in files.snapshots.newest_first():
            if snapshot.commit_user.startswith(f"{self._user}-"):
                for each in partitions_of_commit(files, snapshot):
                    try:
                        found.add(self.declaration.scheme.key_of(each.spec))
                    except InvalidPartitionKeyError:
                        continue
        return frozenset(found)

    def _tell_done(self, catalog: Catalog, done: frozenset[str]) -> None:
        """Report the partitions of which an earlier try could not tell any more."""
        self.context.log.info("an earlier try of the run wrote %s of them", f"{len(done):,}")
        untold = sorted(done & attempts(self.names, self.context.instance).keys())
        metadata = {
            **table_metadata(catalog.table(self.declaration.table)),
            "lakewright/already_committed": True,
        }
        tell_written(self.context, [self._materialization(key, metadata) for key in untold])

    def _materialization(self, key: str, metadata: Mapping[str, Any]) -> dg.AssetMaterialization:
        known = partitions_def(self.declaration.scheme, self.names)
        assert known is not None
        return dg.AssetMaterialization(
            self.names.asset_key, partition=key_of_asset(known, key), metadata=metadata
        )

    def write(self) -> Iterator[Any]:
        """Write batch after batch; what fails is kept in mind, and the next batch is written."""
        batches: list[tuple[str, ...] | None] = [None] if self.writes_all else []
        if self.keys:
            tell_begun(self.context, self.names.asset_key, self.keys)
            size = self.batch or len(self.keys)
            batches += [self.keys[at : at + size] for at in range(0, len(self.keys), size)]
        for keys in batches:
            try:
                run = TableRun(
                    declaration=self.declaration,
                    events=partial(self._write, keys),
                    partitions=keys,
                )
                yield from self.hooks.execute(self.context, run)
            except dg.Failure as failure:
                self._missed(keys, str(failure.description))
            except dg.RetryRequested as again:
                self._missed(keys, str(again.__cause__))
                self.again = again
            except Exception as error:
                # A source may raise anything, and the next batch may do without what it lacks.
                self.context.log.exception("%s: a batch failed", self.declaration.table)
                self._missed(keys, f"{type(error).__name__}: {error}")

    def _missed(self, keys: Sequence[str] | None, why: str) -> None:
        """Keep a reason in mind; without keys the partitions of the source are unknown."""
        known = (ALL_ROWS,) if keys is None else keys
        self.reasons |= {key: why for key in known if key not in self.rows}

    def _write(self, keys: tuple[str, ...] | None) -> Iterator[dg.AssetCheckEvaluation]:
        digest = hashlib.sha256("\n".join(keys or ()).encode()).hexdigest()[:12]
        ingest = IngestRun(
            self.declaration,
            self.names,
            self.context,
            self.given,
            self.warehouse,
            self.spark,
            keys=keys,
            user=f"{self._user}-{digest}",
        )
        with failures_for_dagster():
            table, drift = ingest.open()
            check_rows_fit(drift)
            outcome = ingest.run(table)
        judged = ingest.judged_rows(outcome)
        if isinstance(outcome, AlreadyPublished):
            # What the commit wrote is left out of the batches; these partitions got no rows.
            self.rows |= dict.fromkeys(keys or (), 0)
            return
        if isinstance(outcome, Rejected):
            for each in outcome.report.blocking:
                for key, why in judged.not_meeting(each).items():
                    self._add_reason(key, each.check_name, why)
            left = keys and [key for key in keys if key not in self.reasons]
            self._missed(left, "nothing was published")
        else:
            published = list(ingest.others(table, outcome))
            tell_written(self.context, published)
            self.left_out += outcome.bad_rows
            self.filled.add_all(outcome.filled)
            rows = {self.declaration.scheme.key_of(e.spec): e.row_count for e in outcome.partitions}
            self.rows |= {str(e.partition): rows.get(str(e.partition), 0) for e in published}
            self._add_bad(outcome.left_out)
            for one in outcome.rejected:
                for check, why in one.not_met.items():
                    self._add_reason(self.declaration.scheme.key_of(one.spec), check, why)
        results = check_results(outcome, self.declaration, self.names, judged, ingest.check_history)
        for result in results:
            yield dg.AssetCheckEvaluation(
                asset_key=self.names.asset_key,
                check_name=str(result.check_name),
                passed=bool(result.passed),
                severity=result.severity,
                description=result.description,
                metadata=result.metadata,
            )

    def _add_bad(self, left_out: BadRows | None) -> None:
        for key in (key for key, count in self.rows.items() if left_out and not count):
            spec = self.declaration.scheme.spec_of(key)
            if left_out and (bad := left_out.by_partition[describe_partition(spec)]):
                self.only_bad[key] = bad

    def _add_reason(self, key: str, check: str, why: str) -> None:
        self.rejects = True
        known = self.reasons.get(key)
        self.reasons[key] = f"{known}; {check}: {why}" if known else f"{check}: {why}"

    def tell_missed(self) -> None:
        for key, why in self.reasons.items():
            self.context.log.error("%s, %s: %s", self.declaration.table, key, why)

    def outcome(self, *, with_reasons: bool = False) -> str:
        """How many partitions were published, had no rows, and could not be published."""
        name = self.declaration.table
        written = [rows for rows in self.rows.values() if rows]
        what = counted(len(written), "other partition" if self.reasons else "partition")
        told = [f"published {what}, with {counted(sum(written), 'row')}"]
        if self.reasons:
            bad = f"{counted(len(self.reasons), 'partition')} of {name} could not be published"
            told.insert(0, f"{bad}: {self._grouped()}" if with_reasons else bad)
        else:
            told[0] = f"{name}: {told[0]}"
        if empty := len(self.rows) - len(written) - len(self.only_bad):
            told.append(f"{counted(empty, 'partition')} had {NO_ROWS}")
        if self.only_bad:
            told.append(f"{counted(len(self.only_bad), 'partition')} had bad rows only")
        if self.left_out:
            told.append(f"{counted(self.left_out, 'bad row')} left out")
        told += filled_texts(self.filled)
        if self.makes_table and not written:
            catalog = self.warehouse.catalog()
            told += [f"{name} was created, without rows"] if catalog.table_exists(name) else []
        return "; ".join(told)

    def _grouped(self) -> str:
        """The partitions that were not published, by their reasons."""
        by_reason: dict[str, list[str]] = {}
        for key, why in self.reasons.items():
            by_reason.setdefault(why, []).append(key)
        return first_few(
            [f"{first_few(keys, between=', ')} ({why})" for why, keys in by_reason.items()]
        )

    def _result(self, key: str) -> str:
        """What came of a partition; nothing for one that a dry run only names."""
        if key in self.reasons:
            return f"not published: {self.reasons[key]}"
        if key in self.only_bad:
            return f"no good row; {counted(self.only_bad[key], 'bad row')} left out"
        if key in self.rows:
            return "published" if self.rows[key] else NO_ROWS
        return ""

    def table(self) -> dg.TableMetadataValue:
        """The partitions with what came of each, those that failed first."""
        keys = self.rows if self.writes_all else self.keys
        shown = [*self.reasons, *(key for key in keys if key not in self.reasons)]
        records = [
            dg.TableRecord(
                {"partition": key, "rows": self.rows.get(key), "result": self._result(key)}
            )
            for key in shown[:_MOST_SHOWN]
        ]
        columns = [dg.TableColumn("partition"), dg.TableColumn("rows", "int")]
        columns.append(dg.TableColumn("result"))
        return dg.MetadataValue.table(records=records, schema=dg.TableSchema(columns=columns))


def _raise_for(backfills: Sequence[_Backfill]) -> None:
    """Fail or try again for the partitions that were not published."""
    for backfill in backfills:
        if backfill.again is not None:
            raise backfill.again
    if not any(backfill.reasons for backfill in backfills):
        return
    told = "; ".join(backfill.outcome(with_reasons=True) for backfill in backfills)
    rejected: dict[str, Any] = {}
    for backfill in backfills:
        if backfill.rejects:
            rejected |= rejected_metadata(
                backfill.declaration.table, backfill.outcome(with_reasons=True)
            )
    raise dg.Failure(
        description=f"{told}; run again from the failure, or with failed: true, to write only "
        "these",
        metadata={
            **{backfill.declaration.table: backfill.table() for backfill in backfills},
            **rejected,
            OUTCOME: "; ".join(backfill.outcome() for backfill in backfills),
        },
        allow_retries=False,
    )
