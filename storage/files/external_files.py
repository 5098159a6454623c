"""Data files that a manifest places by their URI, in the field `_EXTERNAL_PATH`.

A file below the table's root is the table's own: a change of the partition keys leaves it where it
lies. Readers open a file outside of the table only below the paths in the option
`data-file.external-paths`, so that a manifest cannot make a reader open other files. No process of
this table deletes such a file.
"""

from __future__ import annotations

import os

from lakewright.storage.env import FileSystem
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.spec.arguments import place_argument

_WITHOUT_HOST = ("s3", "gs", "memory")
_OPTION = "data-file.external-paths"


def own_file_path(fs: FileSystem, uri: str, *, root: str) -> str | None:
    """The path of a file that a URI places below the table's root; None if it lies elsewhere."""
    root_uri = external_uri(fs, root)
    if root_uri.startswith("file:"):
        path = _path(uri, "file")
        inside = path is not None and path.startswith(f"{root}/")
        return path if inside and ".." not in uri.split("/") else None
    scheme, _, place = root_uri.partition("://")
    given, _, rest = uri.partition("://")
    inside = _store(given) == _store(scheme) and rest.startswith(f"{place}/")
    return root + rest.removeprefix(place) if inside and ".." not in rest.split("/") else None


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
            f"which is not implemented; {_if_moved(table)}"
        )
    allowed = [_path(each, prefix) for each in roots]
    parts = path.split("/")
    if ".." in parts or not any(
        each is not None and path.startswith(each.rstrip("/") + "/") for each in allowed
    ):
        raise UnsupportedError(
            f"{table}: data file {uri} lies outside of the table and below no path of its option "
            f"{_OPTION} ({', '.join(roots) or 'not set'}); add its path there if it may be "
            f"read, or open the table again if add-partitions has just added it; "
            f"{_if_moved(table)}",
            option=_OPTION,
        )
    return path


def _if_moved(table: str) -> str:
    return (
        "if the table was moved or copied from there, name its files where they lie now "
        f"(lakewright respec {table} --moved-from PLACE, or for all tables of a warehouse "
        "lakewright adopt WAREHOUSE --moved-from PLACE)"
    )


def external_uri(fs: FileSystem, path: str) -> str:
    """The URI by which a manifest names a file of the table's store, as Java writes it.

    Unlike other URIs it has no encoded characters: `%2F` in it is part of a folder's name.
    """
    return f"file:{path}" if fs.uri("/").startswith("file:") else fs.uri(path)


class RealPlaces:
    """Where files lie, by their URIs: one place for all paths that lead there by symbolic links.

    Only a local disk tells its links. The last name of a URI is taken for a file's own.
    """

    def __init__(self) -> None:
        # Files lie in few folders, and each folder of a path is asked for.
        self._folders: dict[str, str] = {}

    def of(self, uri: str) -> str:
        """A URI that is equal for two of the same file."""
        folder, _, name = uri.rpartition("/")
        if folder not in self._folders:
            path = _path(f"{folder}/", "file") if folder.startswith("file:") else None
            self._folders[folder] = folder if path is None else f"file:{os.path.realpath(path)}"
        return f"{self._folders[folder]}/{name}"


def real_folder(fs: FileSystem, path: str) -> str:
    """The path of a folder without symbolic links, as far as its store tells them."""
    return os.path.realpath(path) if fs.uri("/").startswith("file:") else path


def path_in_store(fs: FileSystem, place: str, *, root: str, table: str) -> str:
    """The path of a folder that a caller names by a URI or, on a local disk, by a path.

    Raises:
        UnsupportedError: the folder lies in another store than the table.
    """
    place = place_argument(place, "folder")
    scheme = fs.uri(root).partition("://")[0]
    is_local = scheme == "file" and "://" not in place and not place.startswith("file:")
    path = os.path.abspath(place) if is_local else _path(place, scheme)
    if path is None:
        raise UnsupportedError(
            f"{place} lies in another store than table {table}, {fs.uri(root)}, and a table reads "
            "files of its own store alone; copy them there first"
        )
    return path.rstrip("/")


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
