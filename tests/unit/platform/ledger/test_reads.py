"""Counted reads: any client may append them, and upkeep takes first what is read most."""

from __future__ import annotations

import datetime as dt

import pytest

from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.ledger.past import LedgerPast
from lakewright.platform.ledger.reads import READS, DailyReads, ReadCount, Reads
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRequestError
from tests.support.stores.watched_files import watched_catalog
from tests.support.tables.environment import FixedEnv

DAY_MS = 86_400_000


def day_of(env: FixedEnv, ago: int = 1) -> str:
    at = dt.datetime.fromtimestamp(env.clock.now_ms / 1000, dt.UTC).date()
    return (at - dt.timedelta(days=ago)).isoformat()


def count(day: str, partition: str | None, reads: int, table: str = "db.t") -> ReadCount:
    return ReadCount(day=day, table=table, partition=partition, reads=reads)


def test_reads_are_the_mean_of_the_seven_days_that_have_ended(
    catalog: Catalog, env: FixedEnv
) -> None:
    reads = Reads(catalog)
    assert reads.daily(now_ms=env.clock.now_ms) == {}
    reads.record([count(day_of(env, 1), "a", 70), count(day_of(env, 7), "a", 7)])
    # Today is not over, and what is older than a week is past.
    reads.record([count(day_of(env, 0), "a", 1000), count(day_of(env, 8), "a", 1000)])
    reads.record([count(day_of(env, 2), None, 14), count(day_of(env, 2), "b", 0, table="db.u")])
    assert reads.daily(now_ms=env.clock.now_ms) == {
        "db.t": DailyReads(whole=2.0, partitions={"a": 11.0})
    }
    found = reads.daily(now_ms=env.clock.now_ms)["db.t"]
    assert (found.of("a"), found.of("b")) == (13.0, 2.0)


def test_a_look_reads_them_again_only_after_a_commit_or_a_day(
    catalog: Catalog, env: FixedEnv
) -> None:
    Reads(catalog).record([count(day_of(env), "a", 7)])
    seen, fs = watched_catalog(catalog)
    past = LedgerPast(Ledger(seen))

    def opened() -> int:
        before = len(fs.calls)
        assert past.past(day_begins_ms=0).reads["db.t"].of("a") > 0
        return sum(".parquet" in call.path for call in fs.calls[before:])

    assert (opened(), opened()) == (1, 0)
    Reads(catalog).record([count(day_of(env), "a", 7)])
    assert (opened(), opened()) == (2, 0)
    env.clock.advance(DAY_MS)
    assert (opened(), opened()) == (2, 0)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (count("yesterday", "a", 1), "'yesterday' is no day of reads of db.t; write it as 2013"),
        (count("20131203", "a", 1), "is no day of reads"),
        (count("2013-12-03", "a", -1), "cannot have been read -1 times"),
    ],
)
def test_a_wrong_count_is_refused_and_none_is_written(
    catalog: Catalog, wrong: ReadCount, told: str
) -> None:
    with pytest.raises(InvalidRequestError, match=told):
        Reads(catalog).record([count("2013-12-03", "a", 1), wrong])
    assert not Reads(catalog).exists()


def test_a_table_of_the_name_with_other_columns_is_told(catalog: Catalog) -> None:
    catalog.create_table(READS, {"id": "INT"})
    with pytest.raises(InvalidRequestError, match="it has no column 'day'"):
        Reads(catalog).daily(now_ms=0)
