"""Retention outlooks: they foresee what expiries of other ages delete, and what keeps the rest."""

from __future__ import annotations

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.operations.retention import retention_outlook as outlook
from lakewright.storage.operations.retention.retention_outlook import retention_outlook
from tests.support.tables.builders import compact, events, new_table, rows
from tests.support.tables.environment import FixedEnv

HOUR_MS = 3_600_000
AGES_MS = (2 * HOUR_MS, 5 * HOUR_MS, 9 * HOUR_MS)


@pytest.fixture
def table(catalog: Catalog, env: FixedEnv) -> Table:
    """Ten hours of commits; every third is a compaction, which replaces the files of before."""
    made = new_table(catalog, partitions=["day"], options={"snapshot.num-retained.min": "1"})
    for hour in range(10):
        made.write(rows(made, events(hour, hour + 1, day="a")))
        if hour % 3 == 2:
            compact(made, full=True)
        env.clock.advance(HOUR_MS)
    return made


def freed_by_expiry(table: Table, age_ms: int) -> tuple[int, int, int]:
    """Snapshots, files and bytes that the expiry itself plans."""
    plan = table.upkeep.plan_expire_snapshots(time_retained_ms=age_ms, max_deletes=1000, grace_ms=0)
    return len(plan.snapshot_ids), len(plan.files), plan.bytes


@pytest.mark.parametrize("most", [1000, 2])
def test_each_age_frees_what_its_expiry_would(
    table: Table, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlook, "_MOST_SNAPSHOTS", most)
    table.history.create_tag("q3", snapshot=3)
    found = retention_outlook(table.table_files, AGES_MS)
    told = [(each.gone, each.files, each.bytes) for each in found]
    assert told == [freed_by_expiry(table, age_ms) for age_ms in AGES_MS]
    assert told[0] > told[1] > told[2] > (0, 0, 0)
    assert [each.gone + each.left for each in found] == [13, 13, 13]
    assert (found[0].first_gone, found[0].last_gone) == (1, found[0].gone)


def test_what_tags_and_consumers_keep_is_named_with_its_size(table: Table) -> None:
    before = retention_outlook(table.table_files, AGES_MS)[0]
    table.history.create_tag("q3", snapshot=3)
    table.history.set_consumer("reader", 8)
    (found,) = retention_outlook(table.table_files, AGES_MS[:1])
    consumer, tag = found.held_by
    assert (consumer.kind, consumer.name, found.last_gone) == ("consumer", "reader", 7)
    assert consumer.snapshots == before.gone - found.gone
    assert (tag.kind, tag.name, tag.files) == ("tag", "q3", 3)
    # What the tag keeps is what its deletion would free beside the metadata of its snapshot.
    table.history.delete_consumer("reader")
    (with_tag,) = retention_outlook(table.table_files, AGES_MS[:1])
    assert before.bytes - with_tag.bytes >= (tag.bytes or 0) > 0


def test_a_table_without_snapshots_has_nothing_to_free(catalog: Catalog) -> None:
    (found,) = retention_outlook(new_table(catalog).table_files, [HOUR_MS])
    assert (found.gone, found.left, found.bytes, found.held_by) == (0, 0, 0, ())
