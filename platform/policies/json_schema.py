"""JSON Schema of the YAML files, for editors: it accepts what the readers here accept.

Editors read YAML 1.2 as JSON values, in which a plain word may be a number or a boolean. The
readers keep words as typed, so that text may be any of them.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from lakewright.platform.documents.declared_values import DURATION_PATTERN, SIZE_PATTERN, any_case
from lakewright.platform.documents.document_kinds import DocumentKind
from lakewright.platform.policies.policy_files import PolicyFile
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.storage.spec.option_values import duration_of_ms

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DEFS = "$defs"


def json_schema_of(kind: DocumentKind) -> dict[str, object]:
    """The JSON Schema of a document of declarations or policies."""
    of_kind = _of_policies() if kind is DocumentKind.POLICY else _of_declarations()
    return {"$schema": _DIALECT, **of_kind}


def declaration_schema() -> dict[str, Any]:
    """The JSON Schema of one declaration."""
    return _schema(TableDeclaration)


def _of_policies() -> dict[str, Any]:
    found = _schema(PolicyFile)
    # Only declarations have it.
    del found[_DEFS]["CompactionPolicy"]["properties"]["interval"]
    return found


def _of_declarations() -> dict[str, object]:
    declaration = _schema(TableDeclaration)
    defs = declaration.pop(_DEFS)
    assert isinstance(defs, dict)
    one = {"$ref": f"#/{_DEFS}/TableDeclaration"}
    several = {
        "type": "object",
        "properties": {"tables": {"type": "array", "items": one}},
        "required": ["tables"],
        "additionalProperties": False,
    }
    # Not `anyOf`: an editor then says what is wrong with the one that is meant.
    return {
        "if": {"type": "object", "required": ["tables"]},
        "then": several,
        "else": one,
        _DEFS: {**defs, "TableDeclaration": declaration},
    }


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(schema_generator=_AsRead)


class _AsRead(GenerateJsonSchema):
    """Schemas of values as the readers take them from YAML."""

    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchemaValue:
        return {**super().str_schema(schema), "type": ["string", "number", "boolean"]}

    def int_schema(self, schema: core_schema.IntSchema) -> JsonSchemaValue:
        quoted = {"type": "string", "pattern": r"^[-+]?\d+(_\d+)*$"}
        return {"anyOf": [super().int_schema(schema), quoted]}

    def bool_schema(self, schema: core_schema.BoolSchema) -> JsonSchemaValue:
        words = "|".join(
            map(any_case, ("true", "false", "yes", "no", "on", "off", "t", "f", "y", "n"))
        )
        as_word = {"type": "string", "pattern": f"^({words}|[01])$"}
        return {"anyOf": [super().bool_schema(schema), as_word, {"enum": [0, 1]}]}

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        described = super().default_schema(schema)
        default = described.get("default")
        if default is None or isinstance(default, (dict, list)):
            # What holds without a key is said in its description.
            described.pop("default", None)
        elif described.get("pattern") == DURATION_PATTERN:
            described["default"] = duration_of_ms(default)
        elif described.get("pattern") == SIZE_PATTERN:
            described["default"] = f"{default} b"
        return described

    def field_title_should_be_set(self, schema: object) -> bool:
        return False
