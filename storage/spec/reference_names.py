"""Names of tags, branches and consumers, which become names of files."""

from __future__ import annotations

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.arguments import text_argument
from lakewright.storage.spec.file_names import is_place_below

MAIN_BRANCH = "main"


def check_reference_name(name: str, kind: str) -> None:
    """Check that a name can be part of a file name.

    Raises:
        InvalidRequestError: the name is no text, is blank, starts with a dot, or holds a slash, a
        backslash or a control character.
    """
    text_argument(name, f"{kind} name")
    if not name.strip():
        raise InvalidRequestError(f"{kind} name {name!r} is blank")
    has_control = any(ord(char) < 32 for char in name)
    if name.startswith(".") or has_control or "/" in name or not is_place_below(name):
        raise InvalidRequestError(
            f"{kind} name {name!r} cannot be a file's; leave out slashes, control characters and "
            "leading dots"
        )


def check_branch_name(name: str) -> None:
    """Check the name of a new branch.

    Raises:
        InvalidRequestError: the name cannot be part of a file name, is `main`, or is all digits.
    """
    check_reference_name(name, "branch")
    if name == MAIN_BRANCH:
        raise InvalidRequestError("branch main is the table itself; choose another name")
    if name.isdigit():
        raise InvalidRequestError(
            f"branch name {name!r} is a number, which readers take for a snapshot; choose another"
        )
    if "$" in name:
        raise InvalidRequestError(
            f"branch name {name!r} holds a $, which separates names of branches from system tables"
        )
