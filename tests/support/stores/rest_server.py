"""A server of Paimon's REST catalog, written from its OpenAPI text: warehouses in one folder.

It keeps what clients send in memory, and schemas and snapshots as files in the tables, as Paimon's
own servers do. A test may let it answer in pages, hand out tokens, and die at a given request.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "the-token-of-the-tests"
WAREHOUSE = "lake"
PREFIX = "the-prefix"
Json = dict[str, Any]


class Refused(Exception):
    """An answer with a code of the protocol, and the kind of what is missing or taken."""

    def __init__(self, code: int, message: str, kind: str | None = None, name: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.location: str | None = None
        self.body = {
            "message": message,
            "resourceType": kind,
            "resourceName": name or None,
            "code": code,
        }


@dataclass
class Held:
    """A table: what the server answers for it, and its latest snapshot."""

    id: str
    path: str
    schemas: list[Json]
    snapshot: Json | None = None
    is_external: bool = False
    statistics: list[Json] = field(default_factory=list)


@dataclass
class Fault:
    """What happens to the next request of a method whose path matches."""

    method: str
    path: str
    # The request is carried out before it fails.
    after: bool = False
    # None cuts the connection.
    code: int | None = None
    # Called before anything else; other clients may come first here.
    meanwhile: Callable[[], None] | None = None
    times: int = 1
    # Where an answer sends the client.
    location: str | None = None


class RestCatalogServer:
    """The server, which has an address while the context is open."""

    def __init__(self, folder: Path | str, *, page: int = 3, config: Json | None = None) -> None:
        self.folder = str(folder)
        self.page = page
        self.config = {"prefix": PREFIX, **(config or {})}
        self.databases: dict[str, Json] = {}
        self.tables: dict[tuple[str, str], Held] = {}
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        # Each page is the first one.
        self.forgets_pages = False
        # What a table's token is, and for how long.
        self.token: Callable[[], tuple[Json, int]] = lambda: (
            {"fs.s3.accessKeyId": "k", "fs.s3.accessKeySecret": "s"},
            int(time.time() * 1000) + 7_200_000,
        )
        self.lock = threading.RLock()
        self.address = ""

    @contextmanager
    def running(self) -> Iterator[RestCatalogServer]:
        outer = self

        class Handler(_Handler):
            server_of = outer

        httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        httpd.daemon_threads = True
        thread = threading.Thread(target=httpd.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        self.address = f"http://127.0.0.1:{httpd.server_address[1]}"
        try:
            yield self
        finally:
            httpd.shutdown()
            httpd.server_close()
            thread.join()

    @property
    def options(self) -> dict[str, str]:
        """Options of a catalog, for any client."""
        return {
            "metastore": "rest",
            "uri": self.address,
            "token.provider": "bear",
            "token": TOKEN,
        }

    def counted(self, pattern: str) -> int:
        """How many requests matched."""
        return sum(bool(re.search(pattern, each)) for each in self.requests)

    def answer(self, method: str, path: list[str], query: dict[str, str], body: Json) -> Json:
        if path == ["v1", "config"]:
            if query.get("warehouse") != WAREHOUSE:
                raise Refused(404, f"no warehouse {query.get('warehouse')}")
            return {"defaults": self.config, "overrides": {}}
        if path[:2] != ["v1", PREFIX]:
            raise Refused(404, "the prefix is not that of the warehouse")
        with self.lock:
            match method, path[2:]:
                case "GET", ["databases"]:
                    return self._paged("databases", self.databases, query)
                case "POST", ["databases"]:
                    if body["name"] in self.databases:
                        raise Refused(409, "it exists", "DATABASE", body["name"])
                    self.databases[body["name"]] = dict(body.get("options") or {})
                    return {}
                case "POST", ["tables", "rename"]:
                    return self._rename(body["source"], body["destination"])
                case _, ["databases", database, *rest]:
                    if database not in self.databases:
                        raise Refused(404, f"no database {database}", "DATABASE", database)
                    return self._in_database(method, database, rest, query, body)
        raise Refused(501, f"{method} {'/'.join(path)} is not implemented")

    def _in_database(
        self, method: str, database: str, rest: list[str], query: dict[str, str], body: Json
    ) -> Json:
        names = [name for each, name in self.tables if each == database]
        match method, rest:
            case "GET", []:
                return {
                    "id": database,
                    "name": database,
                    "location": f"{self.folder}/{database}.db",
                    "options": self.databases[database],
                    **_AUDIT,
                }
            case "DELETE", []:
                for name in names:
                    self._drop((database, name))
                del self.databases[database]
                self.remove(f"{self.folder}/{database}.db")
                return {}
            case "GET", ["views"]:
                return {"views": []}
            case "GET", ["tables"]:
                wanted = query.get("tableType")
                kept = [name for name in names if wanted in (None, self._type((database, name)))]
                return self._paged("tables", kept, query)
            case "GET", ["table-details"]:
                found = self._paged("names", names, query)
                details = [self._told((database, name)) for name in found["names"]]
                return {"tableDetails": details, "nextPageToken": found["nextPageToken"]}
            case "POST", ["tables"]:
                return self._create(database, body["identifier"]["object"], body["schema"])
            case _, ["tables", table, *of_table]:
                if (database, table) not in self.tables:
                    raise Refused(404, f"no table {database}.{table}", "TABLE", table)
                return self._of_table(method, (database, table), of_table, body)
        raise Refused(501, f"{method} of {'/'.join(rest)} is not implemented")

    def _of_table(self, method: str, name: tuple[str, str], rest: list[str], body: Json) -> Json:
        held = self.tables[name]
        match method, rest:
            case "GET", []:
                return self._told(name)
            case "POST", []:
                schema = json.loads(json.dumps(held.schemas[-1]))
                for change in body["changes"]:
                    _alter(schema, change)
                schema["id"] += 1
                self._write_schema(held, schema)
                return {}
            case "DELETE", []:
                self._drop(name)
                return {}
            case "GET", ["token"]:
                token, expires_ms = self.token()
                return {"token": token, "expiresAtMillis": expires_ms}
            case "GET", ["snapshot"]:
                if held.snapshot is None:
                    raise Refused(404, "no snapshot", "SNAPSHOT")
                totals = dict.fromkeys(("recordCount", "fileSizeInBytes", "fileCount"), 0)
                return {
                    "snapshot": {"snapshot": held.snapshot, **totals, "lastFileCreationTime": 0}
                }
            case "POST", ["commit"]:
                return self._commit(name, held, body)
        raise Refused(501, f"{method} of {'/'.join(rest)} is not implemented")

    def _commit(self, name: tuple[str, str], held: Held, body: Json) -> Json:
        if body["tableId"] != held.id:
            raise Refused(404, "another table has the name now", "TABLE", name[1])
        base = None if held.snapshot is None else held.snapshot.get("uuid")
        snapshot = body["snapshot"]
        folder = f"{held.path}/snapshot"
        file = f"{folder}/snapshot-{snapshot['id']}"
        # Clients of version 1 name no base, and no uuid: the id alone tells that they came first.
        if body.get("baseSnapshotUuid", base) != base or self.has(file):
            return {"success": False}
        self.put(file, json.dumps(snapshot, indent=2))
        self.put(f"{folder}/LATEST", str(snapshot["id"]))
        if held.snapshot is None:
            self.put(f"{folder}/EARLIEST", str(snapshot["id"]))
        held.snapshot = snapshot
        held.statistics += body.get("statistics") or []
        return {"success": True}

    def _create(self, database: str, table: str, schema: Json) -> Json:
        if (database, table) in self.tables:
            raise Refused(409, f"table {database}.{table} exists", "TABLE", table)
        options = dict(schema.get("options") or {})
        path = options.pop("path", None)
        place = path.removeprefix("file:") if path else self._place(database, table)
        made = Held(str(uuid.uuid4()), place, [], is_external=path is not None)
        keys = set(schema.get("primaryKeys") or ())
        fields = [
            {**each, "type": _required(each["type"])} if each["name"] in keys else each
            for each in schema["fields"]
        ]
        self._write_schema(
            made,
            {
                "version": 3,
                "id": 0,
                "fields": fields,
                "highestFieldId": max(_ids(fields), default=-1),
                "partitionKeys": schema.get("partitionKeys") or [],
                "primaryKeys": schema.get("primaryKeys") or [],
                "options": options,
                "comment": schema.get("comment") or "",
            },
        )
        self.tables[database, table] = made
        return {}

    def _write_schema(self, held: Held, schema: Json) -> None:
        schema["timeMillis"] = int(time.time() * 1000)
        self.put(f"{held.path}/schema/schema-{schema['id']}", json.dumps(schema, indent=2))
        held.schemas.append(schema)

    def _rename(self, source: Json, target: Json) -> Json:
        former = (source["database"], source["object"])
        new = (target["database"], target["object"])
        if former not in self.tables:
            raise Refused(404, f"no table {former}", "TABLE", former[1])
        if new in self.tables:
            raise Refused(409, f"table {new} exists", "TABLE", new[1])
        held = self.tables.pop(former)
        if not held.is_external:
            place = self._place(*new)
            self.move(held.path, place)
            held.path = place
        self.tables[new] = held
        return {}

    def _drop(self, name: tuple[str, str]) -> None:
        held = self.tables.pop(name)
        if not held.is_external:
            self.remove(held.path)

    # What a store other than the local disk does otherwise.

    def uri(self, path: str) -> str:
        return f"file:{path}"

    def put(self, path: str, text: str) -> None:
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        whole = file.with_name(f".{file.name}.{uuid.uuid4()}")
        whole.write_text(text)
        whole.rename(file)

    def has(self, path: str) -> bool:
        return Path(path).exists()

    def move(self, path: str, to: str) -> None:
        Path(to).parent.mkdir(parents=True, exist_ok=True)
        Path(path).rename(to)

    def remove(self, path: str) -> None:
        shutil.rmtree(path, ignore_errors=True)

    def _place(self, database: str, table: str) -> str:
        return f"{self.folder}/{database}.db/{table}"

    def _type(self, name: tuple[str, str]) -> str:
        return str(self.tables[name].schemas[-1]["options"].get("type", "table"))

    def _told(self, name: tuple[str, str]) -> Json:
        held = self.tables[name]
        schema = held.schemas[-1]
        kept = ("fields", "partitionKeys", "primaryKeys", "options", "comment")
        return {
            "id": held.id,
            "database": name[0],
            "name": name[1],
            "path": self.uri(held.path),
            "isExternal": held.is_external,
            "schemaId": schema["id"],
            "schema": {each: schema[each] for each in kept},
            **_AUDIT,
        }

    def _paged(self, key: str, names: Any, query: dict[str, str]) -> Json:
        begin = "" if self.forgets_pages else query.get("pageToken", "")
        found = sorted(name for name in names if name > begin)
        size = int(query.get("maxResults") or self.page)
        page = found[:size]
        return {key: page, "nextPageToken": page[-1] if len(found) > size else None}


_AUDIT = {
    "owner": "them",
    "createdAt": 1,
    "createdBy": "them",
    "updatedAt": 1,
    "updatedBy": "them",
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of: RestCatalogServer

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def _serve(self, method: str) -> None:
        outer = self.server_of
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        path = [unquote(part) for part in parts.path.strip("/").split("/")]
        outer.requests.append(f"{method} {'/'.join(path)}")
        fault = outer_fault(outer, method, parts.path)
        try:
            if fault is not None and fault.meanwhile is not None:
                fault.meanwhile()
            if fault is not None and fault.code is not None and not fault.after:
                refused = Refused(fault.code, "out of order")
                refused.location = fault.location
                raise refused
            if fault is not None and not fault.after and fault.meanwhile is None:
                self._cut()
                return
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                raise Refused(401, f"the token {self.headers.get('Authorization')} is unknown")
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            answer = outer.answer(method, path, query, json.loads(data) if data else {})
            if fault is not None and fault.after:
                if fault.code is None:
                    self._cut()
                    return
                raise Refused(fault.code, "out of order")
            self._send(200, answer)
        except Refused as error:
            self._send(error.code, error.body, error.location)

    def _send(self, code: int, answer: Json, location: str | None = None) -> None:
        data = json.dumps(answer).encode()
        self.send_response(code)
        if location is not None:
            self.send_header("Location", location)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _cut(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


def outer_fault(server: RestCatalogServer, method: str, path: str) -> Fault | None:
    """The fault that a request meets, which is used up."""
    with server.lock:
        for fault in server.faults:
            if fault.method == method and re.search(fault.path, path):
                fault.times -= 1
                if not fault.times:
                    server.faults.remove(fault)
                return fault
    return None


def _required(kind: Any) -> Any:
    if isinstance(kind, dict):
        return {**kind, "type": _required(kind["type"])}
    return kind if kind.endswith("NOT NULL") else f"{kind} NOT NULL"


def _nullable(kind: Any) -> Any:
    if isinstance(kind, dict):
        return {**kind, "type": _nullable(kind["type"])}
    return kind.removesuffix(" NOT NULL")


def _ids(fields: list[Json]) -> Iterator[int]:
    for each in fields:
        yield each["id"]
        yield from _ids_of_type(each["type"])


def _ids_of_type(kind: Any) -> Iterator[int]:
    if isinstance(kind, dict):
        yield from _ids(kind.get("fields", []))
        for part in ("element", "key", "value"):
            yield from _ids_of_type(kind.get(part))


def _renumbered(kind: Any, schema: Json) -> Any:
    """A type of a new column, whose members get ids of this table."""
    if not isinstance(kind, dict):
        return kind
    made = dict(kind)
    if "fields" in kind:
        made["fields"] = [
            {**each, "id": _next_id(schema), "type": _renumbered(each["type"], schema)}
            for each in kind["fields"]
        ]
    for part in ("element", "key", "value"):
        if part in kind:
            made[part] = _renumbered(kind[part], schema)
    return made


def _next_id(schema: Json) -> int:
    schema["highestFieldId"] += 1
    return int(schema["highestFieldId"])


def _alter(schema: Json, change: Json) -> None:
    action = change["action"]
    if action == "setOption":
        schema["options"][change["key"]] = change["value"]
    elif action == "removeOption":
        schema["options"].pop(change["key"], None)
    elif action == "updateComment":
        schema["comment"] = change["comment"] or ""
    elif action == "updateColumnPosition":
        _move(schema["fields"], change["move"])
    else:
        *above, name = change["fieldNames"]
        fields, box = _members(schema["fields"], above)
        if action == "addColumn":
            if any(each["name"] == name for each in fields):
                raise Refused(409, f"column {name} exists", "COLUMN", name)
            made = {
                "id": _next_id(schema),
                "name": name,
                "type": _renumbered(change["dataType"], schema),
            }
            if change.get("comment"):
                made["description"] = change["comment"]
            fields.append(made)
            if change.get("move"):
                _move(fields, change["move"])
            return
        if box is not None and name in ("element", "value"):
            _alter_type(box, name, change)
            return
        column = next((each for each in fields if each["name"] == name), None)
        if column is None:
            raise Refused(404, f"no column {name}", "COLUMN", name)
        _alter_column(fields, column, change)


def _alter_column(fields: list[Json], column: Json, change: Json) -> None:
    match change["action"]:
        case "dropColumn":
            fields.remove(column)
        case "renameColumn":
            column["name"] = change["newName"]
        case "updateColumnComment":
            _set(column, "description", change["newComment"])
        case "updateColumnDefaultValue":
            _set(column, "defaultValue", change["newDefaultValue"])
        case _:
            _alter_type(column, "type", change)


def _alter_type(owner: Json, part: str, change: Json) -> None:
    if change["action"] == "updateColumnNullability":
        kind = owner[part]
        owner[part] = _nullable(kind) if change["newNullability"] else _required(kind)
    elif change["action"] == "updateColumnType":
        was = owner[part]
        text = was["type"] if isinstance(was, dict) else was
        new = change["newDataType"]
        if change.get("keepNullability"):
            new = _required(new) if text.endswith("NOT NULL") else _nullable(new)
        owner[part] = new
    else:
        raise Refused(501, f"{change['action']} is not implemented")


def _set(owner: Json, key: str, value: Any) -> None:
    owner.pop(key, None)
    if value is not None:
        owner[key] = value


def _members(fields: list[Json], above: list[str]) -> tuple[list[Json], Json | None]:
    """The members that a path leads to, and the type that holds a path's element or value."""
    kind: Any = None
    for name in above:
        if kind is not None and name in ("element", "value") and name in kind:
            kind = kind[name]
        else:
            kind = next(each for each in fields if each["name"] == name)["type"]
        fields = kind.get("fields", []) if isinstance(kind, dict) else []
    return fields, kind


def _move(fields: list[Json], move: Json) -> None:
    column = next(each for each in fields if each["name"] == move["fieldName"])
    if move["type"] == "FIRST" and column is fields[0]:
        raise Refused(501, f"column {column['name']} is the first already")
    fields.remove(column)
    names = [each["name"] for each in fields]
    match move["type"]:
        case "FIRST":
            fields.insert(0, column)
        case "LAST":
            fields.append(column)
        case "AFTER":
            fields.insert(names.index(move["referenceFieldName"]) + 1, column)
        case _:
            fields.insert(names.index(move["referenceFieldName"]), column)
