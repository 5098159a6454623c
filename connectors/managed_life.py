"""Notifies the factories of managed tables before such a table is made or dropped.

One is of the table's storage, the other of its log. Factories of connectors are told nothing: their
tables are definitions alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.factories import MANAGED, MANAGED_LOG
from lakewright.connectors.model.catalog_table import CatalogTable
from lakewright.connectors.model.notification import (
    CreateTableListener,
    DropTableListener,
    TableNotification,
)
from lakewright.connectors.model.written_options import check_no_secret
from lakewright.connectors.registry import CONNECTORS
from lakewright.storage.catalog import Catalog
from lakewright.storage.errors import InvalidOption, StorageError
from lakewright.storage.spec.log_options import KEPT_LOG, LOG, LOG_SYSTEM, as_kept, has_log
from lakewright.storage.spec.schema import Column, SchemaSpec, TableSchema
from lakewright.storage.spec.schema_change import ResetOption, SchemaChange, SetOption

_LOG = logging.getLogger(__name__)
_PAUSE_MS = 60_000


@contextmanager
def created(
    externals: ExternalTables, name: str, spec: SchemaSpec, *, temporary: bool = False
) -> Iterator[SchemaSpec]:
    """The table with the options that its factories give it; within, the catalog makes it.

    What the factories made is removed again if it is not made.

    Raises:
        InvalidOption: an option is one that only the factories give.
    """
    own = next((option for option in spec.options if option.startswith(KEPT_LOG)), None)
    if own is not None:
        raise InvalidOption(
            f"{own} of {name} is how a table keeps an option of its log; write "
            f"{LOG}{own.removeprefix(KEPT_LOG)}",
            option=own,
        )
    with _made(externals, name, spec, temporary=temporary) as made:
        yield made
    if has_log(made.options):
        _hold(externals, name)


@contextmanager
def _made(
    externals: ExternalTables, name: str, spec: SchemaSpec, *, temporary: bool = False
) -> Iterator[SchemaSpec]:
    table = CatalogTable(
        columns=spec.columns,
        partition_keys=spec.partition_keys,
        primary_keys=spec.primary_keys,
        options=dict(spec.options),
        comment=spec.comment,
        distribution=spec.distribution,
    )
    notification = _notification(externals, name, table, temporary)
    # Nothing is made for a log that is refused.
    check_no_secret(
        {option: spec.options[option] for option in spec.options if _is_of_log(option)}, name
    )
    for factory in _factories(externals, table.options):
        if isinstance(factory, CreateTableListener):
            notification = notification.copy(factory.on_table_creation(notification))
    try:
        yield replace(spec, options=dict(notification.table.options))
    except BaseException:
        _tell_drop(externals, notification)
        raise


def before_drop(externals: ExternalTables, name: str) -> None:
    """Tell the factories; nothing is dropped if one raises."""
    catalog = externals.catalog
    if catalog.table_exists(name):
        is_temporary = catalog.session is not None and catalog.session.table_exists(name)
        table = _of_schema(catalog.table(name).schema)
        _tell_drop(externals, _notification(externals, name, table, is_temporary))


@contextmanager
def altered(
    externals: ExternalTables, name: str, changes: Sequence[SchemaChange]
) -> Iterator[Sequence[SchemaChange]]:
    """Changes of the options of a log, as changes of a table; within, the table is altered.

    SET of `log.system` makes a log, and RESET takes it away. Where brokers are, and how they are
    reached, can be set at any time.

    Raises:
        InvalidOption: the topic or the format of a log would change.
    """
    schema = externals.catalog.table(name).schema
    others = [change for change in changes if not _of_log(change)]
    given = {
        change.name: change.value
        for change in changes
        if _of_log(change) and isinstance(change, SetOption)
    }
    reset = [
        change.name for change in changes if _of_log(change) and isinstance(change, ResetOption)
    ]
    if not given and not reset:
        yield changes
    elif not has_log(schema.options) and not reset:
        table = _of_schema(schema)
        spec = SchemaSpec(
            columns=table.columns,
            partition_keys=table.partition_keys,
            primary_keys=table.primary_keys,
            options={**table.options, **given},
        )
        _hold(externals, name)
        try:
            with _made(externals, name, spec) as made:
                new = [each for each in made.options.items() if each[0].startswith(KEPT_LOG)]
                yield [*others, *(SetOption(*each) for each in new)]
        except BaseException:
            _let_go(externals, name)
            raise
    elif reset == [LOG_SYSTEM] and not given:
        before_drop(externals, name)
        yield [
            *others,
            *(ResetOption(option) for option in schema.options if option.startswith(KEPT_LOG)),
        ]
        _let_go(externals, name)
    else:
        for each in (*given, *reset):
            if each in (LOG_SYSTEM, LOG + "topic", LOG + "format") or not has_log(schema.options):
                raise InvalidOption(
                    f"{each} of {name} is settled when the log is made; RESET ('{LOG_SYSTEM}') "
                    "alone takes the log away, and SET makes another one",
                    option=each,
                )
        now = as_kept(given)
        gone = as_kept(dict.fromkeys(reset, ""))
        yield [*others, *(SetOption(*each) for each in now.items()), *map(ResetOption, gone)]


class Relays:
    """Publishes what a process commits to tables with a log, with one producer for each."""

    def __init__(self) -> None:
        self._relays: dict[str, Any] = {}
        # Brokers that do not answer hold up one statement in a while, and not each.
        self._not_before_ms: dict[str, int] = {}

    def after_commit(self, catalog: Catalog, name: str) -> None:
        """Publish what was committed to a table, if it has a log.

        The commit stands: what keeps it from being published is a warning.
        """
        if "$" in name or not catalog.table_exists(name):
            return
        table = catalog.table(name)
        now_ms = catalog.env.now_ms()
        if not has_log(table.schema.options) or now_ms < self._not_before_ms.get(name, 0):
            return
        from lakewright.connectors.log.publish import relay_again  # noqa: PLC0415

        going = self._relays.pop(name, None)
        try:
            self._relays[name], _ = relay_again(table, going)
        except StorageError as error:
            self._not_before_ms[name] = catalog.env.now_ms() + _PAUSE_MS
            _LOG.warning(
                "%s is committed, and its log lacks it: %s; `lakewright relay %s` publishes it, as "
                "does a commit after a minute",
                name,
                error,
                name,
            )


def _of_log(change: SchemaChange) -> bool:
    return isinstance(change, (SetOption, ResetOption)) and _is_of_log(change.name)


def _is_of_log(option: str) -> bool:
    return option.startswith(LOG)


# A table without a log loads nothing of what publishes it.
def _hold(externals: ExternalTables, name: str) -> None:
    from lakewright.connectors.log.publish import hold  # noqa: PLC0415

    hold(externals.catalog.table(name).table_files)


def _let_go(externals: ExternalTables, name: str) -> None:
    from lakewright.connectors.log.publish import let_go  # noqa: PLC0415

    let_go(externals.catalog.table(name).table_files)


def _of_schema(schema: TableSchema) -> CatalogTable:
    columns = (Column(field.name, field.type) for field in schema.fields)
    return CatalogTable(
        columns=tuple(columns),
        partition_keys=schema.partition_keys,
        primary_keys=schema.primary_keys,
        options=dict(schema.options),
        comment=schema.comment,
    )


def _tell_drop(externals: ExternalTables, notification: TableNotification) -> None:
    for factory in _factories(externals, notification.table.options):
        if isinstance(factory, DropTableListener):
            factory.on_table_drop(notification)


def _factories(externals: ExternalTables, options: Mapping[str, str]) -> list[Any]:
    """The factory of tables, and that of logs for a table with one."""
    names = [MANAGED, MANAGED_LOG] if LOG_SYSTEM in options or has_log(options) else [MANAGED]
    return [externals.registry.factory(CONNECTORS, name) for name in names]


def _notification(
    externals: ExternalTables, name: str, table: CatalogTable, temporary: bool
) -> TableNotification:
    return TableNotification(
        name=name,
        table=table,
        configuration=externals.configuration,
        registry=externals.registry,
        is_temporary=temporary,
    )
