"""The names of the options of a table's log, as users write them and as the table keeps them.

Users write `log.*`. Writers of some Paimon releases take these names for a log that they write
themselves, so a table keeps them behind `lakewright.`, which other clients pass over
(docs/decisions/0032-change-capture-and-logs.md).
"""

from __future__ import annotations

from collections.abc import Mapping

LOG = "log."
KEPT_LOG = "lakewright.log."
LOG_SYSTEM = "log.system"
_KEPT_SYSTEM = "lakewright.log.system"


def has_log(options: Mapping[str, str]) -> bool:
    """Whether the options that a table keeps say that it has a log."""
    return _KEPT_SYSTEM in options


def as_kept(options: Mapping[str, str]) -> dict[str, str]:
    """Options as a table keeps them."""
    return {
        KEPT_LOG + name.removeprefix(LOG) if name.startswith(LOG) else name: text
        for name, text in options.items()
    }


def as_written(options: Mapping[str, str]) -> dict[str, str]:
    """Options as a user writes them."""
    return {
        LOG + name.removeprefix(KEPT_LOG) if name.startswith(KEPT_LOG) else name: text
        for name, text in options.items()
    }
