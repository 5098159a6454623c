"""Cast modes of a table: values that do not fit fail the read, or are null and counted."""

from __future__ import annotations

import datetime as dt
import logging
from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage import (
    Catalog,
    ChangeNullability,
    ChangeType,
    GateVerdict,
    ResetOption,
    Rule,
    SetOption,
    Table,
)
from lakewright.storage.errors import InvalidOption, UnfitValues, UnsupportedError
from lakewright.storage.operations.inspection.analyze import (
    AnalyzeOptions,
    plan_analyze,
    run_analyze,
)
from lakewright.storage.operations.read import file_rows
from lakewright.storage.operations.running.engine import LocalEngine
from lakewright.storage.operations.state.live_files import index_entries
from lakewright.storage.spec.cast_mode import CAST_MODE
from lakewright.storage.spec.rows import ROW_KIND_COLUMN
from tests.support.tables.builders import ANY_LOSS, compact, new_table, rows, with_options
from tests.support.tables.invariants import assert_only_reachable_files

COLUMNS = {"k": "INT NOT NULL", "n": "BIGINT", "s": "STRING", "r": "ROW<x BIGINT>"}
GOOD = [{"k": 1, "n": 1, "s": "10", "r": {"x": 1}}, {"k": 2, "n": None, "s": None, "r": None}]
BAD = [{"k": 3, "n": 300, "s": "ten", "r": {"x": 300}}, {"k": 4, "n": -300, "s": "", "r": None}]
ALTERED = (ChangeType("n", "TINYINT"), ChangeType("s", "INT"), ChangeType("r.x", "TINYINT"))
READ = [
    {"k": 1, "n": 1, "s": 10, "r": {"x": 1}},
    {"k": 2, "n": None, "s": None, "r": None},
    {"k": 3, "n": None, "s": None, "r": {"x": None}},
    {"k": 4, "n": None, "s": None, "r": None},
]
NULLED = {"n": 2, "r.x": 1, "s": 2}
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "append": ([], {"bucket": "-1"}),
    "keyed": (["k"], {"bucket": "1"}),
    "vectors": (["k"], {"bucket": "1", "deletion-vectors.enabled": "true"}),
}
kinds = pytest.mark.parametrize("kind", list(KINDS))


def table_of(
    catalog: Catalog, mode: str, kind: str = "append", name: str = "db.t", **options: str
) -> Table:
    """A table with a file of values that fit their later types, and one of values that do not."""
    keys, own = KINDS[kind]
    given = {
        **own,
        "compaction.force-rewrite-all-files": "true",
        CAST_MODE: mode,
        **{key.replace("__", ".").replace("_", "-"): each for key, each in options.items()},
    }
    table = new_table(catalog, COLUMNS, name=name, keys=keys, options=given)
    table.write(rows(table, GOOD))
    table.write(rows(table, BAD))
    if kind == "vectors":
        # Readers see rows of level 0 after a compaction.
        compact(table, full=True)
    return table.alter(*ALTERED, rules=ANY_LOSS)


def by_key(found: pa.Table) -> list[dict[str, Any]]:
    return sorted(found.to_pylist(), key=lambda row: row["k"])


# --- fail ---------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.mission("SE40")
def test_a_value_that_does_not_fit_fails_the_read_by_name(
    catalog: Catalog, kind: str, file_format: str
) -> None:
    table = table_of(catalog, "explicit-fail", kind, file__format=file_format)
    with pytest.raises(UnfitValues) as caught:
        table.read(columns=["k", "n"])
    told = str(caught.value)
    count = 4 if kind == "vectors" else 2
    assert f"column n of db.t is TINYINT, and 2 of the {count} rows of data file" in told
    # Names grow with the ids that the environment gives.
    bad = max(entry.file.file_name for entry in table.at().files())
    assert f"/{bad} hold values there" in told
    assert "such as 300" in told
    assert "cast-mode=explicit-null" in told
    assert caught.value.details["rows"] == 2
    assert table.read(columns=["k"]).num_rows == 4


