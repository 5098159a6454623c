"""The kinds of tables in the neglected warehouse: their writers, keys, options, and neglect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

JAVA, PYPAIMON = "java", "pypaimon"
WRITE_ONLY = {"write-only": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Tables that are made alike.

    `share` is how many of a hundred usual commits a table gets, and `is_long` tables get those of
    a long one. Every so many commits (`compacts_every`) Java compacts the table, as a writer that
    once did so; later commits pile up. Rows of tables that `lag` are seen after a compaction.
    """

    name: str
    writer: str
    keyed: bool = False
    by_day: bool = True
    options: Mapping[str, str] = field(default_factory=dict)
    share: int = 100
    is_long: bool = False
    compacts_every: int = 0
    lags: bool = False
    deletes: bool = False
    tags: int = 0
    has_consumer: bool = False
    has_branch: bool = False
    adds_column: bool = False

    @property
    def database(self) -> str:
        """Where its tables are: old days of `logs` may go."""
        if self.keyed:
            return "shop"
        return "logs" if self.by_day else "raw"


def _keyed(name: str, writer: str, options: Mapping[str, str], **more: object) -> Kind:
    given = {"bucket": "1", **WRITE_ONLY, **options}
    return Kind(name=name, writer=writer, keyed=True, options=given, **more)  # type: ignore[arg-type]


KINDS = (
    Kind(name="events", writer=JAVA, tags=2),
    Kind(name="events_orc", writer=JAVA, options={"file.format": "orc"}, has_branch=True),
    Kind(name="events_avro", writer=PYPAIMON, options={"file.format": "avro"}),
    Kind(name="clicks", writer=PYPAIMON, tags=1),
    Kind(name="visits", writer=PYPAIMON, adds_column=True),
    Kind(name="sensors", writer=JAVA, by_day=False, options={"bucket": "4", "bucket-key": "id"}),
    Kind(name="dump", writer=PYPAIMON, by_day=False, is_long=True),
    Kind(name="audit", writer=JAVA, by_day=False, has_consumer=True),
    Kind(
        name="metrics",
        writer=PYPAIMON,
        by_day=False,
        options={"bucket": "2", "bucket-key": "id", "file.format": "orc"},
    ),
    _keyed("orders", JAVA, {}, deletes=True, tags=2),
    _keyed("orders_orc", PYPAIMON, {"bucket": "2", "file.format": "orc"}),
    _keyed("orders_dynamic", JAVA, {"bucket": "-1"}, deletes=True),
    _keyed("stock", JAVA, {"bucket": "2"}, by_day=False, is_long=True, compacts_every=150),
    _keyed("carts", PYPAIMON, {"merge-engine": "partial-update"}, by_day=False),
    _keyed("profiles", JAVA, {"merge-engine": "partial-update"}, adds_column=True),
    _keyed(
        "totals",
        JAVA,
        {"merge-engine": "aggregation", "fields.amount.aggregate-function": "sum"},
        compacts_every=17,
    ),
    _keyed("firsts", JAVA, {"merge-engine": "first-row"}, compacts_every=9, lags=True),
    _keyed(
        "accounts",
        JAVA,
        {"deletion-vectors.enabled": "true"},
        compacts_every=11,
        lags=True,
        deletes=True,
    ),
    _keyed("feed", JAVA, {"changelog-producer": "input"}, deletes=True, has_consumer=True),
    _keyed("ledgers", JAVA, {"changelog-producer": "full-compaction"}, compacts_every=13),
)
