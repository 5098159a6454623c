"""The JSON Schema of the YAML files accepts what the readers accept, and refuses wrong keys."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lakewright.platform.documents.document_kinds import DocumentKind, kind_of
from lakewright.platform.documents.marked_yaml import read_marked
from lakewright.platform.documents.yaml_words import Word, plain_value
from lakewright.platform.policies.json_schema import json_schema_of
from lakewright.platform.policies.policy_files import PolicyFile
from lakewright.platform.tables.declarations import TableDeclaration
from tests.unit.cli.conftest import Lakewright, lakewright

__all__ = ["lakewright"]

ROOT = Path(__file__).resolve().parents[4]
VALIDATORS = {kind: jsonschema.Draft202012Validator(json_schema_of(kind)) for kind in DocumentKind}
# Keys of a Dagster project's `defs.yaml`, which Dagster reads.
COMPONENT = "type: lakewright.component"


def as_editor(value: object) -> object:
    """A value as an editor sees it, which reads YAML 1.2 as JSON values."""
    match value:
        case Word():
            plain = plain_value(value)
            return str(value) if isinstance(plain, dt.date) else plain
        case list():
            return [as_editor(each) for each in value]
        case dict():
            return {name: as_editor(each) for name, each in value.items()}
        case _:
            return value


def documents(text: str) -> list[object]:
    return [each.value for each in read_marked(text)]


def errors(kind: DocumentKind, value: object) -> list[str]:
    return [each.message for each in VALIDATORS[kind].iter_errors(as_editor(value))]


# Its blocks are parts of a dagster.yaml.
DAGSTERS_OWN = ("deploying.md", "running.md")


def blocks_of_documents() -> Iterator[tuple[str, str]]:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        if page.name in DAGSTERS_OWN:
            continue
        found = re.findall(
            r"^```yaml\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
        )
        for number, block in enumerate(found):
            if not block.startswith(COMPONENT):
                yield f"{page.name} {number}", block


def files_of_the_demo() -> Iterator[tuple[str, str]]:
    for file in sorted((ROOT / "src/lakewright/demo").rglob("*.yaml")):
        yield file.name, file.read_text("utf-8")


GIVEN = dict([*blocks_of_documents(), *files_of_the_demo()])


@pytest.mark.parametrize("text", GIVEN.values(), ids=GIVEN)
def test_every_yaml_of_the_demo_and_of_the_documents_fits_its_schema(text: str) -> None:
    for value in documents(text):
        assert isinstance(value, dict)
        kind = kind_of(value)
        if kind is None:
            # Some keys of a declaration.
            assert errors(DocumentKind.DECLARATIONS, {"table": "a.b", **value}) == []
        else:
            assert errors(kind, value) == []


def test_there_are_declarations_and_policies_to_try() -> None:
    kinds = [kind_of(value) for text in GIVEN.values() for value in documents(text)]
    assert kinds.count(DocumentKind.DECLARATIONS) >= 5
    assert kinds.count(DocumentKind.POLICY) >= 1


POLICIES = DocumentKind.POLICY
DECLARATIONS = DocumentKind.DECLARATIONS


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (POLICIES, "warehous: {}"),
        (POLICIES, "warehouse: {mod: live}"),
        (POLICIES, "warehouse: {mode: dead}"),
        (POLICIES, "warehouse: {compaction: {small_filez: 3}}"),
        (POLICIES, "warehouse: {compaction: {small_files: 1}}"),
        (POLICIES, "warehouse: {compaction: {small_files: many}}"),
        (POLICIES, "warehouse: {snapshots: {time_retained: 7}}"),
        (POLICIES, "warehouse: {snapshots: {time_retained: 7 weeks}}"),
        (POLICIES, "warehouse: {budget: {bytes: 500}}"),
        (POLICIES, "warehouse: {compaction: {hours: night}}"),
        (POLICIES, "databases: {a: {budget: {timezone: UTC}}}"),
        (POLICIES, "databases: {a: {compaction: {interval: 10s}}}"),
        (POLICIES, "patterns: [{freeze: true}]"),
        (POLICIES, "patterns: {match: a.b}"),
        (DECLARATIONS, "table: a.b\ncolums: []"),
        (DECLARATIONS, "columns: []"),
        (DECLARATIONS, "table: a.b\npartition_keys: dt"),
        (DECLARATIONS, "table: a.b\nschema_policy: {}"),
        (DECLARATIONS, "table: a.b\nmaintenance: {compaction: {interval: 5}}"),
        (DECLARATIONS, "tables: [{table: a.b, colums: []}]"),
        (DECLARATIONS, "tables: [{table: a.b}]\ntable: a.c"),
    ],
)
def test_what_a_reader_refuses_by_its_shape_the_schema_refuses(
    kind: DocumentKind, text: str
) -> None:
    (value,) = documents(text)
    assert errors(kind, value)


numbers = st.integers(2, 9).flatmap(
    lambda n: st.sampled_from([str(n), f'"{n}"', f"0{n}", f"{n}_0"])
)
truths = st.sampled_from(["true", "False", "yes", "NO", '"on"', "Off", "1", "0", "t", "N"])
durations = st.builds(
    "{}{}{}".format,
    st.integers(5000, 10**6),
    st.sampled_from(["", " "]),
    st.sampled_from(["ms", "s", "MIN", "m", "h", "Hours", "d", "day", "DAYS", "sec"]),
)
sizes = st.builds(
    "{}{}".format, st.integers(0, 999), st.sampled_from(["b", " MB", "gb", "K", " t", " bytes"])
)
texts = st.sampled_from(["a", '"7"', "7", "007", "true", "1e3", "2024-01-01", "12:30", "no"])
null = st.just("null")
LEAVES = {
    "freeze": truths,
    "mode": st.sampled_from(["live", '"shadow"']),
    "compaction.small_files": numbers,
    "compaction.full": truths,
    "compaction.quiet_for": durations,
    "compaction.min_bytes": sizes,
    "compaction.hours": st.one_of(null, st.sampled_from(["22:00-06:00", '"9:00 - 17:00"'])),
    "compaction.engine": st.sampled_from(["auto", "spark", "local"]),
    "snapshots.retain_min": st.one_of(null, numbers),
    "snapshots.time_retained": st.one_of(null, durations),
    "sort.columns": st.lists(texts, max_size=3).map(lambda each: f"[{', '.join(each)}]"),
    "sort.order": st.sampled_from(["order", "zorder", "hilbert"]),
    "partitions.pattern": st.one_of(null, texts),
}


def written(leaves: dict[str, str]) -> str:
    sections: dict[str, list[str]] = {}
    for name, value in leaves.items():
        section, _, key = name.rpartition(".")
        sections.setdefault(section, []).append(f"{key}: {value}")
    parts = sections.pop("", [])
    parts += [f"{name}: {{{', '.join(keys)}}}" for name, keys in sections.items()]
    return f"{{{', '.join(parts)}}}"


@given(
    leaves=st.fixed_dictionaries({}, optional=LEAVES),
    level=st.sampled_from(
        [
            "warehouse: {}",
            "databases: {{no: {}}}",
            "tables: {{a.b: {}}}",
            "table: 1.2\nmaintenance: {}",
            "tables: [{{table: a.b, maintenance: {}}}]",
        ]
    ),
)
def test_what_a_reader_accepts_the_schema_accepts(leaves: dict[str, str], level: str) -> None:
    (value,) = documents(level.format(written(leaves)))
    kind = kind_of(value)
    assert kind is not None
    assert isinstance(value, dict)
    try:
        if kind is POLICIES:
            PolicyFile.model_validate(value)
        else:
            for each in value.get("tables", [value]):
                TableDeclaration.model_validate(each)
    except ValidationError as err:
        raise AssertionError("the drawn values are meant to be right") from err
    assert errors(kind, value) == []


@pytest.mark.parametrize("kind", DocumentKind)
def test_every_key_has_a_description(kind: DocumentKind) -> None:
    schema = json_schema_of(kind)
    defs = schema["$defs"]
    assert isinstance(defs, dict)
    without = [
        f"{name}.{key}"
        for name, each in {**defs, "": schema}.items()
        for key, value in each.get("properties", {}).items()
        if "description" not in value and "description" not in defs.get(_target(value), {})
    ]
    assert without == []


def _target(value: dict[str, object]) -> str:
    found = re.search(r'"\$ref": "#/\$defs/(\w+)"', json.dumps(value))
    return found.group(1) if found else ""


@pytest.mark.parametrize("name", ["declarations", "policies"])
def test_the_command_prints_a_schema_that_is_valid_itself(
    lakewright: Lakewright, name: str
) -> None:
    ended = lakewright(None, "yaml-schema", name)
    assert ended.code == 0
    jsonschema.Draft202012Validator.check_schema(ended.json)
    assert yaml.safe_load(ended.out)["$schema"].startswith("https://json-schema.org/")
