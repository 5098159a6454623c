"""What a YAML document holds, told by its keys: declarations of tables, or policies of upkeep."""

from __future__ import annotations

import difflib
from enum import Enum

_POLICY_KEYS = ("warehouse", "databases", "patterns")


class DocumentKind(Enum):
    """The kinds of documents."""

    DECLARATIONS = "declarations"
    POLICY = "policy"


def kind_of(value: object) -> DocumentKind | None:
    """The kind of a document; None if its keys belong to neither.

    Declarations begin with `table:` or have a list of `tables`. Policies have a mapping of `tables`
    or a key of their own, which may be misspelt.
    """
    if not isinstance(value, dict):
        return None
    if "table" in value or isinstance(value.get("tables"), list):
        return DocumentKind.DECLARATIONS
    if isinstance(value.get("tables"), dict):
        return DocumentKind.POLICY
    if any(difflib.get_close_matches(str(key), _POLICY_KEYS, n=1, cutoff=0.8) for key in value):
        return DocumentKind.POLICY
    return None
