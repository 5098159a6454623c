"""fsspec's clients of stores: one for each process and store, made at first use."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fsspec
import fsspec.core
from fsspec.utils import infer_storage_options

from lakewright.storage.errors import UnsupportedError
from lakewright.storage.files.client_logs import keep_secrets_out
from lakewright.storage.files.ftp_client import FtpClient

# The extra of this package that installs a store's client.
_EXTRAS = {
    "s3": "s3",
    "gs": "gcs",
    "abfs": "azure",
    "webhdfs": "webhdfs",
    "sftp": "sftp",
    "ssh": "sftp",
}
# The parts of an address that the FTP client takes.
_PLACE = ("host", "port", "username")
_OVER_SSH = ("sftp", "ssh")
# With the options of which they are made, some of which may be secrets that change.
_CLIENTS: dict[tuple[object, ...], tuple[dict[str, Any], fsspec.AbstractFileSystem]] = {}

# Results of probing stores, by URI; they are forgotten with the clients.
FOUND_OUT: dict[str, bool] = {}


class _OfThread(threading.local):
    """Clients of one thread; their connections end with the thread."""

    def __init__(self) -> None:
        self.clients: dict[tuple[object, ...], fsspec.AbstractFileSystem] = {}


_OF_THREAD = _OfThread()


def client(protocol: str, *, of: object = None, **options: Any) -> fsspec.AbstractFileSystem:
    """The client of a store that needs no address, shared by all threads of this process.

    Its connections and its event loop do not survive a fork, so each process has its own. `of` says
    whose client it is, where options differ by owner; other options of an owner replace it.

    Raises:
        UnsupportedError: a package is missing; the message says how to install it.
    """
    key = (os.getpid(), protocol, *(sorted(options.items()) if of is None else [of]))
    known = _CLIENTS.get(key)
    if known is None or known[0] != options:
        keep_secrets_out(protocol)
        with _package_of(protocol):
            made = fsspec.filesystem(protocol, skip_instance_cache=True, **options)
        # Two threads may both make a client, and either serves.
        known = _CLIENTS[key] = options, made
    return known[1]


def client_at(protocol: str, address: str) -> fsspec.AbstractFileSystem:
    """The client of a store at an address, such as `user@host:port`, one for each thread.

    Many of these clients use a single connection, which serves one request at a time.
    """
    key = (os.getpid(), protocol, address)
    known = _OF_THREAD.clients.get(key)
    if known is None:
        keep_secrets_out(protocol)
        with _package_of(protocol):
            known = _OF_THREAD.clients[key] = _made_at(protocol, address)
    return known


def drop_client_at(protocol: str, address: str) -> None:
    """Drop this thread's client of a store, whose connection may be dead."""
    _OF_THREAD.clients.pop((os.getpid(), protocol, address), None)


def forget_clients() -> None:
    """Drop all clients, so that the next use reads settings and credentials again."""
    _CLIENTS.clear()
    FOUND_OUT.clear()
    _OF_THREAD.clients.clear()


def knows_protocol(protocol: str) -> bool:
    """Whether fsspec knows a client for a store, installed or not."""
    return protocol in {*fsspec.available_protocols(), *fsspec.registry}


def _made_at(protocol: str, address: str) -> fsspec.AbstractFileSystem:
    url = f"{protocol}://{address}/"
    if protocol == "ftp":
        place = infer_storage_options(url)
        options = {each: place[each] for each in _PLACE if each in place}
        return FtpClient(skip_instance_cache=True, **options)
    made = fsspec.core.url_to_fs(url, skip_instance_cache=True)[0]
    if protocol in _OVER_SSH:
        connection = made.client.get_transport().sock
        if isinstance(connection, socket.socket):
            # Without pipelining, each 32 KiB written waits for the acknowledgement of the piece
            # before.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


@contextmanager
def _package_of(protocol: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        extra = _EXTRAS.get(protocol)
        how = f"pip install 'lakewright[{extra}]'" if extra else f"install it: {error}"
        raise UnsupportedError(
            f"store {protocol}:// needs a package that is not installed; {how}"
        ) from error
