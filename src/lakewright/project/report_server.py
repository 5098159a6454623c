"""Serves the reports of a Dagster home over HTTP on loopback, as browsers follow no `file:` link.

`lakewright up` starts this module as a process of its own, which ends with the process that
started it. It serves the pages of one folder, reads nothing else and changes nothing.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from functools import partial
from html import escape
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lakewright.platform.documents.variables import REPORTS_FOLDER

HOST = "127.0.0.1"
_LOOKS_EVERY_SECONDS = 1.0
_NONE_YET = (
    "<!doctype html><title>Lakewright</title><p>No report is written yet. In Dagster, materialize "
    'the asset <code>warehouse_report</code>: <a href="{0}">{0}</a>'
)


def listen(port: int) -> socket.socket:
    """A socket on this port of loopback, or on a free one where the port is taken."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port))
    except (OSError, OverflowError):
        found.bind((HOST, 0))
    found.listen()
    return found


def start_server(home: Path, port: int, asset_url: str) -> str:
    """Serve the reports of a Dagster home until this process ends; the URL of the newest."""
    with listen(port) as found:
        url = f"http://{HOST}:{found.getsockname()[1]}"
        arguments = [str(os.getpid()), str(found.fileno()), str(home / REPORTS_FOLDER), asset_url]
        # Ctrl-C in a terminal reaches it too; else it looks whether this process has ended.
        subprocess.Popen(
            [sys.executable, "-m", "lakewright.project.report_server", *arguments],
            pass_fds=[found.fileno()],
            stdin=subprocess.DEVNULL,
        )
    return url


class _Pages(BaseHTTPRequestHandler):
    """Answers with a page of the folder, or with the newest one."""

    def __init__(self, *connection: object, folder: Path, asset_url: str) -> None:
        self._folder, self._asset_url = folder, asset_url
        super().__init__(*connection)  # type: ignore[arg-type]  # as the server hands them over

    def do_GET(self) -> None:
        """The page that a path names; of `/`, the newest."""
        name = unquote(urlsplit(self.path).path).removeprefix("/")
        pages = {each.name: each for each in self._folder.glob("*.html")}
        # A page of another site must not read these by a name that it lets lead here.
        if (self.headers.get("Host") or "").rpartition(":")[0] not in (HOST, "localhost"):
            self.send_error(403)
        elif name in pages:
            self._send(pages[name].read_bytes())
        elif name:
            self.send_error(404)
        elif pages:
            self._send(max(pages.values(), key=lambda each: each.stat().st_mtime_ns).read_bytes())
        else:
            self._send(_NONE_YET.format(escape(self._asset_url)).encode())

    def _send(self, page: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.send_header("Cache-Control", "no-cache")
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002  # its name there
        """Requests are no news."""


def _serve(parent: int, listener: int, folder: Path, asset_url: str) -> None:
    handler = partial(_Pages, folder=folder, asset_url=asset_url)
    server = HTTPServer((HOST, 0), handler, bind_and_activate=False)
    server.socket.close()
    server.socket = socket.socket(fileno=listener)
    server.server_address = server.socket.getsockname()
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        while os.getppid() == parent:
            serving.join(_LOOKS_EVERY_SECONDS)
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
