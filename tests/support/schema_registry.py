"""A schema registry in this process, which answers as Confluent's protocol documents it."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

TYPE = "application/vnd.schemaregistry.v1+json"


class SchemaRegistry(ThreadingHTTPServer):
    """Its schemas by number, and the numbers of each subject.

    `credentials` are `user:password` that every request has to bring, if they are set. The next
    requests are answered by `failures`, while there are any.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Requests)
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.credentials: str | None = None
        self.failures: list[int] = []
        self.requests = 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def add(self, **schema: Any) -> int:
        """The number of a schema, which may be there."""
        with self.lock:
            if schema not in self.schemas:
                self.schemas.append(schema)
            return self.schemas.index(schema) + 1


class _Requests(BaseHTTPRequestHandler):
    server: SchemaRegistry

    def do_GET(self) -> None:
        match self._path():
            case ["schemas", "ids", number] if number.isdigit():
                at = int(number) - 1
                if at < len(self.server.schemas):
                    self._answer(200, self.server.schemas[at])
                else:
                    self._answer(404, {"error_code": 40403, "message": "Schema not found"})
            case ["subjects"]:
                self._answer(200, sorted(self.server.subjects))
            case ["subjects", subject, "versions", "latest"] if subject in self.server.subjects:
                numbers = self.server.subjects[subject]
                told = {"subject": subject, "version": len(numbers), "id": numbers[-1]}
                self._answer(200, {**told, **self.server.schemas[numbers[-1] - 1]})
            case _:
                self._answer(404, {"error_code": 40401, "message": "Subject not found."})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        match self._path():
            case ["subjects", subject, "versions"]:
                schema = json.loads(body["schema"])
                if isinstance(schema, dict) and schema.get("type") != "record":
                    self._answer(422, {"error_code": 42201, "message": "Invalid schema"})
                    return
                number = self.server.add(schema=body["schema"])
                numbers = self.server.subjects.setdefault(subject, [])
                numbers += [] if number in numbers else [number]
                self._answer(200, {"id": number})
            case _:
                self._answer(404, {"error_code": 404, "message": "HTTP 404 Not Found"})

    def _path(self) -> list[str]:
        self.server.requests += 1
        wanted = self.server.credentials
        if wanted is not None:
            held = f"Basic {base64.b64encode(wanted.encode()).decode()}"
            if self.headers.get("Authorization") != held:
                self.server.failures.insert(0, 401)
        path = self.path.partition("?")[0].strip("/")
        return [unquote(each) for each in path.split("/")]

    def _answer(self, status: int, body: object) -> None:
        if self.server.failures:
            status = self.server.failures.pop(0)
            body = {"error_code": status, "message": f"failed with {status}"}
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", TYPE)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def schema_registry() -> Iterator[SchemaRegistry]:
    server = SchemaRegistry()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
