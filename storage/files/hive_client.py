"""The metastore of Hive, spoken to in its Thrift protocol: one connection for each question."""

from __future__ import annotations

import getpass
import importlib
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lakewright.storage.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotFoundError,
    StorageError,
    UnavailableError,
)
from lakewright.storage.extras import needed_for
from lakewright.storage.files.store_failures import harmless
from lakewright.storage.secret_texts import without_secrets

_PORT = 9083
_CONNECT_MS = 10_000
_ANSWER_MS = 60_000
# A metastore that renames a table moves its files before it answers.
_MOVE_MS = 600_000
_ADDRESS = re.compile(
    r"thrift://(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:/@?#,\[\]]+)(?::(?P<port>\d+))?/?"
)
_IDL = Path(__file__).with_name("hive_metastore.thrift")
# Without it, a metastore refuses every question about a database with an insert-only table.
_INSERT_ONLY_TABLES = 2
# How many tables one answer holds: what Java's client asks for.
_BATCH = 300
# Columns of these tables are found by name and id. The check compares them by position.
_CHECKS_POSITIONS = "hive.metastore.disallow.incompatible.col.type.changes"


@dataclass(frozen=True)
class HiveMetastore:
    """One metastore, at one or more addresses; it pickles, and holds no secret."""

    url: str

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Hosts and ports, in the order in which they are tried."""
        matches = [_ADDRESS.fullmatch(each.strip()) for each in self.url.split(",")]
        return tuple(
            (each["host"].strip("[]"), int(each["port"] or _PORT)) for each in matches if each
        )

    def warehouse(self) -> str:
        """Where the database `default` lies, which is where new databases are made."""
        found = self.database("default")
        if found is None or not found.locationUri:
            raise InvalidRequestError(
                f"the metastore at {self.url} has no database default that says where the "
                "warehouse lies; open the warehouse by its path, with metastore hive and this uri"
            )
        return str(found.locationUri)

    def databases(self) -> tuple[str, ...]:
        with self._calls("list databases") as calls:
            return tuple(sorted(calls.get_all_databases()))

    def database(self, name: str) -> Any | None:
        with self._calls(f"read database {name}") as calls:
            try:
                return calls.get_database(name)
            except idl().NoSuchObjectException:
                return None

    def create_database(self, name: str, location: str) -> None:
        made = idl().Database(name=name, locationUri=location, parameters={}, description="")
        with self._calls(f"create database {name}") as calls:
            calls.create_database(made)

    def drop_database(self, name: str) -> None:
        """Drop a database without tables of any kind; its folder stays."""
        with self._calls(f"drop database {name}") as calls:
            calls.drop_database(name, False, False)

    def table_names(self, database: str) -> tuple[str, ...]:
        """Names of all tables and views of a database, those of other formats too."""
        with self._calls(f"list tables of {database}") as calls:
            return tuple(sorted(calls.get_all_tables(database)))

    def tables(self, database: str) -> list[Any]:
        """All tables and views of a database, in the order of their names."""
        names = self.table_names(database)
        found: list[Any] = []
        with self._calls(f"read tables of {database}") as calls:
            for first in range(0, len(names), _BATCH):
                request = idl().GetTablesRequest(
                    dbName=database,
                    tblNames=list(names[first : first + _BATCH]),
                    capabilities=_capabilities(),
                )
                found += calls.get_table_objects_by_name_req(request).tables
        return found

    def table(self, database: str, table: str) -> Any | None:
        """What the metastore knows of a table, of whatever kind; None if it has none."""
        request = idl().GetTableRequest(
            dbName=database, tblName=table, capabilities=_capabilities()
        )
        with self._calls(f"read table {database}.{table}") as calls:
            try:
                return calls.get_table_req(request).table
            except idl().NoSuchObjectException:
                return None

    def create_table(self, made: Any) -> None:
        with self._calls(f"create table {made.dbName}.{made.tableName}") as calls:
            calls.create_table(made)

    def alter_table(self, database: str, table: str, now: Any) -> None:
        """Replace what the metastore knows of a table; another name in it renames the table."""
        environment = idl().EnvironmentContext(
            # Statistics that it would count are those of files that no snapshot may name.
            properties={"CASCADE": "true", "DO_NOT_UPDATE_STATS": "true"}
        )
        with self._calls(f"alter table {database}.{table}", answer_ms=_MOVE_MS) as calls:
            with suppress(idl().MetaException):
                calls.setMetaConf(_CHECKS_POSITIONS, "false")
            calls.alter_table_with_environment_context(database, table, now, environment)

    def drop_table(self, database: str, table: str) -> None:
        """Forget a table; its files stay. A table that is gone already is no error."""
        with (
            self._calls(f"drop table {database}.{table}") as calls,
            suppress(idl().NoSuchObjectException),
        ):
            calls.drop_table(database, table, False)

    def lock(self, database: str, table: str) -> tuple[int, bool]:
        """Ask for the exclusive lock of a table; its id, and whether it is held already."""
        component = idl().LockComponent(
            type=idl().LockType.EXCLUSIVE,
            level=idl().LockLevel.TABLE,
            dbname=database,
            tablename=table,
        )
        request = idl().LockRequest(
            component=[component],
            user=current_user(),
            hostname=socket.gethostname(),
            agentInfo="lakewright",
        )
        with self._calls(f"lock {database}.{table}") as calls:
            answer = calls.lock(request)
        return int(answer.lockid), answer.state == idl().LockState.ACQUIRED

    def is_held(self, lock: int) -> bool:
        """Whether a lock that was asked for is held now; asking keeps the request alive."""
        with self._calls(f"check lock {lock}") as calls:
            state = calls.check_lock(idl().CheckLockRequest(lockid=lock)).state
        return bool(state == idl().LockState.ACQUIRED)

    def unlock(self, lock: int) -> bool:
        """Give a lock back; False if it was lost before, which a metastore tells if it is asked."""
        with self._calls(f"unlock {lock}") as calls:
            try:
                state = calls.check_lock(idl().CheckLockRequest(lockid=lock)).state
                calls.unlock(idl().UnlockRequest(lockid=lock))
            except idl().NoSuchLockException:
                return False
        return bool(state == idl().LockState.ACQUIRED)

    @contextmanager
    def _calls(self, what: str, *, answer_ms: int = _ANSWER_MS) -> Iterator[Any]:
        """A connection, on which a call answers, or raises what the metastore told.

        Raises:
            UnavailableError: the metastore cannot be reached, or fails; `answered` in its details
                says whether it told so itself, so that nothing was done.
            InvalidRequestError, AlreadyExistsError, NotFoundError: it refuses.
        """
        library, told = _library(), idl()
        try:
            client = self._connected(answer_ms)
            try:
                yield client
            finally:
                client.close()
        except told.AlreadyExistsException as error:
            raise AlreadyExistsError(self._refused(what, error)) from error
        except told.NoSuchObjectException as error:
            raise NotFoundError(self._refused(what, error)) from error
        except (told.InvalidObjectException, told.InvalidOperationException) as error:
            raise InvalidRequestError(self._refused(what, error)) from error
        except told.MetaException as error:
            raise UnavailableError(self._refused(what, error), answered=True) from error
        except library.TException as error:
            raise UnavailableError(
                f"the metastore at {self.url} failed to {what}: "
                f"{without_secrets(str(error)) or type(error).__name__}; its own log says why. A "
                "metastore that asks for Kerberos, another SASL mechanism or TLS ends the "
                "connection like this: none of them is implemented",
            ) from harmless(error)
        except OSError as error:
            raise UnavailableError(
                f"the metastore at {self.url} did not answer the request to {what}: {error}; check "
                "the address and that it runs. One that asks for Kerberos or TLS may never answer: "
                "neither is implemented"
            ) from error

    def _refused(self, what: str, error: Exception) -> str:
        message = str(getattr(error, "message", None) or type(error).__name__)
        first = without_secrets(message).strip().split("\n", 1)[0]
        return f"the metastore at {self.url} refuses to {what}: {first:.500}"

    def _connected(self, answer_ms: int) -> Any:
        """A client that is connected to the first address that answers, as this user."""
        library, failures = _library(), []
        for host, port in self.addresses:
            transport = library.TBufferedTransport(
                library.TSocket(host, port, socket_timeout=answer_ms, connect_timeout=_CONNECT_MS)
            )
            try:
                transport.open()
            except (library.TException, OSError) as error:
                failures.append(f"{host}:{port}: {getattr(error, 'message', None) or error}")
                continue
            client = library.TClient(idl().ThriftHiveMetastore, library.TBinaryProtocol(transport))
            try:
                # Folders that the metastore makes belong to the user whom a client names.
                client.set_ugi(current_user(), [])
            except BaseException:
                client.close()
                raise
            return client
        raise UnavailableError(
            f"the metastore at {self.url} cannot be reached: {'; '.join(failures)}; check the "
            "address and that it runs"
        )


def open_metastore(url: str) -> HiveMetastore:
    """The metastore that a URL names, `thrift://host:port`; it is not connected yet.

    Several are written one after the other, with commas between.

    Raises:
        InvalidRequestError: the URL is of another form.
        UnsupportedError: a package is missing; the message says how to install it.
    """
    if not all(_ADDRESS.fullmatch(each.strip()) for each in url.split(",")):
        # The rest of the URL may hold a secret.
        raise InvalidRequestError(
            "the metastore's URL is not of the form thrift://host:port, or thrift://a:9083,"
            "thrift://b:9083; users, passwords and options have no place in it"
        )
    _library()
    return HiveMetastore(url)


@cache
def idl() -> Any:
    """The structs, exceptions and calls of the protocol."""
    _library()
    load = importlib.import_module("thriftpy2").load
    return load(str(_IDL), module_name="lakewright_hive_metastore_thrift")


@dataclass(frozen=True, slots=True)
class _Library:
    TSocket: Any
    TBufferedTransport: Any
    TBinaryProtocol: Any
    TClient: Any
    TException: Any


@cache
def _library() -> _Library:
    with needed_for("a catalog in a Hive metastore"):
        thrift = importlib.import_module("thriftpy2.thrift")
        transport = importlib.import_module("thriftpy2.transport")
        protocol = importlib.import_module("thriftpy2.protocol")
        return _Library(
            TSocket=transport.TSocket,
            TBufferedTransport=transport.TBufferedTransport,
            TBinaryProtocol=protocol.TBinaryProtocol,
            TClient=thrift.TClient,
            TException=thrift.TException,
        )


def _capabilities() -> Any:
    return idl().ClientCapabilities(values=[_INSERT_ONLY_TABLES])


def current_user() -> str:
    """The name of this process's user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "lakewright"


def was_answered(error: StorageError) -> bool:
    """Whether the metastore itself refused, so that it did nothing."""
    return not isinstance(error, UnavailableError) or bool(error.details.get("answered"))
