"""When a table is written and how old it may become: what is wrong is said with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewright.platform.documents.yaml_files import DeclarationError
from lakewright.platform.orchestration.dagster_checks import check_for_dagster
from lakewright.platform.tables.declaration_files import load_declarations

TABLE = """\
table: shop.orders
columns: [{name: dt, type: STRING}, {name: id, type: INT}]
partition_keys: [dt]
source: {python: "a:b"}
"""
EXTERNAL = "table: shop.orders\n\n\n\n"


@pytest.mark.parametrize(
    ("head", "line", "expected"),
    [
        (
            "table: shop.orders\ncolumns: [{name: id, type: INT}]\n\n\n",
            'source: {csv: "${DATA/a.csv"}',
            "source.csv: '${DATA/a.csv' has a ${ without a name and }; write ${NAME}",
        ),
        (TABLE, "owners: [shop team]", "owners[0]: 'shop team' is no owner; write an e-mail"),
        (TABLE, "kinds: [a, b, c, d, e, f, g, h, i]", "kinds: there are 9 kinds; Dagster shows 8"),
        (TABLE, "owner: [team:shop]", "owner: unknown key 'owner'; did you mean 'owners'?"),
        (TABLE, 'schedule: "0 25 * * *"', "schedule.cron: '0 25 * * *' is not a cron schedule"),
        (
            TABLE,
            'schedule: {cron: "0 5 * * *", time_zone: UTC}',
            "schedule.time_zone: unknown key 'time_zone'; did you mean 'timezone'?",
        ),
        (
            TABLE,
            'schedule: {cron: "0 5 * * *", timezone: Berlin}',
            "schedule.timezone: 'Berlin' is not a time zone",
        ),
        (
            TABLE,
            'schedule: {cron: "0 5 * * *", partitions: 3}',
            "schedule.partitions: shop.orders is not partitioned by time",
        ),
        (EXTERNAL, 'schedule: "0 5 * * *"', "schedule: a table without a source has no schedule"),
        (EXTERNAL, "automation: on_missing", "automation: a table without a source has no"),
        (TABLE, "automation: eager", "automation: eager follows the tables in depends_on"),
        (
            TABLE,
            "automation: egaer",
            "automation.when: 'egaer' is no automation; did you mean 'eager'?",
        ),
        (TABLE, "automation: on_cron", "did you mean 'on_cron'? ({on_cron: \"0 6 * * *\"}"),
        (TABLE, "automation: {timezone: UTC}", "automation: write eager, on_missing, {on_cron"),
        (TABLE, "automation: {continuous: 1m}", "automation: continuous follows a stream; give"),
        (TABLE, "automation: {continuous: 5}", "automation.continuous: 5 has no unit"),
        (TABLE, "freshness: 36", "freshness.within: 36 has no unit; write 36d"),
        (TABLE, "freshness: 10s", "freshness.within: it is at least 1min"),
        (TABLE, "freshness: {within: 1d, warn_after: 2d}", "freshness.warn_after: a warning comes"),
        (TABLE, "freshness: {within: 1d, not_before: 1h}", "not_before goes with by; leave it out"),
        (
            TABLE,
            'freshness: {by: "0 9 * * *", not_before: 2d}',
            "freshness.not_before: the ticks of '0 9 * * *' are 1d apart; write at most that",
        ),
        (
            TABLE,
            'freshness: {by: "0 9 * * *", newest_partition: true}',
            "freshness.newest_partition: shop.orders is not partitioned by time",
        ),
        (TABLE, "backfill: all", "backfill.runs: 'all' is no way to cut a backfill; there are"),
        (TABLE, "backfill: {batches_of: 0}", "backfill.batches_of: 0: input should be greater"),
        (
            TABLE.replace("partition_keys: [dt]", "group: shop"),
            "backfill: multi_run",
            "backfill: shop.orders has no partition_keys",
        ),
    ],
)
def test_what_cannot_be_is_said_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: str, line: str, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("orders.yaml").write_text(f"{head}{line}\n", encoding="utf-8")
    with pytest.raises(DeclarationError) as raised:
        load_declarations(["orders.yaml"], check=check_for_dagster)
    (problem,) = str(raised.value).splitlines()
    assert problem.startswith("orders.yaml:5: ")
    assert expected in problem


@pytest.mark.parametrize(
    ("given", "expected_ms"), [("true", 60_000), ("1m", 60_000), ("90s", 90_000)]
)
def test_a_continuous_stream_says_its_delay_or_has_that_of_a_minute(
    tmp_path: Path, given: str, expected_ms: int
) -> None:
    text = "table: db.t\ncolumns: [{name: id, type: INT}]\nsource: {stream: {connector: socket}}\n"
    (tmp_path / "t.yaml").write_text(f"{text}automation: {{continuous: {given}}}\n")
    (declared,) = load_declarations([tmp_path], check=check_for_dagster)
    assert declared.declaration.continuous_ms == expected_ms
