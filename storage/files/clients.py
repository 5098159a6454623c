"""fsspec's clients of stores: one for each process and store, made when first asked for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import fsspec
import fsspec.core

from lakewright.storage.errors import UnsupportedError

# What the extra of this package is called that brings a store's client.
_EXTRAS = {
    "s3": "s3",
    "gs": "gcs",
    "abfs": "azure",
    "webhdfs": "webhdfs",
    "sftp": "sftp",
}
_CLIENTS: dict[tuple[object, ...], fsspec.AbstractFileSystem] = {}


def client(protocol: str, **options: Any) -> fsspec.AbstractFileSystem:
    """The client of a store that needs no address, shared by all threads of this process.

    Its connections and its event loop do not survive a fork, so each process has its own.

    Raises:
        UnsupportedError: a package is missing; the message says how to install it.
    """
    return _shared(
        (protocol, *sorted(options.items())),
        protocol,
        lambda: fsspec.filesystem(protocol, skip_instance_cache=True, **options),
    )


def client_at(protocol: str, address: str) -> fsspec.AbstractFileSystem:
    """The client of a store at an address, such as `user@host:port`, one for each thread.

    Many of them talk over a single connection, which must not be asked two things at once.
    """
    url = f"{protocol}://{address}/"
    return _shared(
        (url, threading.get_ident()),
        protocol,
        lambda: fsspec.core.url_to_fs(url, skip_instance_cache=True)[0],
    )


def forget_clients() -> None:
    """Let the next use of a store look for its address and its credentials again."""
    _CLIENTS.clear()


def knows_protocol(protocol: str) -> bool:
    """Whether there is a client for a store, be it installed or not."""
    return protocol in {*fsspec.available_protocols(), *fsspec.registry}


def _shared(
    name: tuple[object, ...], protocol: str, make: Callable[[], fsspec.AbstractFileSystem]
) -> fsspec.AbstractFileSystem:
    key = (os.getpid(), *name)
    known = _CLIENTS.get(key)
    if known is None:
        try:
            # Two threads may both make one; the first that is put down serves both.
            known = _CLIENTS.setdefault(key, make())
        except ImportError as error:
            extra = _EXTRAS.get(protocol)
            how = f"pip install 'lakewright[{extra}]'" if extra else f"install it: {error}"
            raise UnsupportedError(
                f"store {protocol}:// needs a package that is not installed; {how}"
            ) from error
    return known
