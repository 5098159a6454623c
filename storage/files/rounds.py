"""A bound on loops that read again after another process changed the table.

Such a loop ends when the other processes stop. Contradicting metadata, or a store that lists
missing files, would keep it running for ever.
"""

from __future__ import annotations

from lakewright.storage.errors import UnavailableError

# Each further round needs a change by another process; no table changes so often in a row.
MOST_ROUNDS = 1_000


class Rounds:
    """Counts the rounds of one loop; `what` names the work of a round."""

    def __init__(self, table: str, what: str) -> None:
        self._table = table
        self._what = what
        self._count = 0

    def begin(self) -> None:
        """Begin the next round.

        Raises:
            UnavailableError: there were more rounds than other processes can have caused.
        """
        self._count += 1
        if self._count > MOST_ROUNDS:
            raise UnavailableError(
                f"{self._table} changed during each of the {MOST_ROUNDS:,} times that "
                f"{self._what}; try again when fewer processes write to it; if none does, look for"
                " metadata files that are listed and cannot be read"
            )
