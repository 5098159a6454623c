"""Options that the captures of databases share."""

from __future__ import annotations

from lakewright.connectors.factories import Context
from lakewright.connectors.options import Option, OptionKind
from lakewright.storage.errors import InvalidOption

CHUNK, MODE = "scan.incremental.snapshot.chunk.size", "scan.startup.mode"
HOSTNAME = Option(name="hostname", description="the server")
PASSWORD = Option(name="password", description="the password: '${env:NAME}'", secret=True)
DATABASE = Option(name="database-name", description="the database")
TABLE = Option(name="table-name", description="the table")
CHUNK_ROWS = Option(
    name=CHUNK,
    kind=OptionKind.INTEGER,
    description="rows of the snapshot that one query reads",
    default=8096,
    minimum=1,
)


def port_option(default: int) -> Option:
    """The option of the server's port."""
    return Option(
        name="port",
        kind=OptionKind.INTEGER,
        description="the port of the server",
        default=default,
        minimum=1,
    )


def check_primary_key(context: Context) -> None:
    """Refuse an external table without a key.

    Raises:
        InvalidOption: it has none.
    """
    if not context.table.primary_keys:
        raise InvalidOption(
            f"{context.name} has no primary key, which identifies changed rows; "
            "declare that of the table: PRIMARY KEY (…) NOT ENFORCED"
        )
