"""Data files outside of their table: read where a manifest places them, if options allow it.

A manifest names such a file by its URI. Readers open it only below the paths in the option
`data-file.external-paths`, so that a manifest cannot make a reader open other files.
"""

from __future__ import annotations

from lakewright.storage.env import FileSystem
from lakewright.storage.errors import UnsupportedError

_WITHOUT_HOST = ("s3", "gs", "memory")
_OPTION = "data-file.external-paths"


def external_file_path(
    fs: FileSystem, uri: str, roots: tuple[str, ...], *, root: str, table: str
) -> str:
    """The path, in the table's own store, of a file outside of the table.

    `root` is the table's path, which gives the prefix of its store's URIs.

    Raises:
        UnsupportedError: the file is below none of `roots`, or in another store.
    """
    prefix = fs.uri(root).partition("://")[0]
    path = _path(uri, prefix)
    if path is None:
        raise UnsupportedError(
            f"{table}: data file {uri} lies in another store than the table, {fs.uri(root)}, "
            "which is not implemented",
            table=table,
        )
    allowed = [_path(each, prefix) for each in roots]
    parts = path.split("/")
    if ".." in parts or not any(
        each is not None and path.startswith(each.rstrip("/") + "/") for each in allowed
    ):
        raise UnsupportedError(
            f"{table}: data file {uri} lies outside of the table and below no path of its option "
            f"{_OPTION} ({', '.join(roots) or 'not set'}); add its path there if it may be read",
            table=table,
            option=_OPTION,
        )
    return path


def _path(uri: str, scheme: str) -> str | None:
    """The path of a URI in the store of a scheme; None for a URI of another store."""
    if scheme == "file":
        text = uri.removeprefix("file:")
        return "/" + text.lstrip("/") if text.startswith("/") else None
    given, colon, rest = uri.partition("://")
    # URIs of other stores begin with a host, which is not part of the path here.
    if not colon or _store(given) != _store(scheme) or _store(scheme) not in _WITHOUT_HOST:
        return None
    return f"/{rest.lstrip('/')}" if scheme == "memory" else rest


def _store(scheme: str) -> str:
    """The common name of schemes that mean the same store."""
    return "s3" if scheme in ("s3", "s3a", "s3n") else "gs" if scheme == "gcs" else scheme
