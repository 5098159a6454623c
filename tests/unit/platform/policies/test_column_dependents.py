"""Who uses a column of a table: its declaration and checks, tables made of it, SQL files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from lakewright.platform.documents.yaml_files import DeclarationError
from lakewright.platform.policies.column_dependents import column_dependents
from lakewright.platform.tables.column_lineage import UpstreamColumn
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.workspace import OtherAsset, Workspace, read_workspace

TABLES = """\
tables:
  - table: shop.orders
    columns:
      - {name: dt, type: STRING NOT NULL}
      - {name: id, type: BIGINT}
      - {name: amount, type: DOUBLE}
      - {name: city, type: STRING}
    partition_keys: [dt]
    partitions:
      daily: {column: dt, start: 2024-01-01}
    source: {csv: "/data/*.csv"}
    expectations:
      - {expect: expect_column_values_to_not_be_null, column: id}
      - {expect: expect_column_values_to_be_between, column: id, min_value: 0, name: big,
         row_condition: "amount > 5", condition_parser: pandas}
  - table: shop.daily
    columns:
      - {name: day, type: STRING, from: [shop.orders.dt]}
      - {name: total, type: DOUBLE, from: [shop.orders.amount, shop.rates.rate]}
    source: {python: "m:f"}
    depends_on: [shop.orders, shop.rates]
    expectations:
      - {expect: expect_column_values_to_not_be_null, column: total}
  - table: shop.yearly
    columns:
      - {name: sum, type: DOUBLE, from: [shop.daily.total]}
    source: {python: "m:f"}
    depends_on: [shop.daily]
  - table: shop.mail
    columns:
      - {name: text, type: STRING}
    source: {python: "m:f"}
    depends_on: [shop.orders]
  - table: shop.archive
    columns:
      - {name: text, type: STRING}
    source: {python: "m:f"}
    depends_on: [shop.mail]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tables.yaml").write_text(TABLES)
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "v.sql").write_text(
        "CREATE VIEW shop.v AS SELECT city, amount FROM shop.orders"
    )
    return tmp_path


@pytest.fixture
def workspace(folder: Path) -> Workspace:
    return read_workspace([folder])


def users(workspace: Workspace, *columns: str, declared: bool = True) -> list[str]:
    found = column_dependents(workspace, "shop.orders", columns, is_declared_change=declared)
    return [f"{each.column}: {each}{'' if each.is_certain else '?'}" for each in found]


EVERY = ["*: table shop.mail?", "*: table shop.archive (through shop.mail)?"]


def test_a_column_is_followed_through_the_tables_that_are_made_of_it(workspace: Workspace) -> None:
    assert users(workspace, "amount") == [
        "amount: asset check big?",
        "amount: column shop.daily.total",
        "amount: asset check total_not_null (through shop.daily)",
        "amount: column shop.yearly.sum (through shop.daily)",
        *EVERY,
        "amount: view shop.v in views/v.sql",
    ]


def test_checks_partitions_and_files_use_a_column(workspace: Workspace) -> None:
    assert users(workspace, "id") == ["id: asset check id_not_null", "id: asset check big", *EVERY]
    assert users(workspace, "dt") == [
        "dt: partition scheme daily",
        "dt: column shop.daily.day",
        *EVERY,
    ]
    assert users(workspace, "city") == [*EVERY, "city: view shop.v in views/v.sql"]


def test_a_declaration_uses_its_columns_unless_it_asks_for_the_change(workspace: Workspace) -> None:
    assert "city: declaration shop.orders" in users(workspace, "city", declared=False)


POLICIES = """\
warehouse:
  statistics: {columns: [city, dt]}
tables:
  shop.orders:
    sort: {enabled: true, columns: [amount, city]}
"""


def test_a_policy_uses_the_columns_that_it_sorts_by_and_counts(
    folder: Path, workspace: Workspace
) -> None:
    file = folder / "policy.yml"
    file.write_text(POLICIES)
    kept = replace(workspace, policy_paths=(file,))
    assert [each for each in users(kept, "city") if "policy" in each] == [
        f"city: policy sort.columns ({file}:5)",
        f"city: policy statistics.columns ({file}:2)?",
    ]
    assert users(kept, "id") == users(workspace, "id")
    file.write_text("tables: {shop.orders: {sort: {colums: [city]}}}")
    assert f"*: policy {file}?" in users(kept, "id")


def test_the_upkeep_of_a_declaration_uses_columns_too() -> None:
    text = """
table: shop.orders
columns: [{name: a, type: INT}, {name: b, type: INT}]
source: {python: "m:f"}
maintenance: {sort: {enabled: true, columns: [b]}}
"""
    (found,) = column_dependents(
        Workspace((TableDeclaration.model_validate(yaml.safe_load(text)),)),
        "shop.orders",
        ["a", "b"],
        is_declared_change=True,
    )
    assert str(found) == "policy sort.columns (the declaration of shop.orders)"


