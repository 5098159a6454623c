"""Policy files: reads YAML files as checked policies of upkeep, or lists every problem.

```yaml
warehouse:
  mode: shadow
  budget: {bytes: 500 GB, time: 4h}
databases:
  sales: {compaction: {small_files: 8}}
patterns:
  - match: "sales.tmp_*"
    freeze: true
tables:
  sales.orders: {snapshots: {time_retained: 30d}}
```
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pydantic import Field, ValidationError

from lakewright.platform.documents.declared_values import Declared, Text
from lakewright.platform.documents.document_kinds import DocumentKind, kind_of
from lakewright.platform.documents.marked_yaml import Place
from lakewright.platform.documents.model_errors import findings_of
from lakewright.platform.documents.variables import TABLES_VARIABLE
from lakewright.platform.documents.yaml_files import (
    DeclarationError,
    Problem,
    WrittenText,
    documents_of,
    dotted,
    text_of,
    yaml_files,
)
from lakewright.platform.policies.policies import (
    Given,
    Layer,
    Level,
    PolicySet,
    declared_layers,
    leaves,
    resolved,
)
from lakewright.platform.tables.maintenance_checks import check_upkeep
from lakewright.platform.tables.upkeep_policies import (
    SectionPolicy,
    UpkeepPolicy,
    WarehousePolicy,
)
from lakewright.platform.tables.workspace import Workspace

_TABLE = re.compile(r"[^.]+\.[^.]+")
_SORT_ENABLED, _SORT_COLUMNS = ("sort", "enabled"), ("sort", "columns")
_RESPEC_KEYS, _RESPEC_PRIMARY_KEY = ("respec", "keys"), ("respec", "primary_key")
_WILD = re.compile(r"[*?\[]")

_MODELS: Mapping[Level, type[UpkeepPolicy]] = {
    Level.WAREHOUSE: WarehousePolicy,
    Level.DATABASE: SectionPolicy,
    Level.TABLE: SectionPolicy,
}


class PatternPolicy(SectionPolicy):
    """The policy of the tables whose names match a pattern."""

    match: Text = Field(
        description="pattern of database.table: * stands for any text, ? for a character, [ab] "
        "for a or b, [!ab] for others"
    )


class PolicyFile(Declared):
    """Policies of upkeep; of the levels, the lower in this list wins, key by key."""

    warehouse: WarehousePolicy = WarehousePolicy()
    databases: Mapping[str, SectionPolicy] = Field(
        default_factory=dict, description="policies by name of the database"
    )
    patterns: tuple[PatternPolicy, ...] = Field(
        default=(), description="policies by pattern; of those that match, the last one wins"
    )
    tables: Mapping[str, SectionPolicy] = Field(
        default_factory=dict, description="policies by name, as database.table"
    )


def load_policies(paths: Sequence[str | Path], *, workspace: Workspace | None = None) -> PolicySet:
    """The policies of files, and of all YAML files of folders, over those of declarations.

    Files count in the order given, those of a folder in order of name.

    Raises:
        DeclarationError: something is wrong; all of it is listed.
    """
    problems: list[Problem] = []
    files = yaml_files(map(Path, paths), problems)
    texts = {file: text for file in files if (text := text_of(file, problems)) is not None}
    return policies_of_texts(texts, workspace=workspace, problems=problems)


def policies_of_texts(
    texts: Mapping[Path, str],
    *,
    workspace: Workspace | None = None,
    problems: Sequence[Problem] = (),
) -> PolicySet:
    """The same of files that were read; `problems` are those of reading.

    Raises:
        DeclarationError: something is wrong; all of it is listed.
    """
    problems, documents = list(problems), list[WrittenText]()
    for file, text in texts.items():
        documents += documents_of(file, text, problems)
    for document in documents:
        if kind_of(document.value) is DocumentKind.DECLARATIONS:
            message = f"these are declarations of tables; name the file in ${TABLES_VARIABLE}"
            problems.append(document.problem((), message))
    policies = [
        document
        for document in documents
        if kind_of(document.value) is not DocumentKind.DECLARATIONS
    ]
    found = read_policies(policies, problems, workspace=workspace or Workspace())
    if problems:
        raise DeclarationError(problems)
    return replace(found, texts=tuple((str(file.absolute()), text) for file, text in texts.items()))


def read_policies(
    documents: Iterable[WrittenText], problems: list[Problem], *, workspace: Workspace
) -> PolicySet:
    """The policies in documents; adds to `problems` what is wrong."""
    layers: list[Layer] = []
    for document in documents:
        problems += _wrong_shapes(document)
        for level, name, place, policy in _valid_parts(document.value):
            problems += _check(document, level, name, place, policy)
            layers.append(_layer(document, level, name, place, policy))
    found = PolicySet(tuple(layers), declared_layers(workspace), workspace.declared_keys)
    if not problems:
        problems += _contradictions(found)
        problems += _sorts_by_nothing(found)
        problems += _primary_keys_alone(found)
    return found


def _wrong_shapes(document: WrittenText) -> Iterator[Problem]:
    try:
        PolicyFile.model_validate(document.value)
    except ValidationError as err:
        for place, message in findings_of(err, PolicyFile):
            whole = "policies are a mapping of warehouse, databases, patterns or tables"
            yield document.problem(place, message if place else whole)


def _valid_parts(value: object) -> Iterator[tuple[Level, str, Place, UpkeepPolicy]]:
    """The parts of a document with their places, without those of a wrong shape.

    So a mistake in one part does not hide those of the others.
    """
    for level, place, part in _parts(value):
        model = _MODELS.get(level, PatternPolicy)
        with suppress(ValidationError):
            policy = model.model_validate(part)
            name = policy.match if isinstance(policy, PatternPolicy) else str(place[-1])
            yield level, "" if level is Level.WAREHOUSE else name, place, policy


def _parts(value: object) -> Iterator[tuple[Level, Place, object]]:
    if not isinstance(value, dict):
        return
    if "warehouse" in value:
        yield Level.WAREHOUSE, ("warehouse",), value["warehouse"]
    yield from _named(Level.DATABASE, "databases", value.get("databases"))
    patterns = value.get("patterns")
    if isinstance(patterns, list):
        yield from ((Level.PATTERN, ("patterns", at), each) for at, each in enumerate(patterns))
    yield from _named(Level.TABLE, "tables", value.get("tables"))


def _named(level: Level, key: str, parts: object) -> Iterator[tuple[Level, Place, object]]:
    if isinstance(parts, dict):
        yield from ((level, (key, name), each) for name, each in parts.items())


def _check(
    document: WrittenText, level: Level, name: str, place: Place, policy: UpkeepPolicy
) -> Iterator[Problem]:
    message = _wrong_name(level, name)
    if message is not None:
        at = (*place, "match") if level is Level.PATTERN else place
        yield document.problem(at, message)
    if "interval" in policy.compaction.model_fields_set:
        message = (
            "one sensor looks at all tables, so no part of them has an interval; write `interval` "
            "under `warehouse`"
        )
        yield document.problem((*place, "compaction", "interval"), message)
    for below, message in check_upkeep(policy):
        yield document.problem((*place, *below), message)


def _wrong_name(level: Level, name: str) -> str | None:
    match level:
        case Level.DATABASE if "." in name:
            return f"{name!r} is no name of a database; write tables under `tables`"
        case Level.DATABASE | Level.TABLE if _WILD.search(name):
            return f"{name!r} is a pattern; write it under `patterns`, as `- match: {name!r}`"
        case Level.TABLE if _TABLE.fullmatch(name) is None:
            return f"{name!r} is no name of a table; write it as database.table"
        case Level.PATTERN if "." not in name:
            return (
                f"{name!r} has no dot between database and table; write '*.{name}' for tables of "
                f"such names, or '{name}.*' for all tables of such databases"
            )
        case _:
            return None


def _layer(
    document: WrittenText, level: Level, name: str, place: Place, policy: UpkeepPolicy
) -> Layer:
    given = {
        key: Given(value, level, name, document.file, document.line_of((*place, *key)))
        for key, value in leaves(policy)
        if key != ("match",)
    }
    line = document.line_of((*place, "match"))
    return Layer(level, name, document.file, line, given)


def _sorts_by_nothing(policies: PolicySet) -> Iterator[Problem]:
    """The lines that switch sorting on for tables of which none has columns to sort by.

    A warehouse, database or pattern may leave the columns to its tables.
    """
    layers = (*policies.layers, *policies.declared.values())
    some_have = any(given.value for each in layers if (given := each.given.get(_SORT_COLUMNS)))
    for layer in layers:
        given = layer.given.get(_SORT_ENABLED)
        if given is None or given.value is not True:
            continue
        is_of_one = layer.level in (Level.TABLE, Level.DECLARATION)
        if policies.of(layer.name).policy.sort.columns if is_of_one else some_have:
            continue
        message = "without sort.columns nothing is sorted; name the columns, or leave this out"
        yield Problem(given.file, given.line, dotted(_SORT_ENABLED), message)


def _primary_keys_alone(policies: PolicySet) -> Iterator[Problem]:
    """The lines that name a primary key for tables of which none is to have partition keys."""
    layers = (*policies.layers, *policies.declared.values())
    if any(_RESPEC_KEYS in each.given for each in layers):
        return
    for layer in layers:
        given = layer.given.get(_RESPEC_PRIMARY_KEY)
        if given is not None and given.value is not None:
            message = "a primary key changes only together with respec.keys; name these too"
            yield Problem(given.file, given.line, dotted(_RESPEC_PRIMARY_KEY), message)


def _contradictions(policies: PolicySet) -> set[Problem]:
    """Problems of values at different levels, for the names that files and declarations have.

    A pattern counts with the warehouse alone, because the tables that match it are not known.
    """
    everywhere = tuple(each for each in policies.layers if each.level is Level.WAREHOUSE)
    found = set(resolved("", everywhere).problems)
    for layer in policies.layers:
        if layer.level in (Level.DATABASE, Level.PATTERN):
            found.update(resolved(layer.name, (*everywhere, layer)).problems)
        elif layer.level is Level.TABLE:
            found.update(policies.of(layer.name).problems)
    for table in policies.declared:
        found.update(policies.of(table).problems)
    return found
