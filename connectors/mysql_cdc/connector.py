"""The connector `mysql-cdc`: options, and the source of a captured table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from zoneinfo import ZoneInfo

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
from lakewright.connectors.mysql_cdc.captured import INITIAL, LATEST, SPECIFIC, Captured
from lakewright.connectors.mysql_cdc.database import Position, Server
from lakewright.connectors.mysql_cdc.scan import CaptureScan
from lakewright.connectors.options import Option, OptionKind
from lakewright.connectors.runtime import Scan
from lakewright.connectors.sources import ScanTableSource
from lakewright.storage.errors import InvalidOption

_ZONE = "server-time-zone"
_FILE, _POSITION = "scan.startup.specific-offset.file", "scan.startup.specific-offset.pos"


class MysqlCdc(DynamicTableFactory):
    """Makes sources."""

    identifier = "mysql-cdc"
    description = "the rows of a table of MySQL or MariaDB, then its changes"
    required_options = (
        HOSTNAME,
        Option(
            name="username",
            description="a user with REPLICATION SLAVE, REPLICATION CLIENT, and on the database "
            "SELECT and LOCK TABLES",
        ),
        PASSWORD,
        DATABASE,
        TABLE,
    )
    optional_options = (
        port_option(3306),
        Option(
            name="server-id",
            kind=OptionKind.INTEGER,
            description="the id of this reader among all that read the server's log; a random one "
            "without it",
            minimum=1,
        ),
        Option(
            name=_ZONE,
            description="the zone whose clock a column TIMESTAMP of the server shows where it is "
            "declared TIMESTAMP; declared TIMESTAMP_LTZ it needs none",
        ),
        Option(
            name=MODE,
            description="all rows and then changes, or changes from now, or from a place in the "
            "log",
            choices=(INITIAL, LATEST, SPECIFIC),
            default=INITIAL,
        ),
        Option(name=_FILE, description=f"the file of the log, with {SPECIFIC}"),
        Option(
            name=_POSITION,
            kind=OptionKind.INTEGER,
            description=f"the position in the file, with {SPECIFIC}; a transaction begins there",
            minimum=4,
        ),
        CHUNK_ROWS,
    )

    named_by = ("database-name", "table-name")

    def create_source(self, context: Context) -> ScanTableSource:
        options, table = context.options, context.table
        check_primary_key(context)
        place = [each for each in (_FILE, _POSITION) if each in options.given]
        if place != ([_FILE, _POSITION] if options[MODE] == SPECIFIC else []):
            raise InvalidOption(
                f"{context.name}: {_FILE} and {_POSITION} go with '{MODE}' = '{SPECIFIC}', which "
                "needs both",
                option=MODE,
            )
        zone = options[_ZONE]
        if zone is not None:
            _check_zone(zone, context.name)
        return CaptureSource(
            Captured(
                server=Server.of(context),
                table=options["table-name"],
                fields=tuple(table.fields),
                primary_keys=tuple(table.primary_keys),
                startup=options[MODE],
                begin=Position(options[_FILE], options[_POSITION]) if place else None,
                server_id=options["server-id"],
                zone=zone,
                chunk_rows=options[CHUNK],
                env=context.env,
            )
        )


def _check_zone(zone: str, owner: str) -> None:
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise InvalidOption(
            f"option {_ZONE} of {owner}: {zone!r:.80} is no time zone such as Europe/Berlin",
            option=_ZONE,
        ) from None


class CaptureSource(ScanTableSource):
    """A table whose changes are captured."""

    def __init__(self, captured: Captured) -> None:
        self._captured = captured

    @property
    def summary(self) -> str:
        server = self._captured.server
        return f"mysql-cdc of {self._captured.place} at {server.hostname}:{server.port}"

    def changelog_mode(self) -> ChangelogMode:
        """All kinds, if no snapshot overlaps with changes."""
        return ChangelogMode.all() if self._has_all_kinds else ChangelogMode.upsert()

    def apply_projection(self, columns: Sequence[str]) -> None:
        fields = tuple(field for field in self._captured.fields if field.name in columns)
        self._captured = replace(self._captured, fields=fields)

    def source_columns(self) -> Sequence[str]:
        of = self._captured
        with of.server.told():
            connection = of.server.connect()
            with closing(connection.client):
                return [column.name for column in of.facts(connection).columns]

    def scan(self) -> Scan:
        return CaptureScan(self._captured, all_kinds=self._has_all_kinds)

    @property
    def _has_all_kinds(self) -> bool:
        return self._captured.startup != INITIAL
