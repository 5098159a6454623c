"""The connector `postgres-cdc`: options, and the source of a captured table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from lakewright.connectors.capture.options import (
    CHUNK,
    CHUNK_ROWS,
    DATABASE,
    HOSTNAME,
    MODE,
    PASSWORD,
    TABLE,
    check_primary_key,
    port_option,
)
from lakewright.connectors.factories import Context, DynamicTableFactory
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.options import Option
from lakewright.connectors.postgres_cdc.captured import (
    COMMITTED,
    FULL,
    INITIAL,
    LATEST,
    Captured,
)
from lakewright.connectors.postgres_cdc.database import PLUGIN, Server
from lakewright.connectors.postgres_cdc.scan import CaptureScan
from lakewright.connectors.runtime import Scan
from lakewright.connectors.sources import ScanTableSource


class PostgresCdc(DynamicTableFactory):
    """Makes sources."""

    identifier = "postgres-cdc"
    description = "the rows of a table of PostgreSQL, then its changes"
    required_options = (
        HOSTNAME,
        Option(name="username", description="a user with REPLICATION who may read the table"),
        PASSWORD,
        DATABASE,
        Option(name="schema-name", description="the schema of the table"),
        TABLE,
        Option(
            name="slot.name",
            description="the replication slot, of this stream alone; made if it is not there",
        ),
    )
    optional_options = (
        port_option(5432),
        Option(
            name="publication.name",
            description="the publication; that of the slot's name is made if it is not there",
        ),
        Option(
            name="decoding.plugin.name",
            description="the output plugin of the slot",
            choices=(PLUGIN,),
            default=PLUGIN,
        ),
        Option(
            name=MODE,
            description="all rows and then changes, or changes from now, or from the slot's place",
            choices=(INITIAL, LATEST, COMMITTED),
            default=INITIAL,
        ),
        CHUNK_ROWS,
    )

    named_by = ("database-name", "schema-name", "table-name")

    def create_source(self, context: Context) -> ScanTableSource:
        options, table = context.options, context.table
        check_primary_key(context)
        return CaptureSource(
            Captured(
                server=Server.of(context),
                schema=options["schema-name"],
                table=options["table-name"],
                fields=tuple(table.fields),
                primary_keys=tuple(table.primary_keys),
                slot=options["slot.name"],
                publication=options["publication.name"] or options["slot.name"],
                startup=options[MODE],
                chunk_rows=options[CHUNK],
                env=context.env,
            )
        )


class CaptureSource(ScanTableSource):
    """A table whose changes are captured."""

    def __init__(self, captured: Captured) -> None:
        self._captured = captured

    @property
    def summary(self) -> str:
        server = self._captured.server
        return (
            f"postgres-cdc of {self._captured.place} in {server.database} at "
            f"{server.hostname}:{server.port}"
        )

    def changelog_mode(self) -> ChangelogMode:
        """All kinds if the server logs whole old rows, and no snapshot overlaps with changes."""
        return ChangelogMode.all() if self._has_all_kinds else ChangelogMode.upsert()

    def apply_projection(self, columns: Sequence[str]) -> None:
        fields = tuple(field for field in self._captured.fields if field.name in columns)
        self._captured = replace(self._captured, fields=fields)

    def source_columns(self) -> Sequence[str]:
        of = self._captured
        with of.server.told(), of.server.connect() as connection:
            return [column.name for column in of.facts(connection).columns]

    def scan(self) -> Scan:
        return CaptureScan(self._captured, all_kinds=self._has_all_kinds)

    @cached_property
    def _has_all_kinds(self) -> bool:
        of = self._captured
        if of.startup == INITIAL:
            return False
        with of.server.told(), of.server.connect() as connection:
            return of.facts(connection).identity == FULL