@pytest.mark.mission("SE40")
def test_the_rows_are_counted_over_the_whole_file(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(catalog, {"n": "BIGINT"}, options={CAST_MODE: "explicit-fail"})
    table.write(rows(table, [{"n": each} for each in range(300)]))
    monkeypatch.setattr(file_rows, "_MOST_BATCH_ROWS", 50)
    with pytest.raises(UnfitValues, match=r"172 of the 300 rows of data file .* such as 128;"):
        table.alter(ChangeType("n", "TINYINT"), rules=ANY_LOSS).read()


@pytest.mark.mission("SE40")
def test_values_that_fit_are_read_in_every_mode(catalog: Catalog) -> None:
    for mode in ("explicit", "explicit-fail", "explicit-null"):
        table = new_table(
            catalog, COLUMNS, name=f"db.{mode[9:] or 'java'}", options={CAST_MODE: mode}
        )
        table.write(rows(table, GOOD))
        scan = table.alter(*ALTERED, rules=ANY_LOSS).scan()
        assert by_key(scan.read()) == READ[:2]
        assert scan.nulled_values == {}


@pytest.mark.parametrize("kind", ["keyed", "vectors"])
@pytest.mark.mission("SE40")
def test_rows_that_are_written_again_or_deleted_fail_no_more(
    unchecked_catalog: Catalog, kind: str
) -> None:
    # The snapshot between the alter and the new rows cannot be read, so the end checks no history.
    table = table_of(unchecked_catalog, "explicit-fail", kind)
    again = {"k": 3, "n": 3, "s": 3, "r": None}
    table.write(rows(table, [again, {"k": 4}], kinds=["+I", "-D"]))
    if kind == "vectors":
        compact(table, full=False)
        entries = index_entries(table.table_files, table.history.latest_snapshot())
        assert any(entry.file.deletion_vectors for entry in entries)
    assert by_key(table.read()) == [*READ[:2], again]
    assert table.lookup(pa.table({"k": [3]})).to_pylist() == [again]
    compact(table, full=True)
    assert by_key(table.read()) == [*READ[:2], again]


@pytest.mark.mission("SE40")
def test_a_lookup_fails_on_values_of_its_own_keys_only(catalog: Catalog) -> None:
    for name, options in {"db.a": {}, "db.b": {"merge_engine": "partial-update"}}.items():
        table = table_of(catalog, "explicit-fail", "keyed", name, **options)
        assert table.lookup(pa.table({"k": [1, 2]})).num_rows == 2
        with pytest.raises(UnfitValues, match="300"):
            table.lookup(pa.table({"k": [3]}))


@kinds
@pytest.mark.mission("SE40")
def test_a_compaction_fails_before_it_publishes_anything(catalog: Catalog, kind: str) -> None:
    table = table_of(catalog, "explicit-fail", kind)
    before = table.history.latest_snapshot(), {entry.file.file_name for entry in table.at().files()}
    with pytest.raises(UnfitValues, match=r"2 of the [24] rows of data file .* such as 300"):
        compact(table, full=True, min_files=2)
    assert (
        table.history.latest_snapshot(),
        {entry.file.file_name for entry in table.at().files()},
    ) == before
    assert_only_reachable_files(table)


@pytest.mark.mission("SE40")
def test_changes_fail_on_values_that_do_not_fit(catalog: Catalog) -> None:
    table = table_of(catalog, "explicit-fail", "keyed")
    with pytest.raises(UnfitValues, match="column n"):
        table.read_changes(1, 2, mode="delta")
    with pytest.raises(UnfitValues, match="column n"):
        table.read_changes(1, 2, mode="diff")


# --- null ---------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.mission("SE41")
def test_values_that_do_not_fit_are_null_and_counted(
    catalog: Catalog, kind: str, file_format: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = table_of(catalog, "explicit-null", kind, file__format=file_format)
    scan = table.scan()
    with caplog.at_level(logging.WARNING):
        assert by_key(scan.read()) == READ
    assert scan.nulled_values == NULLED
    (line,) = [
        each.getMessage() for each in caplog.records if "were read as null" in each.getMessage()
    ]
    assert "db.t: " in line
    assert "2 of column n, 1 of column r.x, 2 of column s" in line
    again = table.scan()
    assert sum(part.num_rows for part in again.batches()) == 4
    assert again.nulled_values == NULLED
    assert table.scan(columns=["k"]).read().num_rows == 4


@kinds
@pytest.mark.mission("SE41")
def test_a_compaction_tells_how_many_values_it_made_null_for_good(
    catalog: Catalog, kind: str
) -> None:
    table = table_of(catalog, "explicit-null", kind)
    result = compact(table, full=True, min_files=2)
    assert result.nulled_values == 5
    scan = table.scan()
    assert by_key(scan.read()) == READ
    assert scan.nulled_values == {}
    # What is null for good stays null in every mode.
    assert by_key(table.alter(SetOption(CAST_MODE, "explicit-fail")).read()) == READ


@pytest.mark.parametrize("kind", ["keyed", "vectors"])
@pytest.mark.mission("SE41")
def test_values_of_rows_that_are_gone_are_not_counted(catalog: Catalog, kind: str) -> None:
    table = table_of(catalog, "explicit-null", kind)
    table.write(rows(table, [{"k": 3, "n": 3}, {"k": 4}], kinds=["+I", "-D"]))
    compact(table, full=False)
    scan = table.scan()
    assert [row["k"] for row in by_key(scan.read())] == [1, 2, 3]
    assert scan.nulled_values == {}
    assert compact(table, full=True).nulled_values == 0


@pytest.mark.parametrize("compacted", [False, True], ids=["level 0", "top level"])
@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
@pytest.mark.mission("SE41")
def test_compactions_that_write_changelogs_do_not_judge_replaced_rows(
    unchecked_catalog: Catalog, producer: str, *, compacted: bool
) -> None:
    # Snapshots of before the new rows cannot be read in mode explicit-fail.
    for mode in ("explicit-fail", "explicit-null"):
        options = {"changelog-producer": producer, "bucket": "1", CAST_MODE: mode}
        name = f"db.{mode.replace('-', '_')}"
        table = new_table(unchecked_catalog, COLUMNS, name=name, keys=["k"], options=options)
        table.write(rows(table, [*GOOD, *BAD]))
        if compacted:
            compact(table, full=True)
        table = table.alter(*ALTERED, rules=ANY_LOSS)
        again = {"k": 3, "n": 3, "s": 3, "r": None}
        table.write(rows(table, [again, {"k": 4}], kinds=["+I", "-D"]))
        assert compact(table, full=True).nulled_values == 0
        scan = table.scan()
        assert by_key(scan.read()) == [*READ[:2], again]
        assert scan.nulled_values == {}
        latest = table.history.latest_snapshot()
        assert latest is not None
        told = table.read_changes(latest.id - 1, latest.id, mode="changelog").to_pylist()
        kinds = [(row[ROW_KIND_COLUMN], row["k"], row["n"]) for row in told if row["k"] > 2]
        # The changelog cannot hold the replaced value, and readers of the new schema saw none.
        replaced = [("-U", 3, None), ("+U", 3, 3), ("-D", 4, None)]
        assert kinds == (replaced if compacted else [("+I", 3, 3)])


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
@pytest.mark.mission("SE41")
def test_compactions_that_write_changelogs_judge_the_rows_that_stay(
    catalog: Catalog, producer: str
) -> None:
    for mode in ("explicit-fail", "explicit-null"):
        name = f"db.{mode.replace('-', '_')}"
        table = table_of(catalog, mode, "keyed", name, changelog_producer=producer)
        if mode == "explicit-null":
            assert compact(table, full=True).nulled_values == 5
            assert by_key(table.read()) == READ
            continue
        with pytest.raises(UnfitValues, match=r"2 of the 2 rows of data file .* such as 300"):
            compact(table, full=True)
        assert_only_reachable_files(table)


@pytest.mark.mission("SE41")
def test_other_rewrites_tell_what_they_made_null(catalog: Catalog) -> None:
    sorting = table_of(catalog, "explicit-null", "append", "db.sorted")
    assert sorting.upkeep.sort_compact(by=["n"]).nulled_values == 5
    for kind in ("keyed", "append"):
        options = {"bucket": "1", "bucket_key": "k"} if kind == "append" else {}
        scaling = table_of(catalog, "explicit-null", kind, f"db.scaled_{kind}", **options)
        result = scaling.upkeep.rescale(buckets=3)
        assert result.nulled_values == 5
        assert by_key(catalog.table(scaling.name).read()) == READ
    postponed = table_of(catalog, "explicit-null", "keyed", "db.postponed", bucket="-2")
    assert postponed.scan().read().num_rows == 0
    assert postponed.upkeep.postpone_compact().nulled_values == 5
    assert by_key(postponed.read()) == READ


@pytest.mark.sampled(12)
@kinds
@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("n IS NULL", [2, 3, 4]),
        ("n IS NOT NULL", [1]),
        ("n > 100 OR s = 10", [1]),
        ("NOT (n = 1)", []),
        ("s IS NULL AND k > 2", [3, 4]),
        ("n = 44", []),
    ],
)
@pytest.mark.mission("SE41")
def test_filters_see_the_nulls(catalog: Catalog, kind: str, where: str, keys: list[int]) -> None:
    table = table_of(catalog, "explicit-null", kind)
    found = table.read(where=where, columns=["k"])
    assert sorted(found.column("k").to_pylist()) == keys


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
@pytest.mark.mission("SE41")
def test_engines_that_combine_rows_never_combine_such_nulls(catalog: Catalog, engine: str) -> None:
    options = {"bucket": "1", "merge-engine": engine}
    refused = f"explicit-null does not go with merge-engine={engine}"
    with pytest.raises(InvalidOption, match=refused):
        new_table(
            catalog,
            COLUMNS,
            name="db.n",
            keys=["k"],
            options={**options, CAST_MODE: "explicit-null"},
        )
    table = new_table(catalog, COLUMNS, keys=["k"], options={**options, CAST_MODE: "explicit-fail"})
    table.write(rows(table, [{"k": 1, "n": 5}]))
    table.write(rows(table, [{"k": 1, "n": 3000}]))
    with pytest.raises(InvalidOption, match=refused):
        table.alter(SetOption(CAST_MODE, "explicit-null"), rules=ANY_LOSS)
    narrow = table.alter(ChangeType("n", "TINYINT"), rules=ANY_LOSS)
    way_out = "to a type that holds the values, or set lakewright.cast-mode=explicit to read"
    with pytest.raises(UnfitValues, match=way_out):
        narrow.read()
    # As null, 3000 would show as 5.
    with pytest.raises(InvalidOption, match=refused):
        with_options(narrow, lakewright__cast_mode="explicit-null").read()
    assert narrow.alter(ChangeType("n", "INT")).read(columns=["n"]).to_pylist() == [{"n": 3000}]