def made_of(name: str, *upstream: str) -> OtherAsset:
    lineage = {"x": tuple(UpstreamColumn(each, "x") for each in upstream)}
    return OtherAsset(name=name, upstream=upstream, lineage=lineage)


def test_lineage_in_a_circle_ends() -> None:
    circle = (made_of("a", "shop.t", "b", "a"), made_of("b", "a"), made_of("shop.t", "b"))
    found = column_dependents(Workspace(other_assets=circle), "shop.t", ["x"])
    assert [str(each) for each in found] == ["column a.x", "column b.x (through a)"]


def test_a_column_is_told_once_over_however_many_paths() -> None:
    layers = [("shop.t",), *((f"{at}.l", f"{at}.r") for at in range(20))]
    mesh = tuple(
        made_of(name, *layers[at - 1]) for at in range(1, len(layers)) for name in layers[at]
    )
    found = column_dependents(Workspace(other_assets=mesh), "shop.t", ["x"])
    assert len(found) == len({each.name for each in found}) == len(mesh)


def test_sql_files_lie_beside_one_declaration_or_where_they_are_named(folder: Path) -> None:
    alone = read_workspace([folder / "tables.yaml"])
    assert not alone.sql_files()
    (folder / "beside.sql").write_text("SELECT city FROM shop.orders")
    beside = read_workspace([folder / "tables.yaml"], sql=[folder / "views"])
    assert sorted(beside.sql_files().values()) == ["beside.sql", "v.sql"]
    assert [each for each in users(beside, "city") if "sql" in each] == [
        "city: SQL file beside.sql",
        "city: view shop.v in v.sql",
    ]


def test_only_files_are_read_and_folders_of_tools_are_skipped(folder: Path) -> None:
    (folder / "folder.sql").mkdir()
    (folder / "nowhere.sql").symlink_to(folder / "missing.sql")
    for name in (".venv", "node_modules"):
        (folder / "views" / name).mkdir()
        (folder / "views" / name / "x.sql").write_text("SELECT city FROM shop.orders")
    for paths in ([folder], [folder / "tables.yaml"]):
        found = read_workspace(paths, sql=[folder / "views"])
        assert [each for each in users(found, "city") if "x.sql" in each] == []
        assert set(found.sql_files().values()) <= {"v.sql", "views/v.sql"}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_file_of_sql_is_read_in_the_encoding_of_its_mark(folder: Path, encoding: str) -> None:
    (folder / "views" / "v.sql").write_text("SELECT city FROM shop.orders", encoding=encoding)
    assert "city: SQL file views/v.sql" in users(read_workspace([folder]), "city")


@pytest.mark.parametrize(
    ("upstream", "message"),
    [
        ("amount", "'amount' is not a column of a table; write database.table.column"),
        ("shop.lines.a", "'shop.lines' is not in depends_on"),
        ("shop.orders.amuont", "shop.orders has no column 'amuont'; did you mean 'amount'?"),
    ],
)
def test_lineage_that_leads_nowhere_is_refused(folder: Path, upstream: str, message: str) -> None:
    file = folder / "tables.yaml"
    file.write_text(TABLES.replace("[shop.orders.dt]", f"[{upstream}]"))
    with pytest.raises(DeclarationError) as refused:
        read_workspace([folder])
    assert message in str(refused.value)
    assert "columns[0].from[0]" in str(refused.value)


def test_queries_of_checks_use_columns_of_the_batch_and_of_other_tables(tmp_path: Path) -> None:
    (tmp_path / "tables.yaml").write_text(
        """
tables:
  - table: shop.orders
    columns: [{name: id, type: BIGINT}, {name: amount, type: DOUBLE}, {name: city, type: STRING}]
    source: {csv: "/data/*.csv"}
    expectations:
      - name: paid
        sql: SELECT 1 FROM batch ANTI JOIN shop.bills b ON b.id = batch.id WHERE batch.amount > 0
  - table: shop.bills
    columns: [{name: id, type: BIGINT}]
    source: {csv: "/data/*.csv"}
"""
    )
    workspace = read_workspace([tmp_path])

    def users(table: str, column: str) -> list[tuple[str, str, bool]]:
        found = column_dependents(workspace, table, [column], is_declared_change=True)
        return [(each.kind, each.name, each.is_certain) for each in found]

    assert users("shop.orders", "amount") == [("asset check", "paid", True)]
    assert users("shop.orders", "city") == []
    assert users("shop.bills", "id") == [("asset check", "shop.orders.paid", True)]


def test_the_keys_that_a_policy_wants_use_their_columns(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("warehouse:\n  respec: {keys: [dt, hh], primary_key: [id, dt, hh]}\n")
    found = column_dependents(Workspace(policy_paths=(policy,)), "shop.orders", ["hh", "id", "x"])
    assert [f"{each.column}: {each}" for each in found] == [
        f"hh: policy respec.keys ({policy}:2)",
        f"hh: policy respec.primary_key ({policy}:2)",
        f"id: policy respec.primary_key ({policy}:2)",
    ]
