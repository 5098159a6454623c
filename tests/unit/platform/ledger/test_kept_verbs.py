"""What of upkeep waits for what."""

from __future__ import annotations

import pytest

from lakewright.platform.decide.keepers import KEPT_VERBS
from lakewright.platform.ledger.kept_verbs import waits_for

EXPIRIES = ["expire_snapshots", "expire_tags", "expire_changelogs"]
REWRITES = ["compact", "sort_compact", "expire_partitions", "rewrite_manifests"]


@pytest.mark.parametrize("verb", list(KEPT_VERBS))
def test_each_verb_waits_for_its_like_and_for_work_that_is_not_known(verb: str) -> None:
    assert waits_for(verb, verb)
    assert all(waits_for(verb, other) for other in ("respec", "rollback", "undo", "my_job"))


@pytest.mark.parametrize("other", ["ingest", "backfill", *REWRITES])
def test_orphans_are_looked_for_when_nothing_writes_files(other: str) -> None:
    assert waits_for("remove_orphans", other)
    for verb in EXPIRIES:
        assert not waits_for(verb, other)


@pytest.mark.parametrize("verb", ["expire_snapshots", "expire_tags", "expire_changelogs"])
def test_expiries_wait_for_each_other_since_each_leases_the_table(verb: str) -> None:
    assert all(waits_for(verb, other) for other in EXPIRIES)
    assert not any(waits_for(other, verb) for other in (*REWRITES, "remove_orphans", "collect"))


@pytest.mark.parametrize("other", [each for each in KEPT_VERBS if each != "analyze"])
def test_an_analysis_is_alone(other: str) -> None:
    assert waits_for("analyze", other)
    assert waits_for(other, "analyze")


@pytest.mark.parametrize("verb", ["respec", "analyze", *REWRITES])
def test_a_validation_of_many_tables_holds_up_only_what_deletes_the_files_that_it_reads(
    verb: str,
) -> None:
    assert not waits_for(verb, "validate_schema")
    assert all(waits_for(each, "validate_schema") for each in (*EXPIRIES, "remove_orphans"))
