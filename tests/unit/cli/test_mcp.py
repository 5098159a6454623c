"""`lakewright mcp`: agents ask about a warehouse, and can change nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent

from lakewright.cli import BROKEN_PIPE
from lakewright.cli.mcp.server import server_of
from lakewright.cli.mcp.warehouse_tools import WarehouseTools
from lakewright.platform.upkeep.procedures import PROCEDURES
from lakewright.storage import Catalog
from lakewright.storage.operations.running.verb_options import option_fields
from tests.support.tables.builders import EVENTS, events, new_table, rows
from tests.unit.cli.conftest import Lakewright

POLICY = "warehouse:\n  mode: shadow\n  compaction: {min_bytes: 0 b, small_files: 3}\n"
# The answer to a client after an unforeseen error.
CRASHED = "Error executing tool plan"
Ask = Callable[..., Any]


@pytest.fixture
def ask(catalog: Catalog, tmp_path: Path) -> Ask:
    """`ask("health", table=…)`: what a tool answers about a warehouse with a table to compact."""
    table = new_table(catalog, EVENTS)
    for number in range(4):
        table.write(rows(table, events(number, number + 1)))
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    server = server_of(WarehouseTools(catalog.read_only(), [policy]))

    def called(tool: str, **arguments: object) -> CallToolResult:
        async def asked() -> CallToolResult:
            async with Client(server) as client:
                return await client.call_tool(tool, arguments)

        return anyio.run(asked)

    return called


def text_of(answer: CallToolResult) -> str:
    (content,) = answer.content
    assert isinstance(content, TextContent)
    return content.text


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
        assert not any(each.is_error for each in answers)
        worst = answers[0].structured_content["worst_partitions"]
        partitions = {tuple(each["spec"]) for each in worst}
        assert partitions == {keys}


def test_arguments_that_are_wrong_are_refused_by_their_names(ask: Ask) -> None:
    for arguments in (
        {"limit": "many"},
        {"limit": True},
        {"limit": -1},
        {"limit": 10**30},
        {"tabel": "db.t"},
        {"table": "x" * 1_000_000},
    ):
        answer = ask("health", **arguments)
        assert answer.is_error, answer
        told = text_of(answer)
        assert next(iter(arguments)) in told
        assert len(told) <= 10_000
    assert "table" in text_of(ask("plan", verb="compact"))
    assert "there is no verb shrink; there are compact" in text_of(
        ask("plan", table="db.t", verb="shrink")
    )


def test_no_plan_reads_outside_of_the_warehouse(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "s3cret.parquet").write_bytes(b"none")
    for verb in ("add_partitions", "repair_partitions"):
        answer = ask("plan", table="db.t", verb=verb, options={"folder": str(tmp_path)})
        assert answer.is_error
        assert "leads out of the warehouse" in text_of(answer)
        assert "s3cret" not in str(answer)
    answer = ask("plan", table="db.t", verb="remove_orphans", options={"inventory": str(tmp_path)})
    assert "leads out of the warehouse" in text_of(answer)


OF_OTHER_TYPES = (None, True, 1.5, -7, "ab", [5], [None], [["a"]], {"day": "a"}, [{"day": "a"}])


@pytest.mark.parametrize("verb", PROCEDURES)
@pytest.mark.sampled(8)
def test_options_of_other_types_are_refused_by_their_names(ask: Ask, verb: str) -> None:
    refused = 0
    for option in option_fields(PROCEDURES[verb].options):
        for value in OF_OTHER_TYPES:
            answer = ask("plan", table="db.t", verb=verb, options={option.written_name: value})
            told = text_of(answer)
            assert told != CRASHED, (option.written_name, value, told)
            refused += answer.is_error and option.written_name in told
    assert refused or not option_fields(PROCEDURES[verb].options)


def test_a_text_in_place_of_a_list_is_not_read_letter_by_letter(ask: Ask) -> None:
    for verb, option in (("drop_partitions", "partitions"), ("sort_compact", "by")):
        answer = ask("plan", table="db.t", verb=verb, options={option: "ab"})
        assert answer.is_error
        assert text_of(answer) == f"{option} is the text 'ab'; give a list: ['ab']"


def test_why_tells_what_is_due_under_the_policies_and_why(ask: Ask) -> None:
    (compaction,) = [
        each
        for each in ask("why", table="db.t").structured_content["decisions"]
        if each["verb"] == "compact"
    ]
    assert compaction["state"] == "shadow"
    assert "4 small files ≥ 3" in compaction["reason"]
    settings = ask("policy", table="db.t").structured_content["settings"]
    (decided,) = [each for each in settings if each["setting"] == "compaction.small_files"]
    assert decided["decided"]["value"] == 3


def test_a_plan_is_the_one_that_the_command_takes(
    ask: Ask, catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    answer = ask("plan", table="db.t", verb="compact", options={"full": True}, whole=True)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(answer.structured_content["plan"]))
    lakewright(catalog, "compact", "db.t", "--plan", str(plan))
    assert ask("health", table="db.t").structured_content["files"]["files"] == 1


def test_no_tool_changes_a_file(ask: Ask, catalog: Catalog, lakewright: Lakewright) -> None:
    lakewright(catalog, "ledger", "--create")
    before = catalog.fs.list_tree(catalog.root)
    answers = {
        "health": ask("health"),
        "health of one": ask("health", table="db.t"),
        "why": ask("why"),
        "verbs": ask("verbs"),
        "ledger": ask("ledger"),
        "savings": ask("savings", by="verb"),
    }
    assert not [name for name, each in answers.items() if each.is_error]
    for verb in PROCEDURES:
        assert text_of(ask("plan", table="db.t", verb=verb)) != CRASHED
    # The age of files is known by the clock of the store, which takes a file to read.
    refused = ask("plan", table="db.t", verb="remove_orphans")
    assert refused.is_error
    assert "`lakewright remove-orphans db.t --dry-run`" in text_of(refused)
    assert "Catalog.open" not in text_of(refused)
    assert catalog.fs.list_tree(catalog.root) == before


def test_the_command_answers_a_client_on_its_standard_input_and_output(tmp_path: Path) -> None:
    new_table(Catalog.open(str(tmp_path)), EVENTS)
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "lakewright.cli", "mcp", str(tmp_path)],
        env={**os.environ},
    )

    async def asked() -> tuple[list[str], CallToolResult]:
        async with Client(command) as client:
            tools = await client.list_tools()
            return [each.name for each in tools.tools], await client.call_tool("health", {})

    names, answer = anyio.run(asked)
    assert names == ["health", "why", "policy", "verbs", "plan", "ledger", "savings"]
    assert answer.structured_content["tables"] == 1


def test_an_agent_that_ends_before_its_answer_ends_the_server_without_a_traceback(
    catalog: Catalog,
) -> None:
    new_table(catalog, EVENTS)
    agent = {"name": "a", "version": "1"}
    begin = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": agent}
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        *({"jsonrpc": "2.0", "id": number, "method": "tools/list"} for number in range(2, 6)),
    ]
    command = [sys.executable, "-m", "lakewright.cli", "mcp", catalog.root]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        server.stdin.write(json.dumps(asked[0]) + "\n")
        server.stdin.flush()
        server.stdout.readline()
        server.stdout.close()
        with suppress(BrokenPipeError):
            server.stdin.write("".join(json.dumps(each) + "\n" for each in asked[1:]))
            server.stdin.close()
        told = server.stderr.read()
    assert (server.returncode, "Traceback" in told) == (BROKEN_PIPE, False)
