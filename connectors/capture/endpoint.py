"""Where a captured database is, and who reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from lakewright.connectors.factories import Context


@dataclass(frozen=True)
class Endpoint:
    """A database of a server, as the options of an external table say it.

    `owner` is the external table, for errors.
    """

    hostname: str
    port: int
    database: str
    username: str
    password: str = field(repr=False)
    owner: str

    @classmethod
    def of(cls, context: Context) -> Self:
        """The one that the options of an external table name."""
        options = context.options
        return cls(
            hostname=options["hostname"],
            port=options["port"],
            database=options["database-name"],
            username=options["username"],
            password=options["password"],
            owner=context.name,
        )
