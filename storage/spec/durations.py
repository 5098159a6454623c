"""Durations in declarations, run config and commands: always with a unit.

Table options are Paimon's, and a number without a unit means milliseconds there. A person who
writes `7` means days or hours; read as 7 milliseconds, it would expire every snapshot.
"""

from __future__ import annotations

from lakewright.storage.errors import InvalidOption, InvalidRequestError
from lakewright.storage.spec.option_values import MOST_DIGITS, MOST_SHOWN, parse_duration_ms


def duration_ms(given: object) -> int:
    """Milliseconds of a duration such as 30s, 1h or 7d.

    Raises:
        InvalidRequestError: it is not a duration, or a number without a unit.
    """
    is_number = isinstance(given, int) and not isinstance(given, bool)
    text = str(given).strip() if is_number else given
    if isinstance(text, str) and text.strip().isdecimal() and len(text) <= MOST_DIGITS:
        bare = text.strip()
        if not int(bare):
            return 0
        raise InvalidRequestError(
            f"{given!r} has no unit; write {bare}d, {bare}h or {bare}min (d, h, min, s or ms)"
        )
    try:
        return parse_duration_ms(text if isinstance(text, str) else "")
    except InvalidOption:
        raise InvalidRequestError(
            f"{given!r:.{MOST_SHOWN}} is not a duration; write it with its unit, such as 30s, 1h "
            "or 7d"
        ) from None
