"""The table that is captured: what it, its publication and its slot have to be, and ways out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakewright.connectors.capture.logged_columns import or_anew
from lakewright.connectors.capture.new_columns import tell_new_columns
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
from lakewright.connectors.postgres_cdc.state import State, check
from lakewright.connectors.rests import RESTS, Facts, rests_of
from lakewright.connectors.runtime import Offset
from lakewright.storage.env import Env
from lakewright.storage.errors import InvalidRequestError, NotFoundError, SourceChanged
from lakewright.storage.spec.data_types import DataField

INITIAL, LATEST, COMMITTED = "initial", "latest-offset", "committed-offset"
# Of `relreplident`.
DEFAULT, FULL, NOTHING = "d", "f", "n"
_MODE = "scan.startup.mode"
_ALL_OPERATIONS = "SET (publish = 'insert, update, delete, truncate')"
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
        described = connection.table(self.schema, self.table)
        if described is None:
            raise NotFoundError(
                f"{self.owner}: database {self.server.database} has no table {self.place} that "
                f"user {self.server.username} sees"
            )
        if described.kind != "r":
            raise self.error(
                f"{self.place} is a partitioned table or a view (relkind {described.kind}), whose "
                "changes are not captured; define an external table for each of its partitions"
            )
        self.check_identity(described.identity)
        if described.identity == DEFAULT and described.is_deferrable:
            raise self.error(
                f"the primary key of {self.place} is DEFERRABLE and identifies no row in the log: "
                "once it is published, the server refuses every UPDATE and DELETE; make the key "
                f"NOT DEFERRABLE, or run {self._alter_identity} FULL"
            )
        if {*described.key} != {*self.primary_keys}:
            raise self.error(
                f"its primary key is ({', '.join(self.primary_keys)}), and rows of {self.place} "
                f"are identified by ({', '.join(described.key) or 'nothing'}); declare the same key"
            )
        self.check_columns(described.columns, connection)
        return described

    def check_identity(self, identity: str) -> None:
        alter = self._alter_identity
        if identity == NOTHING:
            raise self.error(
                f"{self.place} has REPLICA IDENTITY NOTHING, so deletions do not say which row; "
                f"run {alter} DEFAULT, or FULL"
            )
        required = [
            field.name
            for field in self.fields
            if not field.type.nullable and field.name not in self.primary_keys
        ]
        if identity != FULL and required:
            raise self.error(
                f"{self.place} has no REPLICA IDENTITY FULL, so a deletion has its key alone, and "
                f"{', '.join(required)} cannot be NOT NULL; leave that out, or run {alter} FULL"
            )

    @property
    def _alter_identity(self) -> str:
        return f"ALTER TABLE {self.place} REPLICA IDENTITY"

    def check_columns(
        self, columns: Sequence[Column], connection: Connection, *, logged: bool = False
    ) -> None:
        """Refuse columns that do not fit the declared ones: those of now, or of logged changes."""
        with or_anew(self.anew, logged=logged):
            check_columns(
                self.fields,
                columns,
                place=self.place,
                owner=self.owner,
                type_name=connection.type_name,
            )

    # --- publication and slot ---

    def begun(self, connection: Connection) -> Offset:
        """Where the stream begins; publication and slot are made if they are not there."""
        found = connection.slot(self.slot)
        if found is None and self.startup == COMMITTED:
            raise self.error(
                f"scan.startup.mode is {COMMITTED}, and slot {self.slot} is not there to say what "
                f"was committed; begin with {INITIAL} or {LATEST}"
            )
        ((level,),) = connection.rows("SHOW wal_level")
        if level != "logical":
            raise self.error(
                f"the server writes its log with wal_level = {level}, which does not tell rows; "
                "run ALTER SYSTEM SET wal_level = 'logical', and start the server again"
            )
        self._check_logged(self._state(connection))
        # A publication is unknown to what was written before it.
        self._publish(connection, can_make=found is None)
        if found is None:
            self._make_slot(connection)
        slot, rests = self.checked(connection, {"phase": "stream", "lsn": _END}, set())
        begin: Offset = {"phase": "stream", "lsn": lsn_text(slot.confirmed), RESTS: rests}
        if self.startup == LATEST and found is not None:
            connection.wait_for_flush(slot.inserted, self.env)
            return {**begin, "lsn": lsn_text(slot.inserted)}
        if self.startup != INITIAL:
            return begin
        connection.wait_for_writers(self.env)
        return {**begin, "phase": "snapshot", "after": None}

    def _make_slot(self, connection: Connection) -> None:
        if not connection.make_slot(self.slot):
            user = self.server.username
            raise self.error(
                f"user {user} may not make slot {self.slot}; run ALTER ROLE {quoted(user)} "
                f"REPLICATION, or as another user SELECT pg_create_logical_replication_slot("
                f"'{self.slot}', '{PLUGIN}')"
            )

    def _publish(self, connection: Connection, *, can_make: bool) -> None:
        if self._state(connection).publication is not None:
            return
        if not can_make:
            raise self.error(
                f"publication {self.publication} is not there, and slot {self.slot} is: what the "
                "slot holds was written without it; drop the slot by SELECT "
                f"pg_drop_replication_slot('{self.slot}'), and begin again"
            )
        make = f"CREATE PUBLICATION {quoted(self.publication)} FOR TABLE {self.quoted_place}"
        if not connection.run(make):
            raise self.error(
                f"user {self.server.username} may not make publication {self.publication}; "
                f"run as the owner of the table: {make}"
            )

    # --- every batch ---

    def checked(
        self, connection: Connection, offset: Offset, told: set[str]
    ) -> tuple[SlotFacts, Facts]:
        """The slot, and what a position rests on now; an offset has to rest on the same.

        New columns are told, which are not among those that were `told`.

        Raises:
            SourceChanged: it does not.
            InvalidRequestError: the slot or the publication lacks changes.
        """
        now = self.check(connection, rests_of(offset), told)
        return self.slot_now(connection, offset), now

    def check(self, connection: Connection, before: Facts, told: set[str]) -> Facts:
        """Compare what a position rests on with what is there now, which is returned."""
        state = self._state(connection)
        self._check_logged(state)
        now = state.facts(connection.server(), self.slot, [field.name for field in self.fields])
        check(self.owner, before, now, self._way)
        self._check_publication(state)
        tell_new_columns(before, now, told, state.defaults, owner=self.owner, place=self.place)
        return now

    def _state(self, connection: Connection) -> State:
        found = connection.state(self.publication, self.schema, self.table)
        if found is None:
            raise self.error(f"{self.place} is not there any more; {self.anew}")
        return State(found)

    def _check_logged(self, state: State) -> None:
        if not state.is_logged:
            raise self.error(
                f"{self.place} is UNLOGGED, so the log has no changes of it; run ALTER TABLE "
                f"{self.place} SET LOGGED, and {self.anew}"
            )

    def _check_publication(self, state: State) -> None:
        """Refuse a publication without the table, or with some of its changes."""
        lacking = "is not there"
        if state.publication is not None:
            lacking = self._lacking(state)
        if lacking:
            raise self.error(f"publication {self.publication} {lacking}; {self.anew}")

    def _lacking(self, state: State) -> str:
        """What a publication lacks, and the statement that gives it; nothing if it is whole."""
        alter = f"run ALTER PUBLICATION {quoted(self.publication)}"
        if state.lacks_operations:
            return f"leaves out some changes; {alter} {_ALL_OPERATIONS}"
        if state.is_by_root:
            return (
                "has publish_via_partition_root, by which changes of a partition go by the name "
                f"of another table; name one without it: CREATE PUBLICATION … FOR TABLE "
                f"{self.quoted_place}"
            )
        if not state.is_published:
            return f"is without {self.place}; {alter} ADD TABLE {self.quoted_place}"
        names = [field.name for field in self.fields if not state.publishes(field.name)]
        if names or state.is_filtered:
            what = f"columns ({', '.join(names)})" if names else "rows"
            return f"leaves out {what} of {self.place}; {alter} SET TABLE {self.quoted_place}"
        return ""

    def _way(self, thing: str) -> str:
        """What a change of something that a position rests on means, and the way on."""
        match thing:
            case "server" | "timeline":
                return (
                    "the log has other positions (another server has this address, or it was "
                    f"restored, or a standby took its place); {self.anew}"
                )
            case "slot":
                return f"name the slot of the stream again; or {self.anew}"
            case "table":
                return (
                    f"{self.place} is not the table that the stream began with: that one was "
                    f"dropped or renamed; {self.anew}"
                )
            case (
                "publication"
                | "publication of the table"
                | "schema of the table"
                | "parents of the table"
            ):
                name, table = quoted(self.publication), self.quoted_place
                return (
                    f"changes in between may be left out; see that it has all of them (ALTER "
                    f"PUBLICATION {name} {_ALL_OPERATIONS}, and SET TABLE {table}), and {self.anew}"
                )
            case "rewriting of the table":
                return (
                    "if it was UNLOGGED for a while, the log has none of its changes: "
                    f"{self.anew}; if it was written anew by VACUUM FULL, CLUSTER or ALTER TABLE "
                    f"alone, go on: with a new checkpoint and '{_MODE}' = '{COMMITTED}', and "
                    "publish the table by its own name, with which the server keeps it logged"
                )
            case _:
                return (
                    "rows that were read and did not change since may have other values at the "
                    f"source; {self.anew}; or if they all stayed as they were, go on: with a new "
                    f"checkpoint and '{_MODE}' = '{COMMITTED}'"
                )

    def slot_now(self, connection: Connection, offset: Offset) -> SlotFacts:
        """The slot, if it still has all changes behind an offset."""
        slot = connection.slot(self.slot)
        lost = f"changes behind position {offset['lsn']} are lost"
        if slot is None:
            raise self.error(f"slot {self.slot} was dropped, and {lost}; {self.anew}")
        if (slot.plugin, slot.database) != (PLUGIN, self.server.database):
            raise self.error(
                f"slot {self.slot} is of plugin {slot.plugin} in database {slot.database}, and has "
                f"to be of {PLUGIN} in {self.server.database}; name another slot"
            )
        if slot.is_two_phase:
            raise self.error(
                f"slot {self.slot} was made with two_phase, so it gives prepared transactions "
                "before they are committed; name a slot without it"
            )
        if slot.wal_status == "lost":
            raise self.error(
                f"the server invalidated slot {self.slot} (max_slot_wal_keep_size), and {lost}; "
                f"{self.anew}"
            )
        if slot.confirmed > lsn_number(offset["lsn"]):
            raise self.error(
                f"slot {self.slot} was advanced to {lsn_text(slot.confirmed)}, and changes between "
                f"{offset['lsn']} and there are lost: either the stream itself read them, and the "
                "table that it fills was rolled back afterwards; or another reader did, or the "
                f"slot was dropped and made again; {self.anew}, and give each reader a slot of its "
                "own"
            )
        if offset["lsn"] != _END and slot.inserted < lsn_number(offset["lsn"]):
            raise self.error(
                f"the server's log ends at {lsn_text(slot.inserted)}, before position "
                f"{offset['lsn']} (it was restored to an earlier moment); {self.anew}"
            )
        return slot

    def check_log(
        self, before: Mapping[str, Any] | None, now: Mapping[str, Any] | None, position: str
    ) -> None:
        """Compare the last transaction between the slot and a position; None is that of none.

        Raises:
            SourceChanged: they differ, so the log is another one.
        """
        if before != now:
            raise SourceChanged(
                f"{self.owner}: the last transaction in the log behind slot {self.slot}, up to "
                f"position {position}, is {_transaction(now)}, and was {_transaction(before)} when "
                "it was read: the server was restored from a copy of its disk, and went on with "
                f"other changes; {self.anew}",
                thing="log",
                before=before,
                now=now,
            )

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


def _transaction(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "none"
    at = dt.datetime(2000, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=found["micros"])
    return f"{found['xid']}, committed at {at.isoformat(' ')}, with its end at {found['lsn']}"
