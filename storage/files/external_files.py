"""Data files outside of their table: where a manifest says that they lie, if options allow it.

A manifest names such a file by its URI. It is read below the places that the option
`data-file.external-paths` names and nowhere else, so that no manifest makes a reader open what
its table does not own.
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

    `root` is a path of the table's store, which tells how that store's URIs begin.

    Raises:
        UnsupportedError: it is below none of `roots`, or in another store.
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
            f"{table}: data file {uri} lies outside of the table and below none of its option "
            f"{_OPTION} ({', '.join(roots) or 'not set'}); name its place there if it may be read",
            table=table,
            option=_OPTION,
        )
    return path


def _path(uri: str, scheme: str) -> str | None:
    """The path of a URI in the store of a scheme; None for one of another store."""
    if scheme == "file":
        text = uri.removeprefix("file:")
        return "/" + text.lstrip("/") if text.startswith("/") else None
    given, colon, rest = uri.partition("://")
    # URIs of other stores name a host too, which their paths here do not begin with.
    if not colon or _store(given) != _store(scheme) or _store(scheme) not in _WITHOUT_HOST:
        return None
    return f"/{rest.lstrip('/')}" if scheme == "memory" else rest


def _store(scheme: str) -> str:
    """One name for the schemes that name the same store."""
    return "s3" if scheme in ("s3", "s3a", "s3n") else "gs" if scheme == "gcs" else scheme
