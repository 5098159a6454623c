"""What cannot be done to a table, and what can, in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# The uses of a table that a person asks about.
_DONE = {
    "read": "read",
    "compact": "compacted",
    "expire": "expired",
    "orphans": "cleared of orphans",
}


def refused_text(refused: Mapping[str, str]) -> str | None:
    """What cannot be done to a table, what can, and why; None if all can. One line.

    The reasons are by use, as in a survey.
    """
    barred = [use for use in _DONE if use in refused]
    if not barred:
        return None
    reasons = dict.fromkeys(refused[use].partition("; the table cannot be ")[0] for use in barred)
    done = [word for use, word in _DONE.items() if use not in refused]
    rest = f"; it can be {_listed(done, 'and')}" if done else ""
    return f"cannot be {_listed([_DONE[use] for use in barred], 'or')}: {'; '.join(reasons)}{rest}"


def _listed(words: Sequence[str], last: str) -> str:
    return f" {last} ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)
