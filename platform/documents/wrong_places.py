"""What is wrong with a declaration, and where; and what checks of several purposes say."""

from __future__ import annotations

import difflib
import zoneinfo
from collections.abc import Iterable, Iterator

from lakewright.platform.documents.marked_yaml import Place

Finding = tuple[Place, str]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'columns'?`, or the known names if none is similar."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"there are {', '.join(names)}" if names else "there are none"


def check_timezone(name: str, place: Place) -> Iterator[Finding]:
    """The zone, if this machine knows none of that name."""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        yield place, f"{name!r} is not a time zone; write for example UTC or Europe/Berlin"
