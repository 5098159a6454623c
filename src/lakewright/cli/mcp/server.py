"""The protocol: JSON-RPC messages, one a line, from standard input to standard output.

Only what tools need of the Model Context Protocol is spoken: the handshake of the revisions before
2026-07-28, `server/discover` of that one, `ping`, `tools/list` and `tools/call`. Requests are
answered one after the other.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from lakewright import __version__
from lakewright.cli.mcp.tools import Tool, Value
from lakewright.storage.errors import StorageError

# Revisions that begin with `initialize`, oldest first.
_WITH_HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
# The revision in which each request names its revision.
_BY_REQUEST = "2026-07-28"
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_SERVER_KEY = "io.modelcontextprotocol/serverInfo"
_MOST_CHARACTERS = 400_000
# A message may repeat what was asked.
_MOST_OF_AN_ERROR = 10_000

_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600
_METHOD_NOT_FOUND = -32601
_INVALID_PARAMS = -32602
_UNSUPPORTED_VERSION = -32022


class _RpcError(Exception):
    """A request that cannot be answered, with the code that JSON-RPC has for that."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.error: dict[str, object] = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data


@dataclass(frozen=True, slots=True)
class Server:
    """Answers requests about tools; `instructions` tell an agent what the tools are for."""

    tools: Sequence[Tool]
    instructions: str

    def serve(self, lines: Iterable[bytes], out: IO[bytes]) -> None:
        """Answer each line, until there are no more."""
        for line in lines:
            if not line.strip():
                continue
            answer = self.answer(line)
            if answer is not None:
                # Names need not be Unicode; what is none is escaped, as JSON has it too.
                text = json.dumps(answer, ensure_ascii=False)
                out.write(text.encode(errors="backslashreplace") + b"\n")
                out.flush()

    def answer(self, line: bytes) -> object:
        """The answer to a message or a batch of them; None if none is due."""
        try:
            message = json.loads(line.decode())
        except ValueError as error:
            return _failed(None, _RpcError(_PARSE_ERROR, f"a line is not JSON: {error}"))
        except RecursionError:
            return _failed(None, _RpcError(_PARSE_ERROR, "a line is nested too deeply"))
        if isinstance(message, list) and message:
            answers = [self._answer_one(each) for each in message]
            return [each for each in answers if each is not None] or None
        return self._answer_one(message)

    def _answer_one(self, message: object) -> Value | None:
        if not isinstance(message, dict):
            return _failed(None, _RpcError(_INVALID_REQUEST, "a message is a JSON object"))
        number, method = message.get("id"), message.get("method")
        if number is None or "method" not in message:
            # A notification, or an answer to a question that was never asked.
            return None
        if not isinstance(method, str) or not isinstance(number, str | int):
            told = "id is a text or a whole number, and method is a text"
            return _failed(None, _RpcError(_INVALID_REQUEST, told))
        params = message.get("params") or {}
        try:
            if not isinstance(params, dict):
                raise _RpcError(_INVALID_PARAMS, "params is a JSON object")
            result = self._result(method, params)
        except _RpcError as error:
            return _failed(number, error)
        return {"jsonrpc": "2.0", "id": number, "result": result}

    def _result(self, method: str, params: Value) -> Value:
        methods: dict[str, Callable[[Value], Value]] = {
            "initialize": self._initialized,
            "server/discover": lambda _: self._discovered(),
            "ping": lambda _: {},
            "tools/list": lambda _: {"tools": [each.described() for each in self.tools]},
            "tools/call": self._called,
        }
        answer = methods.get(method)
        if answer is None:
            raise _RpcError(
                _METHOD_NOT_FOUND, f"{method} is not known; there are {', '.join(methods)}"
            )
        by_request = _asked_revision(params)
        result = answer(params)
        if not by_request:
            return result
        told = {"resultType": "complete", "_meta": {_SERVER_KEY: _about_us()}, **result}
        # What a client may keep: nothing, and for itself alone.
        return told if method == "tools/call" else {"ttlMs": 0, "cacheScope": "private", **told}

    def _initialized(self, params: Value) -> Value:
        asked = params.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in _WITH_HANDSHAKE else _WITH_HANDSHAKE[-1],
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": _about_us(),
            "instructions": self.instructions,
        }

    def _discovered(self) -> Value:
        return {
            "supportedVersions": [*_WITH_HANDSHAKE, _BY_REQUEST],
            "capabilities": {"tools": {}},
            "instructions": self.instructions,
        }

    def _called(self, params: Value) -> Value:
        name, arguments = params.get("name"), params.get("arguments") or {}
        tool = next((each for each in self.tools if each.name == name), None)
        if tool is None:
            names = ", ".join(each.name for each in self.tools)
            raise _RpcError(_INVALID_PARAMS, f"there is no tool {name}; there are {names}")
        if not isinstance(arguments, dict):
            raise _RpcError(_INVALID_PARAMS, "arguments is a JSON object")
        try:
            value = tool.call(arguments)
        except StorageError as error:
            # An agent reads this and can ask again.
            return _text(error.message[:_MOST_OF_AN_ERROR], is_error=True)
        except Exception as error:  # noqa: BLE001 - the server outlives any question
            traceback.print_exc(file=sys.stderr)
            return _text(f"unexpected: {type(error).__name__}: {error}", is_error=True)
        text = json.dumps(value, ensure_ascii=False)
        if len(text) > _MOST_CHARACTERS:
            return _text(
                f"the answer has {len(text):,} characters, and {_MOST_CHARACTERS:,} are the most; "
                "ask for one table, a shorter time or a smaller limit",
                is_error=True,
            )
        return {**_text(text), "structuredContent": value}


def _asked_revision(params: Value) -> bool:
    """Whether a request names its own revision, which only the latest does.

    Raises:
        _RpcError: it names one that is not known here.
    """
    meta = params.get("_meta")
    asked = meta.get(_VERSION_KEY) if isinstance(meta, Mapping) else None
    if asked is None:
        return False
    if asked != _BY_REQUEST:
        raise _RpcError(
            _UNSUPPORTED_VERSION,
            f"revision {asked} is not known",
            {"supported": [*_WITH_HANDSHAKE, _BY_REQUEST], "requested": asked},
        )
    return True


def _text(text: str, *, is_error: bool = False) -> Value:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


def _failed(number: object, error: _RpcError) -> Value:
    return {"jsonrpc": "2.0", "id": number, "error": error.error}


def _about_us() -> Value:
    return {"name": "lakewright", "title": "Lakewright", "version": __version__}
