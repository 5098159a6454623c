"""The server: the questions of `WarehouseTools` as tools of the Model Context Protocol."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from functools import wraps

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations

from lakewright import __version__
from lakewright.cli.mcp.warehouse_tools import INSTRUCTIONS, WarehouseTools
from lakewright.storage.errors import StorageError
from lakewright.storage.secret_texts import shown_value

_MOST_CHARACTERS = 400_000
# A message may repeat what was asked.
_MOST_OF_AN_ERROR = 10_000
_ONLY_READS = ToolAnnotations(
    readOnlyHint=True, destructiveHint=False, idempotentHint=True, openWorldHint=False
)

_Answer = Callable[..., Mapping[str, object]]


def server_of(warehouse: WarehouseTools) -> MCPServer:
    """A server that answers about one warehouse, one request after the other."""
    return MCPServer(
        "lakewright",
        title="Lakewright",
        version=__version__,
        instructions=INSTRUCTIONS,
        tools=[_tool(name, answer) for name, answer in warehouse.questions().items()],
        log_level="WARNING",
    )


def _tool(name: str, answer: _Answer) -> Tool:
    # A function that is not `async` would be called by several threads at once.
    @wraps(answer)
    async def called(**arguments: object) -> CallToolResult:
        return _result(answer, arguments)

    made = Tool.from_function(
        called,
        name=name,
        description=inspect.getdoc(answer),
        annotations=_ONLY_READS,
        structured_output=False,
    )
    # A misspelt argument is refused: without it, the answer would be to another question.
    model = made.fn_metadata.arg_model
    model.model_config["extra"] = "forbid"
    model.model_rebuild(force=True)
    made.parameters = model.model_json_schema(by_alias=True)
    return made


def _result(answer: _Answer, arguments: Mapping[str, object]) -> CallToolResult:
    try:
        value = answer(**arguments)
    except StorageError as error:
        # An agent reads this and can ask again.
        return _refused(error.message[:_MOST_OF_AN_ERROR])
    # Names in a table need not be Unicode, and messages are.
    text = json.dumps(shown_value(value), ensure_ascii=False).encode(errors="replace").decode()
    if len(text) > _MOST_CHARACTERS:
        return _refused(
            f"the answer has {len(text):,} characters, and {_MOST_CHARACTERS:,} are the most; "
            "ask for one table, a shorter time or a smaller limit"
        )
    return CallToolResult(content=[_text(text)], structured_content=json.loads(text))


def _refused(text: str) -> CallToolResult:
    return CallToolResult(content=[_text(text)], is_error=True)


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text.encode(errors="replace").decode())
