"""Policy files: what is wrong is said with file and line, and a change needs no restart."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakewright.platform.documents.yaml_files import DeclarationError
from lakewright.platform.policies.policies import DayBudget, Level, PolicySet
from lakewright.platform.policies.policy_files import load_policies
from lakewright.platform.policies.policy_watch import PolicyFiles
from lakewright.platform.tables.upkeep_policies import UpkeepMode
from lakewright.platform.tables.workspace import read_workspace

GOOD = """\
warehouse:
  mode: shadow
  budget: {bytes: 500 GB, time: 4h}
  snapshots: {time_retained: 7d}
databases:
  sales: {compaction: {small_files: 8, hours: 22:00-06:00}}
patterns:
  - match: "sales.tmp_*"
    freeze: true
tables:
  sales.orders:
    snapshots:
      time_retained: 30d
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(*texts: str) -> PolicySet:
    """The policies of texts, as files a.yaml, b.yaml and so on."""
    for number, text in enumerate(texts):
        Path("abcdef"[number] + ".yaml").write_text(text, encoding="utf-8")
    return load_policies(["."])


def lines(policies: PolicySet, table: str) -> dict[str, list[str]]:
    """Each key that some line gives, with the lines: the one that decided, then those that lost."""
    return {
        each.name: [given.place for given in (each.decided, *each.lost)]
        for each in policies.of(table).settings
        if each.decided is not None
    }


def test_a_table_inherits_each_key_by_itself_and_knows_its_line() -> None:
    policies = load(GOOD)
    orders = policies.of("sales.orders")
    assert orders.policy.mode is UpkeepMode.SHADOW
    assert orders.policy.compaction.small_files == 8
    assert str(orders.policy.compaction.hours) == "22:00-06:00"
    assert orders.policy.snapshots.time_retained == 30 * 86_400_000
    assert lines(policies, "sales.orders") == {
        "mode": ["a.yaml:2"],
        "compaction.small_files": ["a.yaml:6"],
        "compaction.hours": ["a.yaml:6"],
        "snapshots.time_retained": ["a.yaml:13", "a.yaml:4"],
    }
    assert not orders.policy.freeze
    assert policies.of("sales.tmp_1").policy.freeze
    assert not policies.of("web.tmp_1").policy.freeze


def test_a_budget_is_no_setting_that_tables_inherit() -> None:
    policies = load(GOOD)
    assert policies.warehouse.budget.bytes == 500 << 30
    assert policies.warehouse.budget.time == 4 * 3_600_000
    told = {each.name: each.decided for each in policies.warehouse_settings}
    assert [name for name, decided in told.items() if decided] == ["budget.bytes", "budget.time"]
    assert not hasattr(policies.of("sales.orders").policy, "budget")


def test_each_section_has_a_budget_of_its_own_with_its_lines() -> None:
    policies = load(
        "warehouse: {budget: {time: 4h}}\n"
        "databases:\n"
        "  sales: {budget: {bytes: 20 GB, time: 1h}}\n"
        "patterns:\n"
        "- {match: 'sales.tmp_*', budget: {bytes: 1 GB}}\n"
        "- {match: '*.tmp_*', freeze: true}\n"
        "tables:\n"
        "  sales.orders: {budget: {time: 10min}}\n",
        "databases: {sales: {budget: {bytes: null}}}\ntables: {sales.t: {budget: {bytes: null}}}",
    )
    whole = DayBudget(section="the warehouse", time=4 * 3_600_000, time_place="a.yaml:1")
    # The later file takes the limit of bytes away, and leaves the other.
    sales = DayBudget(section="database sales", time=3_600_000, time_place="a.yaml:3")
    tmp = DayBudget(section="pattern sales.tmp_*", bytes=1 << 30, bytes_place="a.yaml:5")
    orders = DayBudget(section="table sales.orders", time=600_000, time_place="a.yaml:8")
    assert policies.budgets_of("sales.orders") == (whole, sales, orders)
    assert policies.budgets_of("sales.tmp_1") == (whole, sales, tmp)
    assert policies.budgets_of("web.tmp_1") == (whole,)
    assert policies.budgets_of("sales.t") == (whole, sales)


