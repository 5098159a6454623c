"""The table that is captured: what it, its publication and its slot have to be, and ways out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakewright.connectors.postgres_cdc.columns import check_columns
from lakewright.connectors.postgres_cdc.database import (
    PLUGIN,
    Connection,
    Server,
    SlotFacts,
    TableFacts,
    lsn_number,
    lsn_text,
    marked,
    quoted,
)
from lakewright.connectors.postgres_cdc.pgoutput import Column
from lakewright.connectors.runtime import Offset
from lakewright.storage.env import Env
from lakewright.storage.errors import InvalidRequestError, NotFoundError
from lakewright.storage.spec.data_types import DataField

INITIAL, LATEST, COMMITTED = "initial", "latest-offset", "committed-offset"
# Of `relreplident`.
FULL, NOTHING = "f", "n"
_END = "FFFFFFFF/FFFFFFFF"


@dataclass(frozen=True)
class Captured:
    """The table that is read, and by what; it pickles."""

    server: Server
    schema: str
    table: str
    fields: tuple[DataField, ...]
    primary_keys: tuple[str, ...]
    slot: str
    publication: str
    startup: str
    chunk_rows: int
    env: Env

    @property
    def owner(self) -> str:
        return self.server.owner

    @property
    def place(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def quoted_place(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.table)}"

    @property
    def only(self) -> str:
        """The table without those that inherit from it, in a statement that has parameters."""
        return f"ONLY {marked(self.schema)}.{marked(self.table)}"

    def error(self, message: str) -> InvalidRequestError:
        return InvalidRequestError(f"{self.owner}: {message}")

    def facts(self, connection: Connection) -> TableFacts:
        """What the catalog says of the table, if it can be read.

        Raises:
            NotFoundError: there is no such table.
            InvalidRequestError: its kind, key or columns are not as they have to be.
        """
        found = connection.table(self.schema, self.table)
        if found is None:
            raise NotFoundError(
                f"{self.owner}: database {self.server.database} has no table {self.place} that "
                f"user {self.server.username} sees"
            )
        if found.kind != "r":
            raise self.error(
                f"{self.place} is a partitioned table or a view (relkind {found.kind}), whose "
                "changes are not captured; define an external table for each of its partitions"
            )
        self.check_identity(found.identity)
        if {*found.key} != {*self.primary_keys}:
            raise self.error(
                f"its primary key is ({', '.join(self.primary_keys)}), and rows of {self.place} "
                f"are identified by ({', '.join(found.key) or 'nothing'}); declare the same key"
            )
        self.check_columns(found.columns, connection)
        return found

    def check_identity(self, identity: str) -> None:
        alter = f"ALTER TABLE {self.place} REPLICA IDENTITY"
        if identity == NOTHING:
            raise self.error(
                f"{self.place} has REPLICA IDENTITY NOTHING, so deletions do not say which row; "
                f"run {alter} DEFAULT, or FULL"
            )
        required = [
            each.name
            for each in self.fields
            if not each.type.nullable and each.name not in self.primary_keys
        ]
        if identity != FULL and required:
            raise self.error(
                f"{self.place} has no REPLICA IDENTITY FULL, so a deletion has its key alone, and "
                f"{', '.join(required)} cannot be NOT NULL; leave that out, or run {alter} FULL"
            )

    def check_columns(self, columns: Sequence[Column], connection: Connection) -> None:
        check_columns(
            self.fields,
            columns,
            place=self.place,
            owner=self.owner,
            type_name=connection.type_name,
        )

    # --- publication and slot ---

    def begun(self, connection: Connection, table: int) -> Offset:
        """Where the stream begins; publication and slot are made if they are not there."""
        found = self._slot(connection)
        if found is None and self.startup == COMMITTED:
            raise self.error(
                f"scan.startup.mode is {COMMITTED}, and slot {self.slot} is not there to say what "
                f"was committed; begin with {INITIAL} or {LATEST}"
            )
        # A publication is unknown to what was written before it.
        self._publish(connection, can_make=found is None)
        if found is None:
            self._make_slot(connection)
        begin: Offset = {"phase": "stream", "lsn": "0/0", "table": table}
        slot = self.checked_slot(connection, {**begin, "lsn": _END})
        if self.startup == LATEST and found is not None:
            connection.wait_for_flush(slot.inserted, self.env)
            return {**begin, "lsn": lsn_text(slot.inserted)}
        begin = {**begin, "lsn": lsn_text(slot.confirmed)}
        if self.startup != INITIAL:
            return begin
        connection.wait_for_writers(self.env)
        return {**begin, "phase": "snapshot", "after": None}

    def _make_slot(self, connection: Connection) -> None:
        made = "SELECT pg_create_logical_replication_slot(%s, %s)"
        if not connection.run(made, self.slot, PLUGIN):
            user = self.server.username
            raise self.error(
                f"user {user} may not make slot {self.slot}; run ALTER ROLE {quoted(user)} "
                f"REPLICATION, or as another user SELECT pg_create_logical_replication_slot("
                f"'{self.slot}', '{PLUGIN}')"
            )

    def _publish(self, connection: Connection, *, can_make: bool) -> None:
        name, place = quoted(self.publication), self.quoted_place
        found = connection.publication(self.publication)
        if found is None and not can_make:
            raise self.error(
                f"publication {self.publication} is not there, and slot {self.slot} is: what the "
                "slot holds was written without it; drop the slot by SELECT "
                f"pg_drop_replication_slot('{self.slot}'), and begin again"
            )
        if found is None:
            make = f"CREATE PUBLICATION {name} FOR TABLE {place}"
            if not connection.run(make):
                raise self.error(
                    f"user {self.server.username} may not make publication {self.publication}; "
                    f"run as the owner of the table: {make}"
                )
        elif not found:
            raise self.error(
                f"publication {self.publication} leaves out some changes; run ALTER PUBLICATION "
                f"{name} SET (publish = 'insert, update, delete, truncate')"
            )
        self.check_published(connection)

    def check_published(self, connection: Connection) -> None:
        """Refuse a publication without the table, or with some of its rows."""
        filters = connection.published(self.publication, self.schema, self.table)
        if filters != [None]:
            problem, verb = ("leaves out rows of", "SET") if filters else ("is without", "ADD")
            raise self.error(
                f"publication {self.publication} {problem} {self.place}; run ALTER PUBLICATION "
                f"{quoted(self.publication)} {verb} TABLE {self.quoted_place}; {self.anew}"
            )

    def checked_slot(self, connection: Connection, offset: Offset) -> SlotFacts:
        """The slot, if it still has all changes behind an offset."""
        slot = self._slot(connection)
        lost = f"changes behind position {offset['lsn']} are lost"
        if slot is None:
            raise self.error(f"slot {self.slot} was dropped, and {lost}; {self.anew}")
        if (slot.plugin, slot.database) != (PLUGIN, self.server.database):
            raise self.error(
                f"slot {self.slot} is of plugin {slot.plugin} in database {slot.database}, and has "
                f"to be of {PLUGIN} in {self.server.database}; name another slot"
            )
        if slot.wal_status == "lost":
            raise self.error(
                f"the server invalidated slot {self.slot} (max_slot_wal_keep_size), and {lost}; "
                f"{self.anew}"
            )
        if slot.confirmed > lsn_number(offset["lsn"]):
            raise self.error(
                f"slot {self.slot} was advanced to {lsn_text(slot.confirmed)} by another reader, "
                f"and changes between {offset['lsn']} and there are lost; {self.anew}, and give "
                "each reader a slot of its own"
            )
        if slot.table != offset["table"]:
            raise self.error(
                f"{self.place} is not the table that the stream began with: that one was dropped "
                f"or renamed; {self.anew}"
            )
        return slot

    def _slot(self, connection: Connection) -> SlotFacts | None:
        return connection.slot(self.slot, self.quoted_place)

    @property
    def anew(self) -> str:
        return (
            f"begin anew: drop the slot (SELECT pg_drop_replication_slot('{self.slot}')), give the "
            "stream a new checkpoint, and empty the table that it fills"
        )

    def truncated(self) -> InvalidRequestError:
        return self.error(
            f"{self.place} was truncated, which does not say the rows that are gone; {self.anew}"
        )
