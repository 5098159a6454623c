"""What a tool is: a name, a description, its parameters, and the function that answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lakewright.storage.errors import InvalidRequestError

Value = Mapping[str, object]
# The types of JSON Schema that parameters have here.
_KINDS: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "object": dict,
}
_MOST = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One argument of a tool; `kind` is its type in JSON Schema."""

    name: str
    text: str
    kind: str = "string"
    needed: bool = False
    default: object = None
    choices: tuple[str, ...] = ()

    def schema(self) -> dict[str, object]:
        """The JSON Schema of the argument."""
        found: dict[str, object] = {"type": self.kind, "description": self.text}
        if self.choices:
            found["enum"] = list(self.choices)
        if self.default is not None:
            found["default"] = self.default
        return found

    def check(self, value: object) -> None:
        """Check a given value.

        Raises:
            InvalidRequestError: it has another type, or is none of the choices.
        """
        wanted = _KINDS[self.kind]
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            raise InvalidRequestError(
                f"{self.name} is {value!r}, which is of another type; give a JSON {self.kind}"
            )
        if isinstance(value, int) and not 0 <= value <= _MOST:
            raise InvalidRequestError(f"{self.name} is {value}; give 0 to {_MOST:,}")
        if self.choices and value not in self.choices:
            raise InvalidRequestError(
                f"{self.name} is {value!r}; give one of {', '.join(self.choices)}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A question that an agent may ask; `answer` gets every parameter by its name."""

    name: str
    text: str
    parameters: Sequence[Parameter]
    answer: Callable[..., Value]

    def described(self) -> dict[str, object]:
        """The tool as `tools/list` has it."""
        return {
            "name": self.name,
            "description": self.text,
            "inputSchema": {
                "type": "object",
                "properties": {each.name: each.schema() for each in self.parameters},
                "required": [each.name for each in self.parameters if each.needed],
                "additionalProperties": False,
            },
            "annotations": {
                "readOnlyHint": True,
                "destructiveHint": False,
                "idempotentHint": True,
                "openWorldHint": False,
            },
        }

    def call(self, given: Value) -> Value:
        """Answer with the given arguments.

        Raises:
            InvalidRequestError: an argument is unknown, missing, or of another type.
            StorageError: the question cannot be answered.
        """
        known = {each.name: each for each in self.parameters}
        for name in given:
            if name not in known:
                raise InvalidRequestError(
                    f"{self.name} has no argument {name}; it has {', '.join(known) or 'none'}"
                )
        arguments: dict[str, object] = {}
        for name, parameter in known.items():
            value = given.get(name)
            if value is not None:
                parameter.check(value)
            elif parameter.needed:
                raise InvalidRequestError(f"{self.name} needs {name}: {parameter.text}")
            arguments[name] = parameter.default if value is None else value
        return self.answer(**arguments)
