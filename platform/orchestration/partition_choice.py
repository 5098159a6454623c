"""Which partitions of an asset a backfill writes: those named, in a filter, missing, or failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import dagster as dg

from lakewright.platform.orchestration.asset_partitions import partitions_def
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.partition_keys import InvalidPartitionKeyError, first_few
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.data_types import DataField, parse_data_type
from lakewright.storage.spec.predicate import columns_of, matches
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.values import from_python
from lakewright.storage.sql import parse_where

# So many runs are asked for at once.
_MOST_RUNS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChoice:
    """A choice of partitions: all that is given must hold, and something must be given.

    `keys` are the asset's keys, `where` a filter on the partition columns. `missing` takes those
    that the table lacks. `failed` takes those that Dagster's page of the asset shows as failed.
    """

    keys: tuple[str, ...] = ()
    where: str | None = None
    missing: bool = False
    failed: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.keys or self.where is not None or self.missing or self.failed)


def chosen_partitions(
    choice: PartitionChoice,
    declaration: TableDeclaration,
    catalog: Catalog,
    instance: dg.DagsterInstance,
    *,
    names: TableNames | None = None,
    run_id: str = "",
) -> tuple[str, ...]:
    """The keys of the chosen partitions, in order; writes nothing.

    What the run of `run_id` itself has tried and not written counts as failed.

    Raises:
        InvalidRequestError: nothing is chosen by, a key is none of the asset, or the filter is
            wrong.
    """
    names = names or TableNames(declaration.table)
    keys = _known(declaration, names, catalog, instance)
    if not keys and not choice.keys and declaration.scheme.is_found_in_data:
        raise InvalidRequestError(
            f"no partition of {declaration.table} is known yet; partitions that are found in data "
            "are known once they are written: backfill the table without a choice of partitions, "
            "which writes all of its source; or name partitions (lakewright backfill "
            f"{declaration.table} --partitions KEY,KEY, in run config `partitions`), by keys such "
            f"as {declaration.scheme.key_form}"
        )
    if choice.is_empty:
        raise InvalidRequestError(
            f"no partitions of {declaration.table} are chosen; give --partitions or --where, or "
            "--missing or --failed (in run config the same keys without dashes)"
        )
    if choice.keys:
        keys = _named(choice.keys, keys, declaration)
    if choice.where is not None:
        keys = _matching(choice.where, keys, declaration)
    if choice.missing:
        present = set(_present(declaration, catalog))
        keys = [key for key in keys if key not in present]
    if choice.failed:
        failed = _failed(names, instance, run_id)
        keys = [key for key in keys if key in failed]
    return tuple(sorted(dict.fromkeys(keys)))


def attempts(names: TableNames, instance: dg.DagsterInstance) -> Mapping[str, str]:
    """The last run that began with each partition of a table and has not written it."""
    found = instance.event_log_storage.get_latest_asset_partition_materialization_attempts_without_materializations(  # noqa: E501
        names.asset_key
    )
    return {key: run_id for key, (run_id, _) in found.items()}


def _known(
    declaration: TableDeclaration, names: TableNames, catalog: Catalog, instance: dg.DagsterInstance
) -> list[str]:
    """The partitions of the asset; of those found in the data, also those that a run has tried."""
    definition = partitions_def(declaration.scheme, names)
    if definition is None:
        raise InvalidRequestError(f"{declaration.table} has no partitions; materialize its asset")
    with dg.partition_loading_context(dynamic_partitions_store=instance):
        keys = [str(key) for key in definition.get_partition_keys()]
    if declaration.scheme.is_found_in_data:
        keys += [*_present(declaration, catalog), *_tried(declaration, names, instance)]
    return keys


def _tried(
    declaration: TableDeclaration, names: TableNames, instance: dg.DagsterInstance
) -> Iterator[str]:
    """The keys with which a run began and which it has not written."""
    for key in attempts(names, instance):
        with suppress(InvalidPartitionKeyError):
            declaration.scheme.spec_of(key)
            yield key


def _present(declaration: TableDeclaration, catalog: Catalog) -> Iterator[str]:
    """The keys of the table's own partitions, as far as the asset has keys for them."""
    if not catalog.table_exists(declaration.table):
        return
    for partition in catalog.table(declaration.table).at().partitions():
        with suppress(InvalidPartitionKeyError):
            yield declaration.scheme.key_of(partition.spec)


def _named(asked: Sequence[str], known: Sequence[str], declaration: TableDeclaration) -> list[str]:
    """The keys that are named; partitions that are found in the data may be new ones.

    Another text of the same values is no key: Dagster would record a partition that no page shows.
    """
    scheme, there, unknown = declaration.scheme, set(known), []
    for key in asked:
        try:
            usual = scheme.key_of(scheme.spec_of(key))
        except InvalidPartitionKeyError:
            unknown.append(key)
            continue
        if usual != key:
            unknown.append(f"{key} (whose key is {usual})")
        elif key not in there and not scheme.is_found_in_data:
            unknown.append(key)
    if unknown:
        have = f"it has {first_few(known)}" if known else f"keys look like {scheme.key_form}"
        raise InvalidRequestError(
            f"{first_few(unknown)}: no partitions of the asset {declaration.table}; {have}"
        )
    return list(asked)


def _matching(where: str, keys: Sequence[str], declaration: TableDeclaration) -> list[str]:
    fields = tuple(
        DataField(at, each.name, parse_data_type(each.type))
        for at, each in enumerate(declaration.columns)
    )
    schema = TableSchema(id=0, fields=fields, highest_field_id=len(fields))
    predicate = parse_where(where, schema)
    types = {
        partition_column.name: partition_column.type
        for partition_column in declaration.partition_columns
    }
    others = sorted(columns_of(predicate) - types.keys())
    if others:
        raise InvalidRequestError(
            f"the filter looks at {', '.join(others)}, and partitions are chosen by partition "
            f"keys alone; those of {declaration.table} are {', '.join(types)}"
        )
    found = []
    for key in keys:
        spec = declaration.scheme.spec_of(key)
        values = {name: from_python(value, types[name]) for name, value in spec.items()}
        if matches(predicate, values):
            found.append(key)
    return found


def _failed(names: TableNames, instance: dg.DagsterInstance, run_id: str) -> frozenset[str]:
    """The partitions whose last attempt failed, as the asset's page shows them."""
    tried = attempts(names, instance)
    runs, bad = sorted(set(tried.values()) - {run_id}), {run_id}
    for at in range(0, len(runs), _MOST_RUNS):
        filters = dg.RunsFilter(
            run_ids=runs[at : at + _MOST_RUNS], statuses=[dg.DagsterRunStatus.FAILURE]
        )
        bad |= {run.run_id for run in instance.get_runs(filters=filters)}
    return frozenset(key for key, last in tried.items() if last in bad)