def test_a_declaration_has_the_last_word_on_the_budget_of_its_table() -> None:
    Path("events.yaml").write_text(
        "table: web.events\nmaintenance: {budget: {bytes: 2 GB}}\n"
        "columns: [{name: id, type: INT}]\n"
        "source: {parquet: x.parquet}\n"
    )
    workspace = read_workspace(["events.yaml"])
    Path("a.yaml").write_text("tables: {web.events: {budget: {bytes: 1 GB, time: 1h}}}")
    (budget,) = load_policies(["a.yaml"], workspace=workspace).budgets_of("web.events")
    assert (budget.bytes, budget.bytes_place) == (2 << 30, "events.yaml:2")
    assert (budget.time, budget.time_place) == (3_600_000, "a.yaml:1")


def test_of_two_patterns_that_match_the_later_one_wins_also_over_files() -> None:
    one = "patterns:\n- {match: 's.*', compaction: {small_files: 3}}\n"
    two = "- {match: '*.tmp?', compaction: {small_files: 4}, freeze: true}\n"
    policies = load(one + two, one.replace("3", "6"))
    assert policies.of("s.tmp1").policy.compaction.small_files == 6
    assert lines(policies, "s.tmp1") == {
        "compaction.small_files": ["b.yaml:2", "a.yaml:3", "a.yaml:2"],
        "freeze": ["a.yaml:3"],
    }


def test_files_that_are_named_count_in_the_order_of_their_naming() -> None:
    load("warehouse: {freeze: true}", "warehouse: {freeze: false}")
    assert not load_policies(["a.yaml", "b.yaml"]).warehouse.freeze
    assert load_policies(["b.yaml", "a.yaml"]).warehouse.freeze


def test_null_at_a_stronger_level_brings_the_tables_own_option_back() -> None:
    policies = load(GOOD, "tables: {web.t: {snapshots: {time_retained: null}}}")
    assert policies.of("web.t").policy.snapshots.time_retained is None
    assert lines(policies, "web.t")["snapshots.time_retained"] == ["b.yaml:1", "a.yaml:4"]


def test_the_retention_of_tags_and_changelogs_is_inherited_key_by_key() -> None:
    policies = load(
        "warehouse:\n  tags: {older_than: 90d, spare: ['release-*']}\n"
        "  changelogs: {time_retained: 2d}\n"
        "databases:\n  sales: {tags: {older_than: null}}\n"
        "patterns:\n- {match: 'sales.tmp_*', tags: {older_than: 1d, spare: []}}\n"
        "tables: {sales.orders: {changelogs: {retain_max: 50}}}\n"
    )
    orders, tmp = policies.of("sales.orders").policy, policies.of("sales.tmp_a").policy
    assert (orders.tags.older_than, orders.tags.spare) == (None, ("release-*",))
    assert (tmp.tags.older_than, tmp.tags.spare) == (86_400_000, ())
    assert (orders.changelogs.time_retained, orders.changelogs.retain_max) == (172_800_000, 50)
    assert lines(policies, "sales.orders")["tags.older_than"] == ["a.yaml:5", "a.yaml:2"]
    assert lines(policies, "sales.tmp_a")["tags.spare"] == ["a.yaml:7", "a.yaml:2"]


def test_a_declaration_wins_over_all_policies() -> None:
    Path("tables").mkdir()
    declaration = "table: sales.orders\nmaintenance:\n  snapshots: {time_retained: 90d}\n"
    Path("tables/orders.yaml").write_text(declaration)
    Path("a.yaml").write_text(GOOD)
    policies = load_policies(["a.yaml"], workspace=read_workspace(["tables"]))
    resolved = policies.of("sales.orders")
    assert resolved.policy.snapshots.time_retained == 90 * 86_400_000
    assert [each.level for each in resolved.layers][-1] is Level.DECLARATION
    assert lines(policies, "sales.orders")["snapshots.time_retained"] == [
        "tables/orders.yaml:3",
        "a.yaml:13",
        "a.yaml:4",
    ]


