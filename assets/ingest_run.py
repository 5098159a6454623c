"""One run that writes a table: reads its source, publishes the rows, and reports to Dagster.

The file is long since it follows one run from its config to its events.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg
from pydantic import Field

from lakewright.assets.check_history import CheckHistory
from lakewright.assets.checks import JudgedRows
from lakewright.platform.ingest.broken_partitions import broken_partitions
from lakewright.platform.ingest.grow_table import grown
from lakewright.platform.ingest.judge_staged import RejectedPartition
from lakewright.platform.ingest.missing_rows import INTENDED
from lakewright.platform.ingest.publication import (
    AlreadyPublished,
    PartitionTotals,
    Published,
    Rejected,
)
from lakewright.platform.ingest.publish import LAST_COMMIT, ROWS, WriteOrder, publish
from lakewright.platform.ingest.rejects import Rejects, rejects_of
from lakewright.platform.ingest.source_files import bad_rows_of
from lakewright.platform.ingest.sources import SourceRequest, explain_source, find_source
from lakewright.platform.ledger.recording import Recorder
from lakewright.platform.orchestration.asset_lineage import lineage_metadata
from lakewright.platform.orchestration.asset_partitions import (
    dynamic_name,
    key_of_asset,
    partitions_def,
)
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.rejects_reports import rejects_written
from lakewright.platform.orchestration.reports import (
    OF_THE_COMMIT,
    filled_texts,
    partition_metadata,
    publication_metadata,
    rejected_metadata,
    rows_at,
    rows_table,
    table_metadata,
)
from lakewright.platform.orchestration.resources import SparkResource, WarehouseResource
from lakewright.platform.orchestration.run_choices import WriteMode
from lakewright.platform.orchestration.run_identity import commit_user, tried_since_ms
from lakewright.platform.tables.declarations import TableDeclaration, WriteKind
from lakewright.platform.tables.open_declared import open_declared
from lakewright.platform.tables.partition_keys import InvalidPartitionKeyError, first_few
from lakewright.platform.tables.partition_schemes import DynamicDimension
from lakewright.platform.tables.schema_drift import SchemaDrift, Writing
from lakewright.platform.tables.source_variables import values_hidden, with_source_variables
from lakewright.platform.upkeep.engines import prefers_spark
from lakewright.platform.upkeep.evolve import EvolveOptions, evolution_to
from lakewright.platform.upkeep.procedure import Work
from lakewright.platform.upkeep.words import counted
from lakewright.storage import AddColumn, Table
from lakewright.storage.errors import InvalidRequestError, InvalidRows
from lakewright.storage.file_reader.bad_rows import BadRows
from lakewright.storage.file_reader.filled_columns import FilledColumns
from lakewright.storage.spec.partition_words import describe_partition
from lakewright.storage.spec.schema_change_text import texts_in_turn


class WriteConfig(dg.Config):
    """How a run writes partitions, where that differs from the declaration."""

    mode: WriteMode | None = Field(
        default=None,
        description="append, overwrite or upsert (default: the mode of the declaration).",
    )
    compact: bool | None = Field(
        default=None,
        description=(
            "Compact the buckets that the run wrote, if due (default: as the declaration says)."
        ),
    )
    allow_empty: bool | None = Field(
        default=None,
        description=(
            "Accept missing rows: publish nothing, or empty the partitions without rows "
            "(default: as the declaration says)."
        ),
    )


def fitting_kind(declaration: TableDeclaration, asked: WriteKind | None) -> WriteKind:
    """How a run writes a table: as it is asked to, by default as declared.

    Raises:
        InvalidRequestError: upserts need a primary key, and appends a table without one.
    """
    if asked is None:
        return declaration.write_kind
    fitting = WriteKind.UPSERT if declaration.primary_key else WriteKind.APPEND
    if asked not in (fitting, WriteKind.OVERWRITE):
        raise InvalidRequestError(
            f"mode {asked.value} does not fit {declaration.table}, which has "
            f"{'a' if declaration.primary_key else 'no'} primary key; write {fitting.value} or "
            "overwrite"
        )
    return asked


@dataclass(frozen=True)
class IngestRun:
    """The write of one table by one run, or of some of its partitions by a part of one.

    `keys` and `user` are the partitions of such a part and the user of its commits; without them,
    they are those of the run.
    """

    declaration: TableDeclaration
    names: TableNames
    context: dg.AssetExecutionContext | dg.OpExecutionContext
    config: WriteConfig
    warehouse: WarehouseResource
    spark: SparkResource
    keys: tuple[str, ...] | None = None
    user: str | None = None

    def open(self) -> tuple[Table, SchemaDrift]:
        """The table, and how it differs from its declaration."""
        writing = Writing(kind=self.write_kind, partitions=self.partitions)
        return open_declared(self.warehouse.catalog(), self.declaration, writing)

    def is_refused(self, table: Table, drift: SchemaDrift) -> bool:
        """Whether declared rows do not fit the table, and no earlier attempt published them."""
        return bool(drift.reasons) and table.find_committed(self._commit_user, LAST_COMMIT) is None

    @property
    def _commit_user(self) -> str:
        return self.user or commit_user(
            self.context.instance, self.context.run, self.names.identifier
        )

    def run(self, table: Table) -> Published | AlreadyPublished | Rejected:
        """Write the table, which declared rows fit; it first gets new columns, where it grows."""
        while True:
            declaration = self.declaration.with_undeclared(table.schema)
            try:
                return self._write(table, declaration)
            except InvalidRows as error:
                here, values = with_source_variables(declaration)
                with values_hidden(values):
                    table = grown(
                        self.warehouse.catalog(),
                        table,
                        here,
                        error,
                        partitions=self.partitions,
                        add=self._add_columns,
                    )
                self.context.log.warning(
                    "%s: added the columns that its source has and the table lacked: %s",
                    table.name,
                    ", ".join(each.name for each in self.declaration.undeclared(table.schema)),
                )

    def _add_columns(self, table: Table, changes: Sequence[AddColumn], why: str) -> None:
        """Add columns as the verb `evolve_schema` does, with the same gate and record."""
        (texts,) = texts_in_turn(changes)
        catalog, warn = self.warehouse.catalog(), self.context.log.warning
        replace(Recorder.of(catalog, warn=warn, make=True), reason=why).carry_out(
            evolution_to(self.declaration),
            table,
            EvolveOptions(add=tuple(texts["add"])),
            Work(run=self._commit_user, session=self.spark.session),
        )

    def _write(
        self, table: Table, declaration: TableDeclaration
    ) -> Published | AlreadyPublished | Rejected:
        context = self.context
        catalog = self.warehouse.catalog()
        upstream = {name: catalog.table(name) for name in declaration.upstream_tables}
        here, values = with_source_variables(declaration)
        source, bad = find_source(here), bad_rows_of(declaration.source)
        filled = FilledColumns()
        broken = broken_partitions(declaration, self.partitions, grows=declaration.grows)
        request = SourceRequest(
            table=declaration.table,
            partitions=self.partitions,
            upstream=upstream,
            wants_spark=prefers_spark(declaration.write.engine),
            session=self.spark.session,
            bad_rows=bad,
            broken=broken,
            catalog=catalog,
            filled=filled,
        )
        order = WriteOrder(
            declaration=declaration,
            undeclared=tuple(each.name for each in self.declaration.undeclared(table.schema)),
            partitions=request.partitions,
            commit_user=self._commit_user,
            tried_since_ms=tried_since_ms(context.instance, context.run, context.retry_number),
            kind=self.write_kind,
            compact=self._compacts,
            allow_empty=self._allows_empty,
            upstream=upstream,
            find_table=catalog.table,
            bad_rows=bad,
            broken=broken,
            rejects=rejects_of(catalog, declaration, values),
            filled=filled,
            explain=lambda: explain_source(here, request),
            session=self.spark.session,
            warn=context.log.warning,
        )
        asked = (
            "all rows"
            if request.partitions is None
            else counted(len(request.partitions), "partition")
        )
        context.log.info("%s: %s, %s", declaration.table, order.kind.value, asked)
        with values_hidden(values):
            outcome = publish(table, lambda: source(request), order)
        if isinstance(outcome, AlreadyPublished):
            context.log.warning(
                "%s: an earlier attempt of this run committed snapshot %s; nothing was written "
                "again",
                declaration.table,
                outcome.snapshot.id,
            )
        self._tell_compaction(outcome)
        if isinstance(outcome, Published) and outcome.filled.sources:
            context.log.warning(
                "%s: %s; declare `missing_columns: refuse` in the source to refuse such rows",
                declaration.table,
                "; ".join(filled_texts(outcome.filled)),
            )
        self._tell_rejects(order.rejects)
        if bad is not None and bad.count:
            context.log.warning(
                "%s: %s left out, the first: %s",
                declaration.table,
                counted(bad.count, "bad row"),
                bad.first,
            )
        return outcome

    def _tell_rejects(self, rejects: Rejects | None) -> None:
        """Tell what the run changed in the rejects: kept rows, and replaced ones."""
        kept = None if rejects is None else rejects.found()
        latest = None if kept is None else kept.history.latest_snapshot()
        if rejects is not None and latest is not None and latest.commit_user == self._commit_user:
            key = self.names.keys.of(rejects.name)
            what = f"changed by a run of {self.declaration.table}"
            self.context.log_event(rejects_written(rejects, key, what))

    def _tell_compaction(self, outcome: Published | AlreadyPublished | Rejected) -> None:
        """Log a failed compaction; the run succeeds, because its rows are published."""
        if not isinstance(outcome, Published) or outcome.compaction is None:
            return
        failure = outcome.compaction.failure
        if failure is not None:
            self.context.log.warning(
                "%s: the rows are published, but the compaction of their buckets failed: %s",
                self.declaration.table,
                failure,
            )

    @property
    def partitions(self) -> tuple[Mapping[str, object], ...] | None:
        """The partitions of the run, in order; None if the asset has no partitions."""
        keys = self._asked
        if keys is None:
            return None
        try:
            return tuple(self.declaration.scheme.spec_of(key) for key in sorted(keys))
        except InvalidPartitionKeyError as err:
            raise InvalidRequestError(str(err)) from err

    @property
    def _asked(self) -> Sequence[str] | None:
        """The keys of the partitions of the run."""
        if self.keys is not None:
            return self.keys
        if self.declaration.is_stream:
            # It writes the partitions of its rows, whichever a run is asked for.
            return None
        if not self.context.has_partition_key and not self.context.has_partition_key_range:
            return None
        return self.context.partition_keys

    @property
    def _compacts(self) -> bool:
        asked = self.config.compact
        return self.declaration.write.compact if asked is None else asked

    @property
    def _allows_empty(self) -> bool:
        asked = self.config.allow_empty
        source = self.declaration.source
        return (source is not None and source.allow_empty) if asked is None else asked

    @property
    def write_kind(self) -> WriteKind:
        mode = self.config.mode
        return fitting_kind(self.declaration, None if mode is None else mode.value)

    @property
    def _writes_all(self) -> bool:
        """Whether readers see exactly the written rows in the partitions that are written."""
        return self.write_kind is WriteKind.OVERWRITE and not self.declaration.primary_key

    def judged_rows(self, outcome: Published | AlreadyPublished | Rejected) -> JudgedRows:
        """The requested or found partitions, and those whose rows were evaluated.

        An overwrite replaces a partition's rows, even with none, so all its partitions were
        evaluated. Other writes keep existing rows, so partitions without new rows were not
        evaluated. After an earlier attempt it is unknown which partitions got rows.
        """
        scheme = self.declaration.scheme
        rejected: tuple[RejectedPartition, ...] = ()
        if isinstance(outcome, Published):
            rejected = outcome.rejected
        specs: list[Mapping[str, object]] = []
        if self.declaration.partition_keys and self.partitions is not None:
            specs = list(self.partitions)
        elif self.declaration.partition_keys and not isinstance(outcome, AlreadyPublished):
            specs = [partition.spec for partition in outcome.partitions]
            specs += [each.spec for each in rejected]
        texts = {}
        for spec in specs:
            with suppress(InvalidPartitionKeyError):
                texts[scheme.key_of(spec)] = describe_partition(spec)
        judged = set(texts) if self.write_kind is WriteKind.OVERWRITE else set()
        if not isinstance(outcome, AlreadyPublished):
            for partition in outcome.partitions:
                with suppress(InvalidPartitionKeyError):
                    judged |= {scheme.key_of(partition.spec)} if partition.row_count else set()
        not_met = {}
        for one in rejected:
            with suppress(InvalidPartitionKeyError):
                not_met[scheme.key_of(one.spec)] = one.not_met
        return JudgedRows(
            partitions=texts,
            judged=frozenset(judged & set(texts)),
            published=not isinstance(outcome, Rejected),
            rejected=not_met,
        )

    def check_history(self, check_name: str) -> CheckHistory:
        """The earlier failures of a check."""
        key = dg.AssetCheckKey(self.names.asset_key, check_name)
        return CheckHistory.read(self.context.instance, key, self._is_partition)

    def _is_partition(self, key: str) -> bool:
        scheme = self.declaration.scheme
        known = partitions_def(scheme, self.names)
        if known is None:
            return False
        if not scheme.is_found_in_data:
            return known.has_partition_key(key)
        # Rejected rows register no partition in Dagster.
        try:
            scheme.spec_of(key)
        except InvalidPartitionKeyError:
            return False
        return True

    def report_partitions(self, table: Table, outcome: Published | AlreadyPublished) -> None:
        """Attach to every partition the numbers of its rows."""
        if isinstance(outcome, AlreadyPublished) or not self.declaration.partition_keys:
            return
        if self.partitions is None:
            for each in self.found(table, outcome.partitions, outcome.left_out):
                self.context.log_event(each)
            return
        assert isinstance(self.context, dg.AssetExecutionContext)
        scheme = self.declaration.scheme
        totals = {scheme.key_of(partition.spec): partition for partition in outcome.partitions}
        earlier = {scheme.key_of(each) for each in outcome.earlier}
        for key in self._asked or ():
            if key in earlier and key not in totals:
                # The attempt that wrote it has told its numbers.
                continue
            self.context.add_asset_metadata(
                partition_metadata(
                    totals.get(key),
                    are_all=self._writes_all,
                    left_out=self._left_out(key, outcome.left_out),
                ),
                asset_key=self.names.asset_key,
                partition_key=key,
            )

    def others(self, table: Table, outcome: Published) -> Iterator[dg.AssetMaterialization]:
        """The partitions of the run that were not rejected, one by one."""
        if self.partitions is None:
            yield from self.found(table, outcome.partitions, outcome.left_out)
            return
        self._register(outcome.partitions)
        scheme = self.declaration.scheme
        known = partitions_def(scheme, self.names)
        assert known is not None
        totals = {scheme.key_of(partition.spec): partition for partition in outcome.partitions}
        told = {scheme.key_of(each.spec) for each in outcome.rejected}
        told |= {scheme.key_of(each) for each in outcome.earlier} - set(totals)
        whole = self.metadata(table, outcome)
        metadata = {name: each for name, each in whole.items() if name not in OF_THE_COMMIT}
        for key in self._asked or ():
            if key not in told:
                yield dg.AssetMaterialization(
                    self.names.asset_key,
                    partition=key_of_asset(known, key),
                    metadata={
                        **metadata,
                        **partition_metadata(
                            totals.get(key),
                            are_all=self._writes_all,
                            left_out=self._left_out(key, outcome.left_out),
                        ),
                    },
                )

    def _left_out(self, key: str, left_out: BadRows | None) -> int | None:
        """The number of bad rows of a partition; None if the run leaves none out."""
        if left_out is None:
            return None
        if len(self._asked or ()) == 1:
            # Rows whose partition cannot be read are counted there, too.
            return left_out.count
        return left_out.by_partition[describe_partition(self.declaration.scheme.spec_of(key))]

    def found(
        self,
        table: Table,
        partitions: Sequence[PartitionTotals],
        left_out: BadRows | None = None,
    ) -> Iterator[dg.AssetMaterialization]:
        """The partitions found in the rows, one by one; the run named none."""
        scheme = self.declaration.scheme
        common = {**table_metadata(table), **lineage_metadata(self.declaration, self.names.keys)}
        self._register(partitions)
        for partition in partitions:
            try:
                key = scheme.key_of(partition.spec)
            except InvalidPartitionKeyError as err:
                self.context.log.warning("%s: %s", self.declaration.table, err)
                continue
            yield dg.AssetMaterialization(
                self.names.asset_key,
                partition=key,
                metadata={
                    **partition_metadata(
                        partition,
                        are_all=self._writes_all,
                        left_out=self._left_out(key, left_out),
                    ),
                    **common,
                },
            )

    def _register(self, partitions: Sequence[PartitionTotals]) -> None:
        """Tell Dagster the keys of dynamic partitions that got rows."""
        for dimension in self.declaration.scheme.dimensions:
            if isinstance(dimension, DynamicDimension):
                keys = {dimension.key_of(partition.spec) for partition in partitions}
                self.context.instance.add_dynamic_partitions(
                    dynamic_name(dimension, self.names), sorted(keys)
                )

    def metadata(self, table: Table, outcome: Published | AlreadyPublished) -> Mapping[str, Any]:
        if isinstance(outcome, AlreadyPublished):
            told: Mapping[str, Any] = {
                **table_metadata(table),
                "lakewright/already_committed": True,
                "lakewright/snapshot_id": outcome.snapshot.id,
                **rows_at(table, outcome.snapshot),
            }
        else:
            told = publication_metadata(table, outcome)
        return {**told, **lineage_metadata(self.declaration, self.names.keys)}


def partial_rejection(declaration: TableDeclaration, outcome: Published) -> dg.Failure:
    """The failure of a run that published some partitions, and rejected others."""
    told = [
        f"{describe_partition(each.spec)} ({', '.join(map(': '.join, each.not_met.items()))})"
        for each in outcome.rejected
    ]
    rows = sum(each.row_count for each in outcome.rejected)
    others = counted(len(outcome.partitions), "other partition")
    is_missing = any(ROWS in each.not_met for each in outcome.rejected)
    return dg.Failure(
        description=(
            f"rejected {counted(len(told), 'partition')} of {declaration.table}, with "
            f"{counted(rows, 'row')}: {first_few(told)}; published {others}, with "
            f"{counted(outcome.row_count, 'row')}; the files of the rejected rows are deleted"
            f"{f'; {INTENDED}' if is_missing else ''}"
        ),
        metadata={
            **rejected_metadata(declaration.table, first_few(told)),
            "lakewright/rows_rejected": rows,
            "lakewright/partitions_rejected": rows_table(
                [
                    {
                        "partition": describe_partition(each.spec),
                        "rows": each.row_count,
                        "not met": "; ".join(map(": ".join, each.not_met.items())),
                    }
                    for each in outcome.rejected
                ]
            ),
            "lakewright/rows_written": outcome.row_count,
        },
        allow_retries=False,
    )


def rejection(declaration: TableDeclaration, outcome: Rejected) -> dg.Failure:
    """The failure of a run whose rows did not meet a critical expectation."""
    reasons = "; ".join(f"{each.check_name}: {each.summary}" for each in outcome.report.blocking)
    rows = outcome.report.row_count
    return dg.Failure(
        description=(
            f"nothing was published to {declaration.table}: of {rows} staged rows, {reasons}; "
            "the staged files are deleted, and the table is unchanged"
        ),
        metadata={
            **rejected_metadata(declaration.table, reasons),
            "lakewright/rows_rejected": rows,
        },
        allow_retries=False,
    )
