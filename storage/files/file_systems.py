"""From a URI to the store that it names."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from lakewright.storage.env import Env, FileSystem, SystemEnv
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.files.local_files import LocalFiles
from lakewright.storage.files.memory_files import MemoryFiles


def open_file_system(uri: str, env: Env | None = None) -> tuple[FileSystem, str]:
    """The store a URI names, and the path in it; a text without a scheme is a local path.

    Raises:
        UnsupportedError: the scheme is not implemented; the message names those that are.
    """
    env = env or SystemEnv()
    if "://" not in uri and not uri.startswith("file:"):
        return LocalFiles(env), os.path.abspath(os.path.expanduser(uri))
    parts = urlsplit(uri)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise UnsupportedError(f"{uri} names host {parts.netloc}; write file:///path")
        return LocalFiles(env), os.path.abspath(unquote(parts.path))
    if parts.scheme == "memory":
        return MemoryFiles(), "/" + (parts.netloc + parts.path).strip("/")
    raise UnsupportedError(
        f"{uri}: store {parts.scheme}:// is not implemented; use a local path, file:// or memory://"
    )