@pytest.mark.mission("SE41")
def test_changes_lookups_and_statistics_have_the_nulls(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    table = table_of(catalog, "explicit-null", "keyed")
    with caplog.at_level(logging.WARNING):
        changes = table.read_changes(1, 2, mode="delta")
        assert "2 of column n" in caplog.text
        caplog.clear()
        assert table.lookup(pa.table({"k": [3]})).to_pylist() == [READ[2]]
        assert "1 of column n" in caplog.text
    assert [row["n"] for row in changes.to_pylist()] == [None, None]
    files = table.table_files
    analysis = run_analyze(files, plan_analyze(files, AnalyzeOptions()), LocalEngine(files.env))
    assert analysis.statistics is not None
    counts = {each.name: each.null_count for each in analysis.statistics.columns}
    assert counts == {"k": 0, "n": 3, "s": 3, "r": 2}
    # Bounds of files cannot tell how many values do not fit.
    nulls = table.inspect.files().column("null_value_counts").to_pylist()
    assert all("n=null" in text and "s=null" in text for text in nulls)


# --- both ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["explicit-fail", "explicit-null"])
@pytest.mark.parametrize("kind", ["append", "keyed"])
@pytest.mark.mission("SE41")
def test_a_column_that_is_not_null_refuses_such_values_in_both_modes(
    catalog: Catalog, kind: str, mode: str
) -> None:
    keys, options = KINDS[kind]
    columns = {"k": "INT NOT NULL", "n": "BIGINT NOT NULL", "a": "ARRAY<BIGINT NOT NULL>"}
    table = new_table(catalog, columns, keys=keys, options={**options, CAST_MODE: mode})
    table.write(rows(table, [{"k": 1, "n": 300, "a": [1]}, {"k": 2, "n": 2, "a": [300]}]))
    table.write(rows(table, [{"k": 3, "n": 3, "a": []}]))
    narrow = table.alter(
        ChangeType("n", "TINYINT"), ChangeType("a.element", "TINYINT"), rules=ANY_LOSS
    )
    told = "allow null there" if mode == "explicit-null" else "write these rows again"
    with pytest.raises(UnfitValues, match=rf"1 of the 2 rows .* such as 300; {told}"):
        narrow.read(columns=["n"])
    with pytest.raises(UnfitValues, match=r"a part of column a .* holds 300, which does not fit"):
        narrow.read(columns=["a"])
    with pytest.raises(UnfitValues):
        compact(narrow, full=True, min_files=2)
    assert_only_reachable_files(narrow)
    if mode == "explicit-null":
        loose = narrow.alter(
            ChangeNullability("n", nullable=True), ChangeNullability("a.element", nullable=True)
        )
        assert by_key(loose.read()) == [
            {"k": 1, "n": None, "a": [1]},
            {"k": 2, "n": 2, "a": [None]},
            {"k": 3, "n": 3, "a": []},
        ]


@pytest.mark.mission("SE39")
def test_the_mode_is_an_option_that_may_change_at_any_time(catalog: Catalog) -> None:
    table = table_of(catalog, "explicit-fail")
    with pytest.raises(UnfitValues):
        table.read()
    table = table.alter(SetOption(CAST_MODE, "explicit-null"), rules=ANY_LOSS)
    assert by_key(table.read()) == READ
    table = table.alter(SetOption(CAST_MODE, "explicit"), rules=ANY_LOSS)
    assert by_key(table.read(columns=["k", "n"]))[2] == {"k": 3, "n": 44}
    with pytest.raises(UnsupportedError, match="'ten' cannot be read as INT"):
        table.read()
    # Without the option no further explicit cast is allowed, and those made are read as by Java.
    table = table.alter(ResetOption(CAST_MODE), rules=ANY_LOSS)
    assert by_key(table.read(columns=["k", "n"]))[2] == {"k": 3, "n": 44}
    with pytest.raises(InvalidOption, match="explicit-nul is not one of implicit, explicit, expl"):
        table.alter(SetOption(CAST_MODE, "explicit-nul"))


@pytest.mark.mission("SE39")
def test_implicit_casts_of_values_that_do_not_fit_follow_the_mode(catalog: Catalog) -> None:
    found: dict[str, Any] = {}
    for mode in ("implicit", "explicit", "explicit-fail", "explicit-null"):
        options = {CAST_MODE: mode}
        table = new_table(
            catalog, {"s": "STRING"}, name=f"db.{mode.replace('-', '_')}", options=options
        )
        table.write(rows(table, [{"s": "ab "}, {"s": "abc"}]))
        cut = table.alter(ChangeType("s", "VARCHAR(2)"), rules=ANY_LOSS)
        try:
            found[mode] = cut.read().column("s").to_pylist()
        except UnfitValues as error:
            found[mode] = error.details["value"]
    assert found == {
        "implicit": ["ab", "ab"],
        "explicit": ["ab", "ab"],
        "explicit-fail": "'abc'",
        "explicit-null": ["ab", None],
    }


@pytest.mark.mission("SE8")
def test_the_gate_knows_that_nanoseconds_hold_fewer_years(catalog: Catalog) -> None:
    finer = ChangeType("t", "TIMESTAMP(9)")
    for year, verdict in ((2262, GateVerdict.ALLOW), (9999, GateVerdict.DENY)):
        table = new_table(catalog, {"t": "TIMESTAMP(6)"}, name=f"db.t{year}")
        table.write(rows(table, [{"t": dt.datetime(year, 1, 1)}]))
        plan = table.plan_alter(finer)
        assert plan.verdict is verdict
        lost = [each for each in plan.findings if each.rule is Rule.VALUES_LOST]
        assert [each.details["values"] for each in lost] == ([1] if year == 9999 else [])
    with pytest.raises(UnsupportedError, match="too far from 1970"):
        table.alter(finer, rules=ANY_LOSS).read()


@pytest.mark.mission("SE39")
def test_a_mode_that_another_client_misspelt_is_named(unchecked_catalog: Catalog) -> None:
    table = new_table(unchecked_catalog, COLUMNS)
    table.write(rows(table, GOOD))
    wrong = with_options(table, lakewright__cast_mode="strict")
    with pytest.raises(InvalidOption, match="cast-mode=strict is not one of"):
        wrong.read()