WRONG = [
    ("warehouse: {mod: live}", "a.yaml:1: warehouse.mod: unknown key 'mod'; did you mean 'mode'?"),
    (
        "databases:\n  a:\n    compaction: {small_filez: 3}",
        (
            "a.yaml:3: databases.a.compaction.small_filez: unknown key 'small_filez'; did you mean "
            "'small_files'?"
        ),
    ),
    (
        "warehouse:\n  tags:\n    older_then: 90d",
        (
            "a.yaml:3: warehouse.tags.older_then: unknown key 'older_then'; did you mean "
            "'older_than'?"
        ),
    ),
    (
        "tables:\n  a.b:\n    tags: {older_than: 5min}",
        (
            "a.yaml:3: tables.a.b.tags.older_than: the job that made a tag may still need it "
            "within 1h; write at least 1h, or give such tags a time to live when they are made"
        ),
    ),
    (
        "warehouse:\n  tags: {spare: ['a*', 'a*']}",
        "a.yaml:2: warehouse.tags.spare: a pattern is named twice; keep one",
    ),
    (
        "warehouse:\n  changelogs: {retain_min: 9, retain_max: 3}",
        (
            "a.yaml:2: warehouse.changelogs.retain_max: retain_max is 3, below retain_min, which "
            "is 9"
        ),
    ),
    # A database may have the name of a section.
    (
        "databases:\n  snapshots:\n    freez: true",
        "a.yaml:3: databases.snapshots.freez: unknown key 'freez'; did you mean 'freeze'?",
    ),
    ("warehous: {}", "a.yaml:1: warehous: unknown key 'warehous'; did you mean 'warehouse'?"),
    (
        "warehouse:\n  snapshots:\n    time_retained: 7",
        (
            "a.yaml:3: warehouse.snapshots.time_retained: 7 has no unit; write 7d, 7h or 7min "
            "(d, h, min, s or ms)"
        ),
    ),
    (
        "warehouse:\n  budget: {bytes: 500}",
        (
            "a.yaml:2: warehouse.budget.bytes: 500 has no unit; write 500 MB or 500 GB "
            "(b, kb, mb, gb, tb)"
        ),
    ),
    (
        "warehouse:\n  budget: {bytes: much}",
        "a.yaml:2: warehouse.budget.bytes: 'much' is not a size; write for example 64 MB or 1 GB",
    ),
    (
        "warehouse:\n  snapshots: {schedule: 7 4 * *}",
        (
            "a.yaml:2: warehouse.snapshots.schedule: '7 4 * *' is not a cron schedule; write for "
            "example '0 3 * * *'"
        ),
    ),
    (
        "warehouse:\n  orphans: {timezone: Mars}",
        (
            "a.yaml:2: warehouse.orphans.timezone: 'Mars' is not a time zone; write for example "
            "UTC or Europe/Berlin"
        ),
    ),
    (
        "warehouse:\n  budget: {timezone: Mars}",
        (
            "a.yaml:2: warehouse.budget.timezone: 'Mars' is not a time zone; write for example "
            "UTC or Europe/Berlin"
        ),
    ),
    (
        "warehouse:\n  compaction: {hours: 25:00-06:00}",
        (
            "a.yaml:2: warehouse.compaction.hours: '25:00-06:00' are no hours of the day, which "
            "are 00:00 to 24:00; write for example 22:00-06:00"
        ),
    ),
    (
        "warehouse:\n  compaction: {hours: night}",
        (
            "a.yaml:2: warehouse.compaction.hours: 'night' are no hours of the day; write for "
            "example 22:00-06:00"
        ),
    ),
    ("warehouse: {interval: 1s}", "a.yaml:1: warehouse.interval: the interval is at least 5s"),
    ("warehouse: {mode: dead}", "a.yaml:1: warehouse.mode: dead is not one of live or shadow"),
    (
        "warehouse: {mode: shadw}",
        "a.yaml:1: warehouse.mode: shadw is not one of live or shadow; did you mean shadow?",
    ),
    (
        "warehouse:\n  compaction: {small_files: 5.5}",
        "a.yaml:2: warehouse.compaction.small_files: 5.5 is not a whole number",
    ),
    (
        "tables:\n  a.b: {freeze: yess}",
        "a.yaml:2: tables.a.b.freeze: 'yess' is neither true nor false",
    ),
    (
        "patterns:\n  - {match: *.tmp}",
        (
            "a.yaml:2: while scanning an alias expected alphabetic or numeric character, but found "
            "'.'; put a text that begins with * in quotes"
        ),
    ),
    ("warehouse:\n", "a.yaml:1: warehouse: null is not a mapping of keys to values"),
    (
        "databases:\n  a:\n    compaction: {interval: 10s}",
        (
            "a.yaml:3: databases.a.compaction.interval: one sensor looks at all tables, so no part "
            "of them has an interval; write `interval` under `warehouse`"
        ),
    ),
    (
        "warehouse: {compaction: {interval: 10s}}",
        (
            "a.yaml:1: warehouse.compaction.interval: one sensor looks at all tables, so no part "
            "of them has an interval; write `interval` under `warehouse`"
        ),
    ),
    (
        "databases: {a: {interval: 5s}}",
        "a.yaml:1: databases.a.interval: unknown key 'interval'; it is a key of warehouse",
    ),
    (
        "budget: {time: 4h}\nwarehouse: {}",
        "a.yaml:1: budget: unknown key 'budget'; it is a key of warehouse",
    ),
    (
        "databases:\n  a:\n    budget: {timezone: UTC}",
        (
            "a.yaml:3: databases.a.budget.timezone: unknown key 'timezone'; did you mean 'time'? "
            "it is a key of warehouse.budget"
        ),
    ),
    (
        "warehouse: {}\nfreeze: true",
        "a.yaml:2: freeze: unknown key 'freeze'; it is a key of warehouse",
    ),
    (
        "databases: {a.b: {}}",
        "a.yaml:1: databases.a.b: 'a.b' is no name of a database; write tables under `tables`",
    ),
    (
        "tables: {orders: {}}",
        "a.yaml:1: tables.orders: 'orders' is no name of a table; write it as database.table",
    ),
    (
        "tables:\n  'a.*': {}",
        "a.yaml:2: tables.a.*: 'a.*' is a pattern; write it under `patterns`, as `- match: 'a.*'`",
    ),
    ("patterns:\n- freeze: true", "a.yaml:2: patterns[0]: match is missing; add it"),
    (
        "patterns:\n- freeze: true\n  match: tmp_*",
        (
            "a.yaml:3: patterns[0].match: 'tmp_*' has no dot between database and table; write "
            "'*.tmp_*' for tables of such names, or 'tmp_*.*' for all tables of such databases"
        ),
    ),
    (
        "patterns: {match: a.b}",
        "a.yaml:1: patterns: {'match': …} is not a list; begin each of its lines with `- `",
    ),
    (
        "tables:\n  a.b:\n    snapshots: {retain_min: 5, retain_max: 4}",
        "a.yaml:3: tables.a.b.snapshots.retain_max: retain_max is 4, below retain_min, which is 5",
    ),
    (
        "warehouse:\n  orphans: {older_than: 0s}",
        (
            "a.yaml:2: warehouse.orphans.older_than: files younger than 1h may be those of a "
            "running write; write at least 1h"
        ),
    ),
    (
        "warehouse:\n  collect: {orphans: 0s}",
        (
            "a.yaml:2: warehouse.collect.orphans: what was removed by mistake can be put back only "
            "until it is collected; write at least 1h"
        ),
    ),
    (
        "tables:\n  a.b: {sort: {columns: [x]}}\n  a.c: {sort: {enabled: true}}",
        (
            "a.yaml:3: sort.enabled: without sort.columns nothing is sorted; name the columns, or "
            "leave this out"
        ),
    ),
    (
        "warehouse: {respec: {key: [dt]}}",
        "a.yaml:1: warehouse.respec.key: unknown key 'key'; did you mean 'keys'?",
    ),
    (
        "tables:\n  a.b:\n    respec: {keys: [dt, hh, dt]}",
        "a.yaml:3: tables.a.b.respec.keys: a column is named twice; keep one",
    ),
    (
        "warehouse:\n  respec: {keys: [dt, origin], primary_key: [id, dt]}",
        (
            "a.yaml:2: warehouse.respec.primary_key: a primary key has all partition keys; add "
            "origin, or leave out primary_key where tables have none"
        ),
    ),
    (
        "databases:\n  d:\n    respec: {keys: [dt], primary_key: [dt]}",
        (
            "a.yaml:3: databases.d.respec.primary_key: a primary key has columns beside the "
            "partition keys; add one"
        ),
    ),
    (
        "tables: {a.b: {respec: {keys: [dt], primary_key: []}}}",
        (
            "a.yaml:1: tables.a.b.respec.primary_key: a primary key has columns; leave it out to "
            "keep it"
        ),
    ),
    (
        "databases:\n  a: {respec: {primary_key: [id]}}",
        (
            "a.yaml:2: respec.primary_key: a primary key changes only together with respec.keys; "
            "name these too"
        ),
    ),
    (
        "table: a.b",
        "a.yaml:1: these are declarations of tables; name the file in $LAKEWRIGHT_TABLES",
    ),
    ("- warehouse", "a.yaml:1: policies are a mapping of warehouse, databases, patterns or tables"),
    (
        "warehouse: {freeze: true",
        "a.yaml:1: while parsing a flow mapping expected ',' or '}', but got '<stream end>'",
    ),
]


