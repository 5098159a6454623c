"""Checks of file names from metadata and callers, before a path is built from them.

Metadata may come from any client, or from an attacker. A name that leads out of its folder would
let an expiry delete, and a write create, files that are not the table's.
"""

from __future__ import annotations

import re

# What follows the prefix of a table in the name of each file that a writer of the format makes.
FILE_ID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# What begins the name of a copy that an exchange makes; the name of the first file follows.
COPIED = "copy-[0-9a-f-]+-of-"
_COPY = re.compile(f"{COPIED}(.+)")
# What marks the name of a copy within its table: of a file that comes back, or comes home.
BACK = "-back-"
# The whole id, since options of users begin the names of files.
_COPIED_WITHIN = re.compile(rf"(?P<stem>[^.]+){BACK}{FILE_ID}(?P<ending>\..*)?")
_NO_NAMES = ("", ".", "..")


class UnsafeName(ValueError):
    """A name that could lead to another folder, or to none."""


def plain_name(name: object) -> str:
    """Return a name, if it can only name an entry directly inside its folder.

    Windows and some stores take a backslash for a separator too.

    Raises:
        UnsafeName: the name is not text, is empty, `.` or `..`, or holds a separator, a NUL or half
        of a surrogate pair.
    """
    if not isinstance(name, str):
        raise UnsafeName(f"{name!r} is not a file name, but a {type(name).__name__}")
    # Spelled out, since a plan checks some hundred thousand names.
    if name in _NO_NAMES or "/" in name or "\\" in name or "\0" in name:
        raise UnsafeName(f"{name!r} is not a plain file name: it must not lead to another folder")
    if not name.isascii():
        _check_encodable(name)
    return name


def place_below(path: object) -> str:
    """Return a path of plain names, if it can only name a file below its root.

    Raises:
        UnsafeName: the path is not text, is absolute or empty, or has a part that is not a plain
            name.
    """
    if not isinstance(path, str):
        raise UnsafeName(f"{path!r} is not a path, but a {type(path).__name__}")
    try:
        for part in path.split("/"):
            plain_name(part)
    except UnsafeName:
        raise UnsafeName(f"{path!r} is not a place below the table") from None
    return path


def is_place_below(path: str) -> bool:
    """Whether `place_below` accepts a path."""
    try:
        place_below(path)
    except UnsafeName:
        return False
    return True


def _check_encodable(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise UnsafeName(f"{name!r} holds half of a surrogate pair, which no file name has") from (
            None
        )


def origin_of(name: str) -> str:
    """The name of the first file that a file is a copy of by exchanges; its own if it is none."""
    found = _COPY.fullmatch(name)
    return name if found is None else found[1]


def is_copy(name: str) -> bool:
    """Whether a file is a copy that an exchange made."""
    return _COPY.fullmatch(name) is not None


def exchanged_name(run_id: str, name: str) -> str:
    """The name of a copy in another table, which tells its origin."""
    return f"copy-{run_id}-of-{origin_of(name)}"


def copy_name(run_id: str, name: str) -> str:
    """The name of a copy within a table: the run's id before the ending, in place of another's."""
    stem, dot, ending = first_name(name).partition(".")
    return f"{stem}{BACK}{run_id}{dot}{ending}"


def first_name(name: str) -> str:
    """The name of the file of the table that a file is a copy of; its own if it is none."""
    if BACK not in name:
        return name
    found = _COPIED_WITHIN.fullmatch(name)
    return name if found is None else found["stem"] + (found["ending"] or "")


def written_pattern(prefix: str) -> str:
    """A pattern of beginnings of names: of data files that writers of the format made, and copies.

    Files that were taken over have other names, also their copies. An exchange copies no file that
    lies outside of its table. The pattern is one of Python and of Arrow.
    """
    return f"^({COPIED})?{re.escape(prefix)}{FILE_ID}"
