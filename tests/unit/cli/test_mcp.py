"""`lakewright mcp`: agents ask about a warehouse, and can change nothing."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakewright.cli.mcp.server import Server
from lakewright.cli.mcp.warehouse_tools import INSTRUCTIONS, WarehouseTools
from lakewright.platform.upkeep.options import option_fields
from lakewright.platform.upkeep.verbs import VERBS
from lakewright.storage import Catalog
from tests.support.tables.builders import EVENTS, events, new_table, rows
from tests.unit.cli.conftest import Lakewright

POLICY = "warehouse:\n  mode: shadow\n  compaction: {min_bytes: 0 b, small_files: 3}\n"
Ask = Callable[..., Any]


@pytest.fixture
def ask(catalog: Catalog, tmp_path: Path) -> Ask:
    """`ask("health", table=…)`: what a tool answers about a warehouse with a table to compact."""
    table = new_table(catalog, EVENTS)
    for number in range(4):
        table.write(rows(table, events(number, number + 1)))
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    server = Server(WarehouseTools(catalog.read_only(), [policy]).tools(), INSTRUCTIONS)

    def called(tool: str, **arguments: object) -> Any:
        return request(server, "tools/call", {"name": tool, "arguments": arguments})["result"]

    return called


def request(server: Server, method: str, params: object = None) -> Any:
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    answer: Any = server.answer(json.dumps(message).encode())
    assert answer["id"] == 7
    return answer


def error_of(server: Server, line: bytes) -> Any:
    answer: Any = server.answer(line)
    return answer["error"]["code"]


def test_tools_that_live_long_follow_a_table_whose_partition_keys_change(
    catalog: Catalog, ask: Ask
) -> None:
    columns = {"day": "STRING NOT NULL", "id": "BIGINT NOT NULL", "v": "STRING"}
    options = {"bucket": "-1"}
    new_table(
        catalog, columns, name="db.k", partitions=["day"], keys=["day", "id"], options=options
    )
    for keys in (("day",), (), ("id",)):
        table = catalog.table("db.k")
        table.upkeep.respec(keys)
        table = catalog.table("db.k")
        for number in range(4):
            table.write(rows(table, events(number, number + 1)))
        answers = [ask(tool, table="db.k") for tool in ("health", "why", "policy")]
        assert not any(each.get("isError") for each in answers)
        worst = answers[0]["structuredContent"]["worst_partitions"]
        partitions = {tuple(each["spec"]) for each in worst}
        assert partitions == {keys}


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_a_client_gets_the_revision_that_it_asks_for(revision: str) -> None:
    answer = request(Server((), ""), "initialize", {"protocolVersion": revision})
    assert answer["result"]["protocolVersion"] == revision


def test_a_client_of_an_unknown_revision_is_told_which_ones_there_are() -> None:
    server = Server((), "")
    answer = request(server, "initialize", {"protocolVersion": "2031-01-01"})
    assert answer["result"]["protocolVersion"] == "2025-11-25"
    meta = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2031-01-01"}}
    assert "2026-07-28" in request(server, "tools/list", meta)["error"]["data"]["supported"]


def test_requests_that_are_wrong_have_an_error_and_notifications_no_answer(ask: Ask) -> None:
    server = Server((), "")
    assert error_of(server, b"{") == -32700
    assert error_of(server, b"[]") == -32600
    assert error_of(server, b'{"id": 1, "method": "tools/shed"}') == -32601
    assert error_of(server, b'{"id": 1, "method": "tools/call", "params": {}}') == -32602
    assert server.answer(b'{"method": "notifications/initialized"}') is None
    assert error_of(server, b'{"id": 1, "method": 5}') == -32600
    assert error_of(server, b'{"id": [1], "method": "ping"}') == -32600
    assert error_of(server, b"\xff\xfe{}") == -32700
    assert error_of(server, b'{"id": NaN, "method": "ping"}') == -32600
    for arguments in (
        {"limit": "many"},
        {"limit": True},
        {"limit": -1},
        {"limit": 10**30},
        {"tabel": "db.t"},
        {"table": "x" * 1_000_000},
    ):
        answer = ask("health", **arguments)
        assert answer["isError"], answer
        assert len(answer["content"][0]["text"]) <= 10_000
    assert "needs table" in ask("plan", verb="compact")["content"][0]["text"]
    assert "compact" in ask("plan", table="db.t", verb="shrink")["content"][0]["text"]


def test_no_plan_reads_outside_of_the_warehouse(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "s3cret.parquet").write_bytes(b"none")
    for verb in ("add_partitions", "repair_partitions"):
        answer = ask("plan", table="db.t", verb=verb, options={"folder": str(tmp_path)})
        assert answer["isError"]
        assert "leads out of the warehouse" in answer["content"][0]["text"]
        assert "s3cret" not in str(answer)


OF_OTHER_TYPES = (None, True, 1.5, -7, "ab", [5], [None], [["a"]], {"day": "a"}, [{"day": "a"}])


@pytest.mark.parametrize("verb", VERBS)
def test_options_of_other_types_are_refused_by_their_names(ask: Ask, verb: str) -> None:
    refused = 0
    for option in option_fields(VERBS[verb].options):
        for value in OF_OTHER_TYPES:
            answer = ask("plan", table="db.t", verb=verb, options={option.written_name: value})
            told = answer["content"][0]["text"]
            assert not told.startswith("unexpected"), (option.written_name, value, told)
            refused += answer["isError"] and option.written_name in told
    assert refused or not option_fields(VERBS[verb].options)


def test_a_text_in_place_of_a_list_is_not_read_letter_by_letter(ask: Ask) -> None:
    for verb, option in (("drop_partitions", "partitions"), ("sort_compact", "by")):
        answer = ask("plan", table="db.t", verb=verb, options={option: "ab"})
        assert answer["isError"]
        assert answer["content"][0]["text"] == f"{option} is the text 'ab'; give a list: ['ab']"


def test_no_line_ends_the_server() -> None:
    nested = b"[" * 100_000
    no_unicode = b'{"id": "\\ud800", "method": "tools/\\udfff"}'
    out = io.BytesIO()
    Server((), "").serve([nested, no_unicode, b'{"id": 2, "method": "ping"}'], out)
    first, second, third = map(json.loads, out.getvalue().splitlines())
    assert "nested" in first["error"]["message"]
    assert (second["id"], third["id"]) == ("\ud800", 2)


def test_why_tells_what_is_due_under_the_policies_and_why(ask: Ask) -> None:
    (compaction,) = [
        each
        for each in ask("why", table="db.t")["structuredContent"]["decisions"]
        if each["verb"] == "compact"
    ]
    assert compaction["state"] == "shadow"
    assert "4 small files ≥ 3" in compaction["reason"]
    settings = ask("policy", table="db.t")["structuredContent"]["settings"]
    (decided,) = [each for each in settings if each["setting"] == "compaction.small_files"]
    assert decided["decided"]["value"] == 3


def test_a_plan_is_the_one_that_the_command_takes(
    ask: Ask, catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    answer = ask("plan", table="db.t", verb="compact", options={"full": True}, whole=True)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(answer["structuredContent"]["plan"]))
    assert lakewright(catalog, "compact", "db.t", "--plan", str(plan)).code == 0
    assert ask("health", table="db.t")["structuredContent"]["files"]["files"] == 1


def test_no_tool_changes_a_file(ask: Ask, catalog: Catalog, lakewright: Lakewright) -> None:
    assert lakewright(catalog, "ledger", "--create").code == 0
    before = catalog.fs.list_tree(catalog.root)
    answers = {
        "health": ask("health"),
        "health of one": ask("health", table="db.t"),
        "why": ask("why"),
        "verbs": ask("verbs"),
        "ledger": ask("ledger"),
        "savings": ask("savings", by="verb"),
    }
    assert not [name for name, each in answers.items() if each["isError"]]
    for verb in VERBS:
        assert "unexpected" not in ask("plan", table="db.t", verb=verb)["content"][0]["text"]
    # The age of files is known by the clock of the store, which takes a file to read.
    refused = ask("plan", table="db.t", verb="remove_orphans")
    assert refused["isError"]
    assert "`lakewright remove-orphans db.t --dry-run`" in refused["content"][0]["text"]
    assert "Catalog.open" not in refused["content"][0]["text"]
    assert catalog.fs.list_tree(catalog.root) == before


def test_standard_output_has_the_messages_alone(tmp_path: Path) -> None:
    new_table(Catalog.open(str(tmp_path)), EVENTS)
    asked = [{"id": 1, "method": "initialize"}, {"id": 2, "method": "tools/call"}]
    asked[1]["params"] = {"name": "health"}
    ended = subprocess.run(
        [sys.executable, "-m", "lakewright.cli", "mcp", str(tmp_path)],
        input="\n".join(map(json.dumps, asked)),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [each["id"] for each in answers] == [1, 2]
    assert answers[1]["result"]["structuredContent"]["tables"] == 1
