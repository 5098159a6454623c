"""How the rows of a table are distributed over buckets, and what a store says of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

from lakewright.storage.errors import InvalidRequestError, UnsupportedError
from lakewright.storage.spec.data_types import quote_name


class Kind(Enum):
    """How a row finds its bucket.

    UNKNOWN: by a rule that the store chooses. HASH: by a hash of the bucket keys. RANGE: by the
    range of values in which the bucket keys lie.
    """

    UNKNOWN = "unknown"
    HASH = "hash"
    RANGE = "range"


@dataclass(frozen=True, slots=True)
class TableDistribution:
    """What the clause `DISTRIBUTED` of a statement says: a rule, columns, and a number of buckets.

    Without `bucket_count`, the store chooses the number.

    Raises:
        InvalidRequestError: the parts do not go together.
    """

    kind: Kind
    bucket_count: int | None
    bucket_keys: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "bucket_keys", tuple(self.bucket_keys))
        count, keys = self.bucket_count, self.bucket_keys
        if count is not None and (isinstance(count, bool) or not isinstance(count, int)):
            raise InvalidRequestError(f"the number of buckets is {count!r}; give a whole number")
        if count is not None and count < 1:
            raise InvalidRequestError(f"{count} buckets hold no rows; write 1 or more")
        if self.kind is Kind.UNKNOWN:
            if keys:
                raise InvalidRequestError(
                    f"bucket keys ({', '.join(keys)}) need a rule: HASH or RANGE"
                )
            if count is None:
                raise InvalidRequestError(
                    "a distribution without bucket keys says how many buckets there are; without "
                    "either, leave it out"
                )
        elif not keys:
            raise InvalidRequestError(
                f"{self.kind.name} needs bucket keys; name one or more columns"
            )
        if repeated := [key for key in keys if keys.count(key) > 1]:
            raise InvalidRequestError(f"{repeated[0]} is a bucket key twice; name it once")

    @classmethod
    def of_unknown(cls, bucket_count: int) -> TableDistribution:
        """So many buckets; the store chooses the rule."""
        return cls(Kind.UNKNOWN, bucket_count, ())

    @classmethod
    def of_hash(
        cls, bucket_keys: Iterable[str], bucket_count: int | None = None
    ) -> TableDistribution:
        """Buckets by a hash of columns; rows with the same values are in one bucket."""
        return cls(Kind.HASH, bucket_count, _names(bucket_keys))

    @classmethod
    def of_range(
        cls, bucket_keys: Iterable[str], bucket_count: int | None = None
    ) -> TableDistribution:
        """Buckets by ranges of columns; rows with neighbouring values are in one bucket."""
        return cls(Kind.RANGE, bucket_count, _names(bucket_keys))

    def __str__(self) -> str:
        """What follows `DISTRIBUTED` or `DISTRIBUTION` in a statement."""
        keys = ", ".join(map(quote_name, self.bucket_keys))
        by = f"BY {self.kind.name} ({keys})" if keys else ""
        into = "" if self.bucket_count is None else f"INTO {self.bucket_count} BUCKETS"
        return " ".join(filter(None, (by, into)))


@runtime_checkable
class SupportsBucketing(Protocol):
    """The ability of a store to distribute rows; `check_distribution` asks it before a write."""

    def list_algorithms(self) -> frozenset[Kind]:
        """The rules by which the store can assign rows to buckets."""

    def requires_bucket_count(self) -> bool:
        """Whether a distribution must say the number of buckets."""


def check_distribution(distribution: TableDistribution, store: object, table: str) -> None:
    """Check that a store can distribute rows as a table asks.

    Raises:
        UnsupportedError: it has no buckets, or not by this rule, or needs their number.
    """
    if not isinstance(store, SupportsBucketing):
        raise UnsupportedError(
            f"{table} is distributed {distribution}, and its store has no buckets; leave the "
            "clause out"
        )
    known = store.list_algorithms()
    if distribution.kind not in known:
        names = ", ".join(sorted(each.name for each in known))
        raise UnsupportedError(
            f"{table} is distributed {distribution}, and its store distributes rows by {names}, "
            f"not by {distribution.kind.name}"
        )
    if distribution.bucket_count is None and store.requires_bucket_count():
        raise UnsupportedError(
            f"{table} is distributed {distribution}, and its store needs the number of buckets; "
            f"write {distribution} INTO n BUCKETS"
        )


def _names(keys: Iterable[str]) -> tuple[str, ...]:
    if isinstance(keys, str):
        raise InvalidRequestError(f"bucket keys are {keys!r}; give a list of columns")
    return tuple(keys)