@pytest.mark.parametrize(("text", "said"), WRONG, ids=[said[8:60] for _, said in WRONG])
def test_what_is_wrong_is_said_with_its_line_and_what_would_be_right(text: str, said: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        load(text)
    assert str(raised.value) == said


def test_a_warehouse_may_leave_the_columns_to_sort_by_to_its_tables() -> None:
    load("warehouse: {sort: {enabled: true}}\ntables: {a.b: {sort: {columns: [x]}}}")
    with pytest.raises(DeclarationError, match=r"without sort\.columns nothing is sorted"):
        load("warehouse: {sort: {enabled: true}}")


def test_partition_keys_are_inherited_and_null_leaves_those_of_a_table_alone() -> None:
    policies = load(
        "warehouse: {respec: {keys: [dt], max_files: 7}}\n"
        "databases: {s: {respec: {keys: [dt, origin], primary_key: [id, dt, origin]}}}\n"
        "tables: {s.t: {respec: {keys: null}}, s.u: {respec: {keys: []}}}"
    )
    found = {name: policies.of(name).policy.respec for name in ("a.b", "s.v", "s.t", "s.u")}
    keys = {name: each.keys for name, each in found.items()}
    assert keys == {"a.b": ("dt",), "s.v": ("dt", "origin"), "s.t": None, "s.u": ()}
    assert {each.max_files for each in found.values()} == {7}
    assert found["s.v"].primary_key == ("id", "dt", "origin")
    (setting,) = [each for each in policies.of("s.v").settings if each.name == "respec.keys"]
    assert setting.decided is not None
    assert (setting.decided.place, setting.lost[0].place) == ("a.yaml:2", "a.yaml:1")


def test_everything_wrong_is_said_at_once() -> None:
    with pytest.raises(DeclarationError) as raised:
        load(
            "warehouse: {mod: live}\ntables: {x: {}}\n---\npatterns: [{match: x}]",
            "databases: {a: {orphans: {timezone: Mars}}}",
        )
    told = [(each.file, each.line, each.place) for each in raised.value.problems]
    assert told == [
        ("a.yaml", 1, "warehouse.mod"),
        ("a.yaml", 2, "tables.x"),
        ("a.yaml", 4, "patterns[0].match"),
        ("b.yaml", 1, "databases.a.orphans.timezone"),
    ]


@pytest.mark.parametrize("stronger", ["databases: {s: %s}", "tables: {s.t: %s}"])
def test_levels_that_contradict_each_other_are_named_by_the_stronger_line(stronger: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        load("warehouse: {snapshots: {retain_max: 10}}", stronger % "{snapshots: {retain_min: 20}}")
    (problem,) = raised.value.problems
    assert problem.message == "retain_max is 10, below retain_min, which is 20"
    assert problem.file == "a.yaml"


def test_what_contradicts_only_for_some_tables_is_told_for_each_of_them() -> None:
    policies = load(
        "patterns:\n- {match: 's.*', snapshots: {retain_max: 10}}\n"
        "- {match: '*.t', snapshots: {retain_min: 20}}"
    )
    assert not policies.of("s.x").problems
    assert [str(each) for each in policies.of("s.t").problems] == [
        "a.yaml:2: snapshots.retain_max: retain_max is 10, below retain_min, which is 20"
    ]


def test_policies_that_match_no_table_are_no_error_and_are_found() -> None:
    policies = load(GOOD)
    assert [each.text for each in policies.unmatched(["sales.x"])] == [
        "pattern sales.tmp_*",
        "table sales.orders",
    ]
    assert [each.line for each in policies.unmatched(["web.x"])] == [6, 8, 11]


# --- under watch -------------------------------------------------------------------------------


def write(text: str) -> None:
    Path("a.yaml").write_text(text, encoding="utf-8")


def test_files_that_stay_are_not_read_again_and_a_change_counts_at_once() -> None:
    write("warehouse: {freeze: true}")
    files = PolicyFiles(["."])
    first = files.current()
    assert first.policies.warehouse.freeze
    assert files.current() is first
    write("warehouse: {freeze: false, mode: live}")
    assert not files.current().policies.warehouse.freeze
    Path("b.yaml").write_text("warehouse: {freeze: true}")
    assert files.current().policies.warehouse.freeze
    Path("b.yaml").unlink()
    assert not files.current().policies.warehouse.freeze


def test_a_file_of_the_same_size_and_time_that_took_the_place_of_another_is_read() -> None:
    write("warehouse: {freeze: true }")
    files = PolicyFiles(["a.yaml"])
    before = Path("a.yaml").stat()
    assert files.current().policies.warehouse.freeze
    Path("new").write_text("warehouse: {freeze: false}")
    os.utime("new", ns=(before.st_atime_ns, before.st_mtime_ns))
    Path("new").rename("a.yaml")
    assert not files.current().policies.warehouse.freeze


def test_a_file_that_became_wrong_leaves_the_last_right_policies_in_force() -> None:
    write("warehouse: {snapshots: {time_retained: 30d}}")
    files = PolicyFiles(["a.yaml"])
    right = files.current().policies
    write("warehouse: {snapshots: {time_retained: 30}}")
    now = files.current()
    assert now.policies is right
    assert [each.line for each in now.problems] == [1]
    assert files.current() is now
    Path("a.yaml").unlink()
    gone = files.current()
    assert (gone.policies, [each.file for each in gone.problems]) == (right, ["a.yaml"])
    write("warehouse: {freeze: true}")
    again = files.current()
    assert again.policies.warehouse.freeze
    assert not again.problems


def test_files_that_were_never_right_are_an_error() -> None:
    write("warehouse: {freez: true}")
    files = PolicyFiles(["a.yaml"])
    for _ in range(2):
        with pytest.raises(DeclarationError, match="did you mean 'freeze'"):
            files.current()
    write("warehouse: {freeze: true}")
    assert files.current().policies.warehouse.freeze


def test_without_files_the_defaults_hold() -> None:
    policies = PolicyFiles([]).current().policies
    assert policies == PolicySet()
    assert not [each for each in policies.of("a.b").settings if each.decided]
