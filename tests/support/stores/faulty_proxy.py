"""An HTTP proxy in front of a store's server that loses answers, refuses, cuts, waits and strips.

It forwards to one server, and serialises creates, as S3 guarantees.
"""

from __future__ import annotations

import http.client
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

_HOPS = {"connection", "transfer-encoding", "content-length", "expect", "keep-alive"}
_CHANGES = {"PUT", "POST", "DELETE"}
_SLOW_SECONDS = 1.0


class Trouble(Enum):
    """The fault of a request."""

    # It takes effect, and its answer is lost.
    ANSWER_LOST = "answer lost"
    # It is refused temporarily, without effect.
    BUSY = "503 before"
    # The connection breaks during the body of the request, or of the answer.
    CUT_UPLOAD = "cut in the body sent"
    CUT_DOWNLOAD = "cut in the body received"
    SLOW = "slow"
    # The store does not know conditional requests.
    STRIPPED = "If-None-Match stripped"
    UNKNOWN_KEY = "403 InvalidAccessKeyId"
    CLOCK = "403 RequestTimeTooSkewed"
    UPLOAD_GONE = "404 NoSuchUpload"


_REFUSALS = {
    Trouble.BUSY: (503, "SlowDown", "Please reduce your request rate."),
    Trouble.UNKNOWN_KEY: (403, "InvalidAccessKeyId", "The key is not in our records."),
    Trouble.CLOCK: (403, "RequestTimeTooSkewed", "The difference is too large."),
    Trouble.UPLOAD_GONE: (404, "NoSuchUpload", "The upload was finished or aborted."),
}


@dataclass
class Plan:
    """A fault for the next `times` matching requests."""

    trouble: Trouble
    is_for: Callable[[str, str], bool] = lambda method, path: True
    times: int = 1


@dataclass
class FaultyProxy:
    """The proxy's address, its planned faults, and the requests it forwarded."""

    server: str
    address: str = ""
    plans: list[Plan] = field(default_factory=list)
    # Changing requests whose first answer was lost, if each loses its first answer.
    losing: set[tuple[str, str]] | None = None
    # Whether a request with such a header is let through; a token may have expired.
    admits: Callable[[str], bool] = lambda authorization: True
    seen: list[tuple[str, str]] = field(default_factory=list)
    made: list[tuple[Trouble, str, str]] = field(default_factory=list)
    creating: threading.Lock = field(default_factory=threading.Lock)
    _choosing: threading.Lock = field(default_factory=threading.Lock)

    def make(
        self, trouble: Trouble, *, method: str | None = None, within: str = "", times: int = 1
    ) -> None:
        """Plan a fault for the next requests of a method whose path holds a text."""
        self.plans.append(
            Plan(trouble, lambda verb, path: method in (None, verb) and within in path, times)
        )

    @contextmanager
    def losing_every_answer_once(self) -> Iterator[None]:
        """Lose the first answer to every changing request; its repetition is answered."""
        self.losing = set()
        try:
            yield
        finally:
            self.losing = None

    def trouble_for(self, method: str, path: str) -> Trouble | None:
        with self._choosing:
            self.seen.append((method, path))
            for plan in self.plans:
                if plan.times and plan.is_for(method, path):
                    plan.times -= 1
                    self.made.append((plan.trouble, method, path))
                    return plan.trouble
            if self.losing is not None and method in _CHANGES and (method, path) not in self.losing:
                self.losing.add((method, path))
                self.made.append((Trouble.ANSWER_LOST, method, path))
                return Trouble.ANSWER_LOST
        return None


@contextmanager
def faulty_proxy(server: str) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(server)

    class Handler(_Handler):
        owner = proxy

    listener = _Listener(("127.0.0.1", 0), Handler)
    proxy.address = f"http://127.0.0.1:{listener.server_address[1]}"
    thread = threading.Thread(target=listener.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    # As many connections as all processes of a race may open at once.
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Log an error, unless the client disconnected: tests kill some clients."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    owner: FaultyProxy
    protocol_version = "HTTP/1.1"
    # Otherwise a body would wait for the acknowledgement of the headers.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._forward()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - its class names them

    def log_message(self, *_: object) -> None:
        """Do nothing: the tests record the requests."""

    def _forward(self) -> None:
        trouble = self.owner.trouble_for(self.command, unquote(self.path))
        if trouble is Trouble.CUT_UPLOAD:
            self.rfile.read(1)
            self._hang_up()
            return
        body = self._body()
        if body is None:
            self.close_connection = True
            return
        if trouble in _REFUSALS:
            self._refuse(*_REFUSALS[trouble])
            return
        if not self.owner.admits(self.headers.get("Authorization", "")):
            self._refuse(400, "ExpiredToken", "The provided token has expired.")
            return
        if trouble is Trouble.SLOW:
            time.sleep(_SLOW_SECONDS)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOPS}
        if trouble is Trouble.STRIPPED:
            headers = {
                name: value for name, value in headers.items() if name.lower() != "if-none-match"
            }
        answer, data = self._ask(headers, body)
        if trouble is Trouble.ANSWER_LOST:
            self._hang_up()
            return
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _HOPS:
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        if trouble is Trouble.CUT_DOWNLOAD:
            self.wfile.write(data[: len(data) // 2])
            self._hang_up()
            return
        self.wfile.write(data)

    def _ask(self, headers: dict[str, str], body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        there = urlsplit(self.owner.server)
        connection = http.client.HTTPConnection(there.hostname or "", there.port, timeout=60)
        try:
            with self.owner.creating if "If-None-Match" in headers else threading.Lock():
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                return answer, answer.read()
        finally:
            connection.close()

    def _body(self) -> bytes | None:
        """The body of a request, None if its sender died meanwhile."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
            return body if len(body) == length else None
        pieces = []
        while (line := self.rfile.readline()) and (size := int(line.split(b";")[0], 16)):
            pieces.append(self.rfile.read(size))
            if self.rfile.readline() != b"\r\n":
                return None
        if not line:
            return None
        self.rfile.readline()
        return b"".join(pieces)

    def _refuse(self, status: int, code: str, message: str) -> None:
        data = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(0 if self.command == "HEAD" else len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _hang_up(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        # Closing alone would leave the connection open for as long as its streams are.
        self.connection.shutdown(socket.SHUT_RDWR)
