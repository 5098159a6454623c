"""Proposals: valid by the models of policies, few lines, each with its reason and numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from lakewright.platform.decide.debt import debt_of, findings, total_debt, worst_first
from lakewright.platform.decide.proposal import propose
from lakewright.platform.decide.survey import (
    FileFigures,
    HistoryFigures,
    ManifestFigures,
    OrphanFigures,
    TableSurvey,
)
from lakewright.platform.decide.take_survey import survey_warehouse
from lakewright.platform.tables.upkeep_policies import UpkeepMode, UpkeepPolicy, WarehousePolicy
from lakewright.storage import Catalog
from tests.support.tables.builders import events, new_table, rows

GIB = 1 << 30
DAY_MS = 86_400_000


def survey(table: str, *, days: int = 3, **more: Any) -> TableSurvey:
    history = HistoryFigures(
        snapshots=more.pop("snapshots", 5),
        earliest_snapshot=1,
        latest_snapshot=5,
        earliest_ms=100 * DAY_MS - days * DAY_MS,
        latest_ms=100 * DAY_MS,
        oldest_consumer_snapshot=more.pop("consumer", None),
    )
    if history.oldest_consumer_snapshot is not None:
        history = replace(history, latest_snapshot=9000)
    files = FileFigures(
        files=more.pop("files", 10),
        mergeable_files=more.pop("small", 0),
        mergeable_bytes=more.pop("debt", 0),
        most_in_bucket=more.pop("most", 10),
        sorted_runs=more.pop("runs", 0),
        waiting_files=more.pop("waiting", 0),
        waiting_rows=more.pop("rows", 0),
    )
    known = TableSurvey(table=table, uuid="u", taken_ms=100 * DAY_MS, files=files, history=history)
    return replace(known, **more)


def proposed(*surveys: TableSurvey) -> dict[str, Any]:
    """The proposal as YAML; every section is valid by the models of policies."""
    found = yaml.safe_load(propose(surveys, warehouse="file:///w"))
    assert found.keys() <= {"warehouse", "databases", "patterns", "tables"}
    WarehousePolicy.model_validate(found["warehouse"])
    for part in ("databases", "tables"):
        for policy in found.get(part, {}).values():
            UpkeepPolicy.model_validate(policy)
    for each in found.get("patterns", ()):
        UpkeepPolicy.model_validate({key: each[key] for key in each.keys() - {"match"}})
    return found  # type: ignore[no-any-return]


def test_a_proposal_only_watches_at_first() -> None:
    found = proposed(survey("db.t"))
    policy = WarehousePolicy.model_validate(found["warehouse"])
    assert policy.mode is UpkeepMode.SHADOW


def test_an_empty_warehouse_has_a_valid_proposal() -> None:
    assert proposed().keys() == {"warehouse"}


def test_what_all_tables_share_is_written_once() -> None:
    surveys = [survey(f"db{number % 2}.t{number}", small=9, debt=GIB) for number in range(9)]
    found = proposed(*surveys)
    assert found.keys() == {"warehouse"}
    assert found["warehouse"]["compaction"] == {"small_files": 10}
    assert found["warehouse"]["snapshots"] == {"retain_min": 10, "time_retained": "7d"}


def test_a_database_that_agrees_otherwise_has_a_line_of_its_own() -> None:
    others = [survey(f"sales.t{number}") for number in range(7)]
    alone = [
        survey(f"raw.t{number}", options={"write-only": "true"}, small=9, debt=GIB)
        for number in range(4)
    ]
    found = proposed(*others, *alone)
    assert found["databases"] == {"raw": {"compaction": {"small_files": 5}}}
    assert "tables" not in found


def test_tables_of_one_stem_have_a_pattern_that_fits_no_other_table() -> None:
    bad = [survey(f"db.tmp_{number}", problem="is damaged") for number in range(3)]
    good = [survey(f"db.t{number}") for number in range(4)]
    found = proposed(*bad, *good)
    assert found["patterns"] == [{"match": "db.tmp_*", "freeze": True}]
    assert "tables" not in found
    among_them = proposed(*bad, *good, survey("db.tmp_good"))
    assert "patterns" not in among_them
    assert among_them["tables"] == {f"db.tmp_{number}": {"freeze": True} for number in range(3)}


def test_a_table_that_must_not_be_touched_is_frozen_and_the_comment_says_why() -> None:
    bad = survey("db.bad", problem="snapshot 4 is not JSON")
    foreign = survey("db.foreign", read_only="fields of a later version: x")
    found = proposed(bad, foreign, survey("db.good"))
    assert found["tables"]["db.bad"] == found["tables"]["db.foreign"] == {"freeze": True}
    text = propose([bad, foreign, survey("db.good")], warehouse="w")
    assert "# cannot be read: snapshot 4 is not JSON" in text
    assert "# can only be read: fields of a later version: x" in text


def test_a_refused_verb_is_switched_off_alone() -> None:
    odd = survey("db.odd", refused={"compact": "rows expire one by one"})
    found = proposed(odd, *(survey(f"db.t{number}") for number in range(4)))
    assert found["tables"] == {
        "db.odd": {"compaction": {"enabled": False}, "sort": {"enabled": False}}
    }


def test_what_the_options_of_a_table_say_of_retention_stays() -> None:
    own = survey("db.own", options={"snapshot.time-retained": "30 d"})
    others = [survey(f"db.t{number}") for number in range(4)]
    found = proposed(own, *others)
    assert found["tables"]["db.own"] == {"snapshots": {"retain_min": None, "time_retained": None}}
    policy = UpkeepPolicy.model_validate(found["tables"]["db.own"])
    assert policy.snapshots.time_retained is None
    assert "snapshot.time-retained=30 d" in propose([own, *others], warehouse="w")
    # Where nothing wider holds, nothing is taken back.
    assert "time_retained" not in propose([own], warehouse="w")


def test_many_snapshots_are_told_with_their_number_and_the_worst_table() -> None:
    surveys = [survey(f"db.t{number}") for number in range(4)]
    text = propose([*surveys, survey("db.long", snapshots=70_000, days=80)], warehouse="w")
    plain = " ".join(text.replace("#", " ").split())
    assert "5 tables without a rule of their own keep 70,020 snapshots" in plain
    assert "(db.long: 70,000 snapshots)" in plain
    assert "db.long: 70,000 snapshots, the first 80 days old" in plain


def test_the_budget_grows_with_the_debt() -> None:
    small = proposed(survey("db.t", small=2, debt=GIB))["warehouse"]["budget"]
    large = proposed(survey("db.t", small=90, debt=7000 * GIB))["warehouse"]["budget"]
    assert small == {"bytes": "10 GB", "time": "1h"}
    assert large == {"bytes": "1000 GB", "time": "9h"}


def test_where_no_bucket_has_enough_for_us_what_writers_use_is_enough() -> None:
    spread = survey("db.t", small=54, debt=GIB, most=6)
    keyed = survey("db.k", small=54, debt=GIB, most=40, runs=7, kind="deduplicate", keyed=True)
    assert proposed(spread)["warehouse"]["compaction"] == {"small_files": 5}
    assert proposed(keyed)["warehouse"]["compaction"] == {"small_files": 5}
    plain = " ".join(propose([spread], warehouse="w").replace("#", "").split())
    assert "No bucket has more than 6, so a compaction begins at what writers use" in plain


def test_the_budget_says_in_how_many_days_the_debt_is_gone() -> None:
    little = propose([survey("db.t", small=9, debt=7 << 20)], warehouse="w")
    assert "7.0 MiB wait to be joined: at most 1 day at this rate" in " ".join(
        little.replace("#", "").split()
    )


def test_own_triggers_of_writers_give_the_threshold() -> None:
    keyed = {"kind": "deduplicate", "keyed": True}
    trigger = {"num-sorted-run.compaction-trigger": "4"}
    found = proposed(
        survey("db.both", options=trigger, **keyed),
        survey("db.ours", options={**trigger, "write-only": "true"}, **keyed),
    )
    thresholds = {name: each["compaction"] for name, each in found["tables"].items()}
    assert thresholds == {"db.both": {"small_files": 8}, "db.ours": {"small_files": 4}}


def test_files_without_a_name_give_writers_more_time() -> None:
    lost = OrphanFigures(folders=8, of_folders=80, estimated_files=40, estimated_bytes=GIB)
    found = proposed(survey("db.t", orphans=lost))
    assert found["warehouse"]["orphans"] == {"older_than": "3d"}


def test_consumers_that_hold_history_are_named() -> None:
    text = propose([survey("db.t", consumer=4, snapshots=9000)], warehouse="w")
    assert "# db.t: 8,997 snapshots" in text


def test_debt_puts_the_worst_table_first() -> None:
    tables = [
        survey("db.a", small=3, debt=30),
        survey("db.b", snapshots=1100),
        survey("db.c", manifests=ManifestFigures(manifests=50, small=40)),
        survey("db.d", problem="is damaged"),
    ]
    assert [debt_of(each).files for each in tables] == [3, 1000, 10, 0]
    assert (total_debt(tables).files, total_debt(tables).bytes) == (1013, 30)
    assert [each.table for each in worst_first(tables)] == ["db.d", "db.b", "db.c", "db.a"]
    assert findings(tables[3]) == ("cannot be read: is damaged",)
    assert findings(survey("db.fine")) == ()
    assert "3 rows wait" in findings(survey("db.w", waiting=1, rows=3))[0]


NAMES = st.sampled_from(["t", "on", "tmp_1", "tmp_2", "tmp_3", "a b", "x:y", "1", "*", "é", "#"])


@given(
    st.lists(
        st.builds(
            lambda database, name, more: survey(f"{database}.{name}", **more),
            st.sampled_from(["db", "null", "on", "d'b"]),
            NAMES,
            st.sampled_from(
                [
                    {},
                    {"problem": "is\n: damaged\r # {x"},
                    {"read_only": "x"},
                    {"refused": {"expire": "a", "orphans": "b"}},
                    {"options": {"snapshot.num-retained.min": "4"}},
                    {"small": 5, "debt": 7, "options": {"write-only": "true"}},
                ]
            ),
        ),
        unique_by=lambda each: each.table,
    )
)
def test_any_surveys_give_a_valid_file_that_holds_for_each_table(
    surveys: list[TableSurvey],
) -> None:
    found = proposed(*surveys)
    for each in surveys:
        own = found.get("tables", {}).get(each.table, {})
        database = found.get("databases", {}).get(each.table.split(".")[0], {})
        frozen = own.get("freeze") or database.get("freeze") or any(
            each.table.startswith(pattern["match"].rstrip("*")) and pattern.get("freeze")
            for pattern in found.get("patterns", ())
        )  # fmt: skip
        assert bool(frozen) == (each.problem is not None or each.read_only is not None)
    assert propose(reversed(surveys), warehouse="w") == propose(surveys, warehouse="w")


def test_a_warehouse_of_real_tables_is_proposed_for(catalog: Catalog) -> None:
    for name in ("a.t", "a.u", "b.t"):
        table = new_table(catalog, name=name)
        for number in range(3):
            table.write(rows(table, events(number, number + 1)))
    found = proposed(*survey_warehouse(catalog))
    assert found["warehouse"]["compaction"] == {"small_files": 5, "min_bytes": "32 MB"}
