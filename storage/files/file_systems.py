"""From a URI to the store that it names."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from urllib.parse import unquote, urlsplit

from lakewright.storage.env import Env, FileSystem, SystemEnv
from lakewright.storage.errors import InvalidRequestError, UnsupportedError
from lakewright.storage.files.azure_files import AzureFiles
from lakewright.storage.files.clients import knows_protocol
from lakewright.storage.files.durability import is_durable
from lakewright.storage.files.gcs_files import GcsFiles
from lakewright.storage.files.local_files import LocalFiles
from lakewright.storage.files.locks import LOCK_VARIABLE, Lock, open_lock
from lakewright.storage.files.memory_files import MemoryFiles
from lakewright.storage.files.remote_files import RemoteFiles
from lakewright.storage.files.renaming_files import RenamingFiles
from lakewright.storage.files.s3_files import S3Files
from lakewright.storage.spec.arguments import place_argument

_S3 = ("s3", "s3a", "s3n")
_GCS = ("gs", "gcs")
_AZURE = ("abfs", "abfss", "az")
# A host with an optional port, or an IPv6 address in brackets; a password with a `/` does not
# match.
_HOST = re.compile(r"([^:?#]*|\[[0-9a-fA-F:.]+\])(:\d*)?")


def open_file_system(
    uri: str,
    env: Env | None = None,
    *,
    lock: str | None = None,
    durable: bool | None = None,
) -> tuple[FileSystem, str]:
    """The store a URI names, and the path in it; a text without a scheme is a local path.

    This makes no request to the store. `lock`, or else the variable LAKEWRIGHT_LOCK, names the lock
    of writers on a store without a conditional create. `durable`, or else the
    variable LAKEWRIGHT_DURABLE, says whether writers to a local disk flush what they write.

    Raises:
        UnsupportedError: the scheme is not implemented; the message names those that are.
        InvalidRequestError: the URI names no bucket, or it or the lock holds a password.
    """
    env, uri = env or SystemEnv(), place_argument(uri, "the URI of a store")
    if "://" not in uri and not uri.startswith("file:"):
        return LocalFiles(env, is_durable(durable)), os.path.abspath(os.path.expanduser(uri))
    scheme, _, rest = uri.partition(":")
    if scheme == "file":
        parts = urlsplit(uri)
        if parts.netloc not in ("", "localhost"):
            raise UnsupportedError(f"a file:// URI names host {parts.hostname}; write file:///path")
        return LocalFiles(env, is_durable(durable)), os.path.abspath(
            place_argument(unquote(parts.path), "the path of a store")
        )
    # Object names are neither decoded nor cut at a `#`.
    authority, _, path = rest.removeprefix("//").partition("/")
    path = path.strip("/")
    if scheme == "memory":
        return MemoryFiles(), "/" + f"{authority}/{path}".strip("/")
    user, at, host = authority.rpartition("@")
    # The message repeats only the scheme, since the rest of the URI may hold a secret.
    if not _HOST.fullmatch(host) or ":" in user or (at and scheme in (*_S3, *_GCS)):
        raise InvalidRequestError(
            f"a {scheme}:// URI holds credentials, or a : ? or # in the name of its host; leave "
            "them out, and put credentials where the store's own client looks for them "
            "(docs/how-to/stores.md)"
        )
    if scheme in (*_S3, *_GCS, *_AZURE) and not authority:
        raise InvalidRequestError(
            f"a {scheme}:// URI names no bucket; write {scheme}://bucket/path"
        )
    if scheme in (*_GCS, *_AZURE) and {"#", "?"} & {*path}:
        raise InvalidRequestError(
            f"the path of a {scheme}:// URI has a # or a ?, which its client does not take for "
            "part of the path; choose another path"
        )
    locked = _lock(lock)
    root = f"{authority}/{path}".rstrip("/")
    if scheme in _S3:
        return S3Files(env, locked), root
    if scheme in _GCS:
        return GcsFiles(env, locked), root
    if scheme in _AZURE:
        container, named = (user, host) if at else (authority, "")
        return AzureFiles(env, locked, host=named), f"{container}/{path}".rstrip("/")
    if knows_protocol(scheme):
        return RenamingFiles(env, locked, protocol=scheme, address=authority), f"/{path}"
    raise UnsupportedError(
        f"store {scheme}:// is not implemented; use a local path, file://, memory://, s3://, "
        "gs://, abfs://, hdfs://, webhdfs://, or, with a lock, another store that fsspec knows"
    )


def local_path(uri: str) -> str:
    """A location that a catalog names; on the local disk a path, in which a % is no escape."""
    return "/" + uri.removeprefix("file:").lstrip("/") if uri.startswith("file:") else uri


def with_lock(fs: FileSystem, lock: Lock, *, always: bool | None) -> FileSystem:
    """The store with that lock around every create-if-absent, where clients need one.

    Paimon's clients need it on object stores, where they replace what is there, and on those
    without any conditional create. `always` is what the caller says instead, None if nothing.

    Raises:
        InvalidRequestError: the store has another lock already, and `always` asks for this one.
    """
    if isinstance(fs, LocalFiles):
        return replace(fs, lock=lock) if always else fs
    if not isinstance(fs, RemoteFiles):
        return fs
    if fs.lock is not None and always:
        raise InvalidRequestError(
            f"a lock is named for {fs.scheme}://, and lock.enabled asks for that of the catalog's "
            f"database; leave out one: lock and {LOCK_VARIABLE}, or lock.enabled"
        )
    needed = fs.others_replace or fs.needs_lock
    asked = fs.lock is None and (needed if always is None else always)
    return replace(fs, lock=lock) if asked else fs


def _lock(url: str | None) -> Lock | None:
    named = url or os.environ.get(LOCK_VARIABLE)
    return open_lock(named) if named else None
