"""A webhook and a mail server on loopback that keep what they are sent."""

from __future__ import annotations

import json
import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@contextmanager
def webhook(status: int = 200) -> Iterator[tuple[str, list[str]]]:
    """Its URL, and the texts that it got; it answers with a status."""
    texts: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            texts.append(json.loads(body)["text"])
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its own name
            pass

    with _serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as port:
        yield f"http://127.0.0.1:{port}/services/secret-of-the-hook", texts


@contextmanager
def mail_server() -> Iterator[tuple[str, list[str]]]:
    """Its address, and the messages that it got; it knows neither TLS nor passwords."""
    messages: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 here")
            while line := self.rfile.readline().decode().strip():
                if line.upper() == "DATA":
                    self._say("354 go on")
                    lines: list[str] = []
                    while (text := self.rfile.readline().decode().rstrip("\r\n")) != ".":
                        lines.append(text)
                    messages.append("\n".join(lines))
                self._say("221 bye" if line.upper() == "QUIT" else "250 ok")

        def _say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

    with _serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)) as port:
        yield f"127.0.0.1:{port}", messages


@contextmanager
def _serving(server: socketserver.TCPServer) -> Iterator[int]:
    with server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
