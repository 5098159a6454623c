"""Looking once more at what others changed meanwhile, and not for ever.

Each such loop ends because others are done at some time. Metadata that contradicts itself would
keep one going, as would a store that lists what it does not have.
"""

from __future__ import annotations

from lakewright.storage.errors import UnavailableError

# A round reads metadata, and a change by others makes the next: no table changes so often in a row.
MOST_ROUNDS = 1_000


class Rounds:
    """Counts the rounds of one loop; `what` is done in each of them."""

    def __init__(self, table: str, what: str) -> None:
        self._table = table
        self._what = what
        self._count = 0

    def begin(self) -> None:
        """Begin the next round.

        Raises:
            UnavailableError: there were more than others can have caused.
        """
        self._count += 1
        if self._count > MOST_ROUNDS:
            raise UnavailableError(
                f"{self._table} was another each of the {MOST_ROUNDS:,} times that {self._what}; "
                "try again when less is written to it, and if nothing is, look for files of its "
                "metadata that are listed and cannot be read",
                table=self._table,
            )
