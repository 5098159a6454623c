"""A catalog behind a server of Paimon's REST protocol: names, commits, schemas, and failures."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import (
    AddColumn,
    Catalog,
    ChangeComment,
    ChangeDefault,
    ChangeNullability,
    ChangeTableComment,
    ChangeType,
    DropColumn,
    MoveColumn,
    Position,
    RenameColumn,
    ResetOption,
    SetOption,
    Side,
    Table,
)
from lakewright.storage.errors import (
    AccessRefused,
    AlreadyExistsError,
    CommitOutcomeUnknownError,
    CredentialsMissing,
    DatabaseNotFound,
    InvalidRequestError,
    NotFoundError,
    NotWritten,
    RetriesExhausted,
    SchemaMoved,
    StorageError,
    TableNotFound,
    UnavailableError,
    UnsupportedError,
)
from lakewright.storage.files.rest_names import RestNames
from lakewright.storage.files.rest_tokens import TableTokens
from tests.support.stores.rest_server import TOKEN, WAREHOUSE, Fault, RestCatalogServer
from tests.support.tables.builders import (
    EVENTS,
    compact,
    content,
    events,
    expire,
    new_table,
    remove_orphans,
    rows,
)
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import check_all_tables


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestCatalogServer]:
    with RestCatalogServer(tmp_path / "lake").running() as running:
        yield running


@pytest.fixture
def catalog(server: RestCatalogServer) -> Iterator[Catalog]:
    opened = reopened(server)
    yield opened
    check_all_tables(opened, raced=True)


def reopened(server: RestCatalogServer, **open_with: Any) -> Catalog:
    return Catalog.open(WAREHOUSE, options=server.options, durable=False, **open_with)


def filled(catalog: Catalog, commits: int = 1, **spec: Any) -> Table:
    table = new_table(catalog, EVENTS, keys=["id"], **spec)
    for number in range(commits):
        table.write(rows(table, events(number, number + 1)))
    return table


def paths_of(table: Table) -> set[str]:
    root = Path(table.table_files.paths.root)
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_databases_and_tables_are_the_servers_page_by_page(
    catalog: Catalog, server: RestCatalogServer
) -> None:
    names = [f"t{number}" for number in range(server.page * 2 + 1)]
    for name in reversed(names):
        new_table(catalog, EVENTS, name=f"db.{name}")
    for number in range(server.page):
        catalog.create_database(f"d{number}")
    server.requests.clear()
    assert catalog.list_databases() == ("d0", "d1", "d2", "db")
    assert server.counted("GET .*/databases$") == 2
    assert catalog.list_tables("db") == tuple(names)
    # Tables and materialized tables, each to the last page.
    assert server.counted("/tables$") == 3 + 1
    with pytest.raises(DatabaseNotFound, match="no database nowhere"):
        catalog.list_tables("nowhere")
    with pytest.raises(TableNotFound, match=r"no table db\.other .*tables of db: t0, t1"):
        catalog.table("db.other")
    with pytest.raises(AlreadyExistsError, match="409"):
        new_table(catalog, EVENTS, name="db.t0")
    assert catalog.create_table("db.t0", EVENTS, if_not_exists=True).name == "db.t0"
    with pytest.raises(InvalidRequestError, match=r"db is not empty: t0, t1"):
        catalog.drop_database("db")
    for name in names:
        catalog.drop_table(f"db.{name}")
    assert not catalog.drop_table("db.t0", if_exists=True).existed
    catalog.drop_database("db")
    assert catalog.list_databases() == ("d0", "d1", "d2")
    assert not Path(server.folder, "db.db").exists()


def test_a_server_that_never_comes_to_the_last_page_is_told_so(
    catalog: Catalog, server: RestCatalogServer
) -> None:
    for number in range(server.page + 1):
        catalog.create_database(f"d{number}")
    server.forgets_pages = True
    with pytest.raises(UnavailableError, match="names a page of databases twice"):
        catalog.list_databases()
    server.forgets_pages = False


def test_a_renamed_table_keeps_its_rows_and_a_writer_of_the_old_name_is_told(
    catalog: Catalog, server: RestCatalogServer
) -> None:
    table = filled(catalog, 2)
    catalog.create_database("other")
    renamed = catalog.rename_table("db.t", "other.u")
    assert len(content(renamed)) == 2
    assert not catalog.table_exists("db.t")
    with pytest.raises(NotFoundError, match=r"db\.t"):
        table.write(rows(table, events(5, 6)))
    compact(renamed, full=True)
    for name, error in (("other.u", AlreadyExistsError), ("nowhere.u", DatabaseNotFound)):
        new_table(catalog, EVENTS, name="db.v")
        with pytest.raises(error):
            catalog.rename_table("db.v", name)
        catalog.drop_table("db.v")


def test_each_commit_is_made_by_the_server_on_the_uuid_of_the_one_before(
    catalog: Catalog, server: RestCatalogServer
) -> None:
    table = new_table(catalog, EVENTS, partitions=["day"])
    table.write(rows(table, events(0, 3)))
    table.write(rows(table, [*events(3, 4), *events(4, 6, day=None)]))
    held = server.tables["db", "t"]
    found = [
        json.loads(Path(f"{held.path}/snapshot/snapshot-{number}").read_text()) for number in (1, 2)
    ]
    assert all(each["uuid"] for each in found)
    assert found[1] == held.snapshot
    told = [(each["spec"], each["recordCount"], each["fileCount"]) for each in held.statistics]
    assert told == [
        ({"day": "a"}, 3, 1),
        ({"day": "a"}, 1, 1),
        ({"day": "__DEFAULT_PARTITION__"}, 2, 1),
    ]
    table.delete("day = 'a'")
    of_day = [each for each in held.statistics if each["spec"]["day"] == "a"]
    names = ("recordCount", "fileCount", "fileSizeInBytes")
    assert [sum(each[name] for each in of_day) for name in names] == [0, 0, 0]


def test_every_verb_of_upkeep_works_and_leaves_what_it_should(
    catalog: Catalog, server: RestCatalogServer
) -> None:
    table = filled(catalog, 6, options={"changelog-producer": "input"})
    due = content(table)
    table.history.create_tag("kept", snapshot=2)
    compact(table, full=True)
    assert len(expire(table).expired) == 6
    (Path(table.table_files.paths.root) / "bucket-0" / "data-lost-0.parquet").write_bytes(b"x")
    assert remove_orphans(table).files_deleted == 1
    assert len(content(table.at(tag="kept"))) == 2
    table.upkeep.rewrite_manifests()
    _write(table, 50)
    table.history.revert(table.history.snapshots()[-1].id)
    table.history.delete_tags("kept", grace_ms=0)
    expire(table)
    remove_orphans(table)
    assert content(table) == due == content(reopened(server).table("db.t"))
    latest = server.tables["db", "t"].snapshot
    assert latest is not None
    assert latest["id"] == table.history.snapshots()[-1].id


@pytest.mark.parametrize(
    "verb",
    [
        pytest.param(lambda t: t.history.rollback(snapshot=1, grace_ms=0), id="rollback"),
        pytest.param(lambda t: t.history.create_branch("b"), id="branch"),
        pytest.param(lambda t: t.upkeep.respec(["day"]), id="respec"),
    ],
)
def test_what_the_server_answers_for_is_refused_before_anything_is_written(
    catalog: Catalog, verb: Any
) -> None:
    table = new_table(catalog, EVENTS)
    for number in range(2):
        table.write(rows(table, events(number, number + 1)))
    before = paths_of(table)
    with pytest.raises(UnsupportedError, match=r"db\.t is a table of a REST catalog"):
        verb(table)
    assert paths_of(table) == before


def test_schemas_change_through_the_server_and_come_out_as_asked(
    catalog: Catalog, server: RestCatalogServer
) -> None:
    columns = {**EVENTS, "r": "ROW<a INT, b ARRAY<ROW<c INT>>>"}
    table = new_table(catalog, columns, options={"my.note": "x"})
    table.write(rows(table, [{"id": 1, "r": {"a": 1, "b": [{"c": 2}]}}]))
    table = table.alter(
        RenameColumn("v", "text"),
        AddColumn("n", "INT", comment="a count", position=Position(Side.AFTER, "id")),
        AddColumn("r.d", "STRING", position=Position(Side.FIRST)),
        AddColumn("r.f", "STRING", position=Position(Side.AFTER, "a")),
        ChangeType("r.a", "BIGINT"),
        RenameColumn("r.b.element.c", "e"),
        ChangeType("r.b.element.e", "BIGINT"),
        ChangeNullability("day", True),
        ChangeComment("day", "of the event"),
        ChangeDefault("n", "7"),
        SetOption("snapshot.num-retained.min", "3"),
        ResetOption("my.note"),
        ChangeTableComment("what happened"),
        MoveColumn("day", Position(Side.LAST)),
    )
    assert table.schema.id == 1
    assert table.schema.field_names == ("id", "n", "text", "r", "day")
    assert content(table)[0].count("2") >= 1
    table = table.alter(DropColumn("text"))
    assert server.tables["db", "t"].schemas[-1]["id"] == table.schema.id == 2
    before = len(server.tables["db", "t"].schemas)
    with pytest.raises(UnsupportedError, match="members of r keep their order in a REST catalog"):
        table.alter(MoveColumn("r.a", Position(Side.LAST)))
    with pytest.raises(UnsupportedError, match="branch"):
        replace_paths(table)
    assert len(server.tables["db", "t"].schemas) == before


def replace_paths(table: Table) -> None:
    files = table.table_files
    branch = replace(files, paths=replace(files.paths, branch="b"))
    branch.schemas.put_schema(replace(files.schema, id=9))


def test_of_commits_at_the_same_time_each_is_made_once(server: RestCatalogServer) -> None:
    filled(reopened(server), 0)

    def work(worker: int) -> None:
        table = reopened(server).table("db.t")
        for number in range(5):
            table.write(rows(table, events(worker * 10 + number, worker * 10 + number + 1)))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    table = reopened(server).table("db.t")
    assert len(content(table)) == 15
    assert [each.id for each in table.history.snapshots()] == list(range(1, 16))
    check_all_tables(reopened(server), raced=True)


def test_a_commit_that_loses_its_race_comes_after_the_other(
    catalog: Catalog, server: RestCatalogServer
) -> None:
    table = filled(catalog)
    other = reopened(server).table("db.t")
    first = Fault("POST", "/commit$", meanwhile=lambda: _write(other, 7))
    server.faults.append(first)
    table.write(rows(table, events(8, 9)))
    assert len(content(table)) == 3
    assert server.counted("/commit$") == 4


def _write(table: Table, number: int) -> None:
    table.write(rows(table, events(number, number + 1)))


@pytest.mark.parametrize("code", [None, 500, 503], ids=["cut", "500", "503"])
def test_a_commit_whose_answer_is_lost_is_found_in_the_table_and_made_once(
    catalog: Catalog, server: RestCatalogServer, code: int | None
) -> None:
    table = filled(catalog)
    server.faults.append(Fault("POST", "/commit$", after=True, code=code))
    _write(table, 5)
    assert [each.id for each in table.history.snapshots()] == [1, 2]
    assert len(content(table)) == 2


def test_a_server_that_dies_before_the_commit_leaves_all_files_for_a_late_one(
    catalog: Catalog, server: RestCatalogServer
) -> None:
    """The request may still be on its way: what the snapshot would name must be there."""
    table = filled(catalog)
    server.faults.append(Fault("POST", "/commit$"))
    before = paths_of(table)
    with pytest.raises(CommitOutcomeUnknownError, match=r"did not answer POST .*look for commit"):
        _write(table, 5)
    assert {path.split("/")[0] for path in paths_of(table) - before} >= {"bucket-0", "manifest"}
    assert len(content(table)) == 1
    remove_orphans(table)


@pytest.mark.parametrize("code", [400, 401, 403, 404, 501])
def test_a_commit_that_the_server_refuses_leaves_nothing(
    catalog: Catalog, server: RestCatalogServer, code: int
) -> None:
    table = filled(catalog)
    before = paths_of(table)
    server.faults.append(Fault("POST", "/commit$", code=code))
    with pytest.raises(NotWritten, match=f"snapshot 2 of db.t was not made: .* with {code}"):
        _write(table, 5)
    left = {path for path in paths_of(table) - before if not path.startswith("bucket-")}
    assert not left
    remove_orphans(table)
    _write(table, 6)


def test_a_busy_server_is_asked_again(catalog: Catalog, server: RestCatalogServer) -> None:
    table = filled(catalog)
    server.faults += [
        Fault("POST", "/commit$", code=503, times=2),
        Fault("GET", "/snapshot$", times=1),
        Fault("GET", "/tables/t$", code=429),
    ]
    _write(table, 5)
    assert len(content(reopened(server).table("db.t"))) == 2
    assert not server.faults


def test_a_server_that_is_always_busy_is_given_up(
    catalog: Catalog, server: RestCatalogServer, env: FixedEnv
) -> None:
    filled(catalog)
    catalog = reopened(server, env=env)
    server.faults.append(Fault("GET", "/tables/t$", code=503, times=4))
    with pytest.raises(UnavailableError, match="with 503: out of order; the server's own log"):
        catalog.table("db.t")
    assert not server.faults
    assert len(env.slept_ms) == 3


def test_rows_that_an_alter_of_that_moment_rules_out_are_told_and_their_files_stay(
    catalog: Catalog, server: RestCatalogServer
) -> None:
    options = {"alter-column-null-to-not-null.disabled": "false"}
    table = new_table(catalog, EVENTS, options=options)
    table.write(rows(table, events(0, 1)))
    other = reopened(server).table("db.t")
    alter = Fault(
        "POST", "/commit$", meanwhile=lambda: other.alter(ChangeNullability("v", False)) and None
    )
    server.faults.append(alter)
    with pytest.raises(CommitOutcomeUnknownError, match=r"snapshot 2 of db\.t is committed, and"):
        table.write(rows(table, [{"id": 1, "day": "a"}]))
    assert [each.id for each in table.history.snapshots()] == [1, 2]
    # What the message says helps.
    catalog.table("db.t").history.revert(2)
    assert len(content(catalog.table("db.t"))) == 1


def test_of_two_alters_at_the_same_time_the_later_is_told(
    catalog: Catalog, server: RestCatalogServer
) -> None:
    table, other = filled(catalog), reopened(server).table("db.t")
    server.faults.append(
        Fault("POST", "/tables/t$", meanwhile=lambda: other.alter(AddColumn("w", "INT")) and None)
    )
    with pytest.raises(SchemaMoved, match=r"schema 1 .* is not the one that was asked for"):
        table.alter(AddColumn("x", "INT"))
    assert catalog.table("db.t").schema.field_names == ("id", "day", "v", "w", "x")
    with pytest.raises(SchemaMoved, match="another client changed"):
        table.alter(AddColumn("y", "INT"))


def test_a_table_that_was_dropped_and_made_anew_takes_no_commit_of_before(
    catalog: Catalog, server: RestCatalogServer
) -> None:
    table = filled(catalog)
    catalog.drop_table("db.t")
    anew = filled(catalog)
    with pytest.raises(StorageError, match="another table has the name now"):
        _write(table, 9)
    assert len(content(anew)) == 1
    remove_orphans(anew)


def test_an_external_table_is_committed_to_by_its_files_and_outlives_its_drop(
    catalog: Catalog, server: RestCatalogServer, tmp_path: Path
) -> None:
    catalog.create_database("db")
    fields = [{"id": 0, "name": "id", "type": "BIGINT"}]
    schema = {"fields": fields, "options": {"path": f"file:{tmp_path}/there", "bucket": "-1"}}
    server._create("db", "far", schema)
    far = catalog.table("db.far")
    far.write(rows(far, [{"id": 1}]))
    assert server.counted("/commit$") == 0
    assert catalog.drop_table("db.far").stays == (f"file://{tmp_path}/there",)
    assert (tmp_path / "there/snapshot/snapshot-1").exists()


def test_tables_of_other_kinds_are_not_listed_and_not_opened(
    catalog: Catalog, server: RestCatalogServer
) -> None:
    new_table(catalog, EVENTS)
    fields = [{"id": 0, "name": "id", "type": "BIGINT"}]
    server._create("db", "plain", {"fields": fields, "options": {"type": "format-table"}})
    kept = {"fields": fields, "options": {"type": "materialized-table"}}
    server._create("db", "kept", kept)
    assert catalog.list_tables("db") == ("kept", "t")
    assert catalog.table("db.kept").history.snapshots() == ()
    with pytest.raises(UnsupportedError, match=r"db\.plain is a format-table in the REST catalog"):
        catalog.table("db.plain")
    with pytest.raises(UnsupportedError, match="a table of plain files in a REST catalog"):
        catalog.create_format_table("db.csv", EVENTS)
    with pytest.raises(InvalidRequestError, match="db is not empty: kept, plain, t"):
        catalog.drop_database("db")
    catalog.drop_table("db.plain")


def test_what_is_read_only_changes_nothing(catalog: Catalog, server: RestCatalogServer) -> None:
    table = filled(catalog)
    reader = catalog.read_only()
    assert content(reader.table("db.t")) == content(table)
    server.requests.clear()
    for change in (
        lambda: reader.table("db.t").write(rows(table, events(3, 4))),
        lambda: reader.table("db.t").alter(AddColumn("w", "INT")),
        lambda: reader.drop_table("db.t"),
        lambda: reader.create_database("d"),
        lambda: reader.create_table("db.u", EVENTS),
        lambda: reader.rename_table("db.t", "db.u"),
    ):
        with pytest.raises(InvalidRequestError, match="read only"):
            change()
    assert not server.counted("POST|DELETE")


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"token": "wrong"}, AccessRefused, "with 401: .*LAKEWRIGHT_CATALOG_TOKEN"),
        ({"token": ""}, CredentialsMissing, "needs a token; set LAKEWRIGHT_CATALOG_TOKEN"),
        ({"token.provider": "dlf"}, UnsupportedError, "signed requests of Alibaba's DLF"),
        ({"dlf.region": "x"}, UnsupportedError, "signed requests of Alibaba's DLF"),
        ({"uri": "http://me:pw@127.0.0.1:1"}, InvalidRequestError, "not of the form https"),
        ({"uri": "127.0.0.1:1"}, InvalidRequestError, "not of the form https"),
        ({"uri": ""}, InvalidRequestError, "metastore rest and a uri"),
        ({"uri": "http://127.0.0.1:1"}, UnavailableError, "cannot be reached: .*refused"),
    ],
)
def test_a_catalog_that_cannot_be_opened_says_why(
    server: RestCatalogServer,
    monkeypatch: pytest.MonkeyPatch,
    env: FixedEnv,
    given: dict[str, str],
    error: type[StorageError],
    said: str,
) -> None:
    monkeypatch.delenv("LAKEWRIGHT_CATALOG_TOKEN", raising=False)
    with pytest.raises(error, match=said) as failure:
        # A warehouse for which no token was given in this process.
        Catalog.open("other", options={**server.options, **given}, env=env)
    assert TOKEN not in str(failure.value)
    assert "pw" not in str(failure.value)


def test_variables_open_it_and_a_web_address_as_warehouse_says_which(
    server: RestCatalogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(reopened(server))
    monkeypatch.setenv("LAKEWRIGHT_CATALOG_METASTORE", "rest")
    monkeypatch.setenv("LAKEWRIGHT_CATALOG_URI", server.address)
    monkeypatch.setenv("LAKEWRIGHT_CATALOG_TOKEN", TOKEN)
    assert Catalog.open(WAREHOUSE).list_tables("db") == ("t",)
    with pytest.raises(
        InvalidRequestError,
        match=r"set LAKEWRIGHT_CATALOG_METASTORE=rest, LAKEWRIGHT_CATALOG_URI .*_TOKEN",
    ):
        Catalog.open(server.address)


def test_no_token_is_shown_logged_written_or_pickled(
    catalog: Catalog, server: RestCatalogServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    table = filled(catalog, 2)
    assert TOKEN.encode() not in pickle.dumps(table.table_files)
    shown = repr(catalog) + repr(table.table_files.server) + caplog.text
    assert TOKEN not in shown
    server.faults.append(Fault("GET", "/databases$", code=403))
    with pytest.raises(AccessRefused) as failure:
        catalog.list_databases()
    assert TOKEN not in repr(failure.value)
    # This server repeats what it was sent.
    with pytest.raises(AccessRefused, match="the token") as unknown:
        Catalog.open("other", options={**server.options, "token": "one-that-is-unknown"})
    assert "one-that-is-unknown" not in repr(unknown.value)
    root = Path(table.table_files.paths.root)
    files = [path for path in root.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if TOKEN.encode() in path.read_bytes()]


def test_a_server_that_sends_a_client_elsewhere_gets_no_token_there(
    server: RestCatalogServer, catalog: Catalog, tmp_path: Path
) -> None:
    with RestCatalogServer(tmp_path / "elsewhere").running() as other:
        sent = Fault("GET", "/databases$", code=302, location=f"{other.address}/v1/config")
        server.faults.append(sent)
        with pytest.raises(UnavailableError, match="with 302"):
            catalog.list_databases()
        assert other.requests == []


def test_a_tables_token_is_renewed_before_it_expires(tmp_path: Path, env: FixedEnv) -> None:
    with RestCatalogServer(tmp_path, config={"data-token.enabled": "true"}).running() as server:
        given = iter(range(100))
        life_ms = 10 * 3_600_000

        def token() -> tuple[dict[str, str], int]:
            number = next(given)
            return (
                {"s3.access-key": f"key{number}", "s3.secret-key": "s", "fs.s3a.endpoint": "e"},
                env.now_ms() + life_ms,
            )

        server.token = token
        catalog = reopened(server, env=env)
        filled(catalog)
        assert isinstance(catalog.listed, RestNames)
        tokens = TableTokens(catalog.listed.server, "db", "t")
        assert dict(tokens.options()) == {"key": "key0", "secret": "s", "endpoint_url": "e"}
        env.clock.advance(life_ms - 3_660_000)
        assert tokens.options()["key"] == "key0"
        env.clock.advance(120_000)
        assert tokens.options()["key"] == "key1"
        assert "secret" not in repr(tokens)
        # One of a short life is used for half of it.
        life_ms = 60_000
        env.clock.advance(10 * 3_600_000)
        assert tokens.options()["key"] == "key2"
        env.clock.advance(29_000)
        assert tokens.options()["key"] == "key2"
        env.clock.advance(2_000)
        assert tokens.options()["key"] == "key3"
        server.token = lambda: ({"fs.oss.accessKeyId": "k"}, env.now_ms() + life_ms)
        env.clock.advance(60_000)
        with pytest.raises(UnsupportedError, match=r"is not one for S3: it has fs\.oss\."):
            tokens.options()


def test_a_commit_gives_up_as_everywhere_if_it_always_loses(
    catalog: Catalog, server: RestCatalogServer
) -> None:
    table = filled(catalog, options={"commit.max-retries": "1"})
    other = reopened(server).table("db.t")
    server.faults.append(
        Fault("POST", "/commit$", meanwhile=_once_each(other), times=3),
    )
    with pytest.raises(RetriesExhausted):
        _write(table, 50)
    remove_orphans(table)


def _once_each(table: Table) -> Any:
    state = {"busy": False}

    def meanwhile() -> None:
        # The other commit meets the fault, too.
        if not state["busy"]:
            state["busy"] = True
            _write(table, 60)
            state["busy"] = False

    return meanwhile
