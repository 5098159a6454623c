"""No door keeps or shows a secret: statements, declarations, commands, agents, Dagster, lineage.

`tests/support/values/kept_secrets.py` says how secrets are written; each of them is tried at each
door that takes options, and looked for behind each that shows what a table of before has kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import dagster as dg
import pytest
from mcp import Client

from lakewright.cli import main
from lakewright.cli.mcp.server import server_of
from lakewright.cli.mcp.warehouse_tools import WarehouseTools
from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.model.catalog_table import CatalogTable
from lakewright.definitions import build_definitions
from lakewright.platform.documents.yaml_files import DeclarationError
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.ledger.open_lineage import run_event
from lakewright.platform.ledger.recording import Recorder
from lakewright.platform.orchestration.dagster_checks import check_for_dagster
from lakewright.platform.orchestration.resources import SparkResource, WarehouseResource
from lakewright.platform.policies.policy_watch import PolicyFiles
from lakewright.platform.tables.workspace import read_workspace
from lakewright.platform.upkeep.alter import ALTER, AlterOptions
from lakewright.platform.upkeep.procedure import Work
from lakewright.session import Session
from lakewright.storage import Catalog, SetOption
from lakewright.storage.errors import InvalidOption, StorageError
from lakewright.storage.spec.data_types import parse_data_type
from lakewright.storage.spec.schema import Column
from tests.support.values.kept_secrets import ENCODED, MARK, SECRETS

# Those that a text of SQL or YAML holds on one line.
_ON_A_LINE = [each for each in SECRETS if "\n" not in each[1]]
_IDS = [f"{at} {name}" for at, (name, _) in enumerate(_ON_A_LINE)]
Refused = (InvalidOption, DeclarationError)


def is_clean(*texts: object) -> bool:
    return not any(each in str(text) for text in texts for each in (MARK, *ENCODED))


def files_of(folder: Path) -> str:
    return "".join(each.read_text(errors="replace") for each in folder.rglob("*") if each.is_file())


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


@pytest.fixture
def session(tmp_path: Path) -> Session:
    session = Session(Catalog.open(str(tmp_path / "warehouse")))
    session.sql("""
        CREATE DATABASE d; USE d;
        CREATE TABLE plain (id INT);
        CREATE TABLE outside (id INT) WITH ('connector' = 'datagen')
    """)
    return session


# --- what takes options ---------------------------------------------------------------------------


def _statement(text: str) -> Callable[[Session, str, str], object]:
    def run(session: Session, name: str, value: str) -> object:
        return session.sql(text.format(option=f"{quoted(name)} = {quoted(value)}"))

    return run


def _declared(text: str) -> Callable[[Session, str, str], object]:
    def run(session: Session, name: str, value: str) -> object:
        folder = Path(session.catalog.root).parent / "declared"
        folder.mkdir(exist_ok=True)
        option = f"{json.dumps(name)}: {json.dumps(value)}"
        file = folder / "t.yaml"
        file.write_text(
            "table: d.t\ncolumns: [{name: id, type: INT}]\n" + text.replace("OPTION", option)
        )
        try:
            # What serves the tables tells it, too, and goes on.
            where = WarehouseResource(uri=session.catalog.uri)
            shown = build_definitions([file], warehouse=where).resolve_all_asset_specs()
            assert is_clean(*shown, *(each.metadata for each in shown))
            return read_workspace([file], check=check_for_dagster)
        finally:
            file.unlink()

    return run


def _made(session: Session, name: str, value: str) -> object:
    return session.catalog.create_table("d.t", {"id": "INT"}, options={name: value})


def _altered(session: Session, name: str, value: str) -> object:
    return session.catalog.table("d.plain").plan_alter(SetOption(name, value))


def _resource(session: Session, name: str, value: str) -> object:
    spark = SparkResource(conf={name: value})
    return build_definitions([], warehouse=WarehouseResource(uri=session.catalog.uri), spark=spark)


def _catalog_options(session: Session, name: str, value: str) -> object:
    where = WarehouseResource(uri=session.catalog.uri, catalog_options={name: value})
    return build_definitions([], warehouse=where)


DOORS: dict[str, Callable[[Session, str, str], object]] = {
    "CREATE TABLE of a connector": _statement(
        "CREATE TABLE t (id INT) WITH ('connector' = 'kafka', {option})"
    ),
    "ALTER TABLE of a connector": _statement("ALTER TABLE outside SET ({option})"),
    "CREATE TABLE LIKE": _statement("CREATE TABLE t WITH ({option}) LIKE outside"),
    "CREATE TABLE": _statement("CREATE TABLE t (id INT) WITH ({option})"),
    "CREATE TABLE AS": _statement("CREATE TABLE t WITH ({option}) AS SELECT * FROM plain"),
    "CREATE TABLE of plain files": _statement(
        "CREATE TABLE t (id INT) WITH ('type' = 'format-table', 'file.format' = 'csv', {option})"
    ),
    "ALTER TABLE": _statement("ALTER TABLE plain SET ({option})"),
    "Catalog.create_table": _made,
    "plan_alter": _altered,
    "options of a declaration": _declared("options: {OPTION}"),
    "source of a declaration": _declared("source: {connector: kafka, options: {OPTION}}"),
    "stream of a declaration": _declared("source: {stream: {connector: kafka, options: {OPTION}}}"),
    "tags of a declaration": _declared("tags: {OPTION}"),
    "conf of Spark in Dagster": _resource,
    "options of a catalog in Dagster": _catalog_options,
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("name", "value"), _ON_A_LINE, ids=_IDS)
@pytest.mark.sampled(each="door")
def test_no_door_takes_a_secret(
    session: Session, tmp_path: Path, door: str, name: str, value: str
) -> None:
    with pytest.raises(Refused) as refused:
        DOORS[door](session, name, value)
    assert "holds a secret" in str(refused.value)
    if isinstance(refused.value, DeclarationError):
        assert refused.value.problems[0].line == 3
    assert is_clean(refused.value, repr(refused.value))
    assert is_clean(files_of(tmp_path))


@pytest.mark.parametrize("name", ["csv", "stream"])
def test_a_path_of_a_declaration_has_no_signature(session: Session, name: str) -> None:
    path = "https://acct.example/c?sv=1&sig=hunter2"
    source = f"csv: '{path}'" if name == "csv" else f"stream: {{csv: '{path}'}}"
    with pytest.raises(DeclarationError, match=r"write '\$\{CSV_SIG\}' in its place") as refused:
        _declared(f"source: {{{source}}}")(session, "unused", "unused")
    assert is_clean(refused.value)


def test_a_wrong_value_of_a_declaration_is_not_repeated(session: Session) -> None:
    for source in (
        "{connector: jdbc, options: {password: [hunter2]}}",
        "{connector: jdbc, options: {password: {x: hunter2}}}",
        "{connector: jdbc, options: 'postgresql://u:hunt/er2@h/db'}",
        # YAML takes the sign for its own.
        "{connector: jdbc, options: {password: *hunter2}}",
        "{connector: jdbc, options: {password: !hunter2 x}}",
    ):
        with pytest.raises(DeclarationError) as refused:
            _declared(f"source: {source}")(session, "unused", "unused")
        assert is_clean(refused.value)


def test_the_webhook_of_alerts_is_a_variable(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("warehouse: {alerts: {webhook: 'https://hooks.slack.com/services/hunter2'}}")
    with pytest.raises(DeclarationError, match=r"write \$\{NAME\}") as refused:
        PolicyFiles([policy]).current()
    assert is_clean(refused.value)


def test_a_variable_that_dagster_resolves_is_no_secret(session: Session) -> None:
    spark = SparkResource(conf={"spark.hadoop.fs.s3a.secret.key": dg.EnvVar("KEY")})
    where = WarehouseResource(uri=session.catalog.uri)
    assert build_definitions([], warehouse=where, spark=spark).resources is not None


def test_a_password_of_the_environment_may_have_any_characters(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql("""
        CREATE TABLE t (id INT) WITH ('connector' = 'jdbc', 'table-name' = 't',
          'url' = 'postgresql://u:${env:PW}@h/db?application_name=${env:APP}')
    """)
    monkeypatch.setenv("PW", "hunt/er@2%20")
    monkeypatch.setenv("APP", "a b")
    url = ExternalTables(session.catalog).context("d.t").options["url"]
    # What is escaped already stays so.
    assert url == "postgresql://u:hunt%2Fer%402%20@h/db?application_name=a b"


# --- what shows what was kept before --------------------------------------------------------------


@pytest.fixture
def kept(session: Session) -> Sequence[str]:
    """Tables of before whose options hold secrets: one of a connector for each, and one of ours."""
    externals = ExternalTables(session.catalog)
    column = Column("id", parse_data_type("INT"))
    names = []
    for at, (name, value) in enumerate(SECRETS):
        table = CatalogTable(columns=(column,), options={"connector": "datagen", name: value})
        path = f"{session.catalog.root}/.lakewright/external/d/e{at}.json"
        session.catalog.fs.put_if_absent(path, json.dumps(table.to_json()).encode())
        names.append(f"d.e{at}")
    assert all(externals.has(each) for each in names)
    files = session.catalog.table("d.plain").table_files
    options: dict[str, str] = {}
    for at, (name, value) in enumerate(SECRETS):
        options[f"x{at}.{name}" if name in options else name] = value
    log = {"lakewright.log.system": "kafka", "lakewright.log.properties.sasl.password": "hunter2"}
    assert files.schemas.put_schema(
        replace(files.schema, id=1, options={**files.schema.options, **options, **log})
    )
    return names


def test_no_statement_shows_a_secret_that_a_table_has_kept(
    session: Session, kept: Sequence[str]
) -> None:
    for name in kept:
        (row,) = session.sql(f"SHOW CREATE TABLE {name}").rows.to_pylist()
        assert is_clean(row["statement"]), row
        assert "***" in row["statement"]
    for statement in (
        "SHOW CREATE TABLE plain",
        "DESCRIBE EXTENDED plain",
        "SELECT * FROM `plain$options`",
        "SELECT * FROM `plain$schemas`",
    ):
        shown = str(session.sql(statement).rows.to_pylist())
        assert is_clean(shown), statement
        assert "***" in shown


def test_a_table_that_keeps_a_secret_can_be_given_a_variable(
    session: Session, kept: Sequence[str]
) -> None:
    at = next(at for at, each in enumerate(SECRETS) if each[0] == "password")
    session.sql(f"ALTER TABLE e{at} SET ('number-of-rows' = '3')")
    with pytest.raises(InvalidOption, match="holds a secret"):
        session.sql(f"CREATE TABLE copy LIKE e{at}")
    # What was shown is no password.
    with pytest.raises(InvalidOption, match="holds a secret"):
        session.sql(f"ALTER TABLE e{at} SET ('password' = '***')")
    session.sql(f"ALTER TABLE e{at} SET ('password' = '${{env:PW}}')")
    assert "${env:PW}" in str(session.sql(f"SHOW CREATE TABLE e{at}").rows.to_pylist())


def test_no_command_shows_a_secret_that_a_table_has_kept(
    session: Session, kept: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*arguments: str) -> str:
        main(["--warehouse", session.catalog.uri, *arguments])
        return "".join(capsys.readouterr())

    for name in (kept[0], kept[-1], "d.plain"):
        for form in ((), ("--format", "json")):
            shown = said("show", name, *form)
            assert is_clean(shown)
            assert "***" in shown
    for arguments in (
        ("inspect", "d.plain", "options"),
        ("inspect", "d.plain", "schemas", "--format", "json"),
        ("diff", "d.plain", "0", "1"),
        ("alter", "d.plain", "--set", "x.password=hunter2", "--dry-run"),
    ):
        assert is_clean(said(*arguments)), arguments


def test_no_agent_is_answered_with_a_secret(session: Session, kept: Sequence[str]) -> None:
    server = server_of(WarehouseTools(session.catalog.read_only()))

    async def asked(tool: str, arguments: dict[str, object]) -> str:
        async with Client(server) as client:
            return str(await client.call_tool(tool, arguments))

    assert kept
    secret, harmless = {"set": ["y.password=hunter2"]}, {"set": ["y.z=1"]}
    for options, said in ((secret, "holds a secret"), (harmless, "y.z")):
        arguments = {"table": "d.plain", "verb": "alter", "options": options, "whole": True}
        answer = anyio.run(asked, "plan", arguments)
        assert is_clean(answer)
        assert said in answer


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("name", "value"), SECRETS, ids=range(len(SECRETS)))
def test_neither_the_ledger_nor_lineage_is_told_a_secret(
    session: Session, name: str, value: str
) -> None:
    catalog = session.catalog
    recorder = Recorder.of(catalog, warn=print, make=True)
    chosen = AlterOptions(table_comment=(f"{name}={value}",), no_comment=(f"{name}={value}",))
    with pytest.raises(StorageError):
        recorder.carry_out(ALTER, catalog.table("d.plain"), chosen, Work(run="x", session=exit))
    (action,) = Ledger(catalog).actions()
    assert action.error
    assert name in str(action.options)
    assert is_clean(action)
    assert is_clean(run_event(action, "s3://AKIA:hunt/er2@bucket/warehouse"))


# --- logs and errors ------------------------------------------------------------------------------


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("name", "value"), _ON_A_LINE, ids=_IDS)
def test_no_error_of_a_statement_shows_a_secret(session: Session, name: str, value: str) -> None:
    option = f"{quoted(name)} = {quoted(value)}"
    with pytest.raises(StorageError) as refused:
        session.sql(f"CREATE TABLE t (id INT) WITH ('connector' = 'x', {option}, oops)")
    assert is_clean(refused.value, refused.value.details)
    assert refused.value.details["excerpt"]
