"""Inheritance of policies: what holds for a table is a merge of mappings, key by key."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st

from lakewright.platform.policies.policies import Level
from lakewright.platform.policies.policy_files import load_policies
from lakewright.platform.tables.upkeep_policies import UpkeepPolicy
from lakewright.platform.tables.workspace import read_workspace

TABLES = ("a.x", "a.y", "a.tmp_x", "b.x", "b.tmp_y", "c.z")
PATTERNS = ("*.*", "a.*", "*.tmp_*", "?.x", "[ab].[xy]", "[!a].*", "a.x")

# One key of each sort: a number, a truth, a duration, a size, a choice, text, a list, null.
KEYS: Mapping[tuple[str, ...], st.SearchStrategy[object]] = {
    ("mode",): st.sampled_from(["live", "shadow"]),
    ("freeze",): st.booleans(),
    ("compaction", "small_files"): st.integers(2, 9),
    ("compaction", "min_bytes"): st.sampled_from(["0 b", "64 MB", "1 GB"]),
    ("compaction", "hours"): st.sampled_from([None, "22:00-06:00", "00:00-05:00"]),
    ("snapshots", "time_retained"): st.sampled_from([None, "1h", "7d", "30d"]),
    ("tags", "older_than"): st.sampled_from([None, "1h", "90d"]),
    ("changelogs", "retain_max"): st.sampled_from([None, 5, 9]),
    ("sort", "columns"): st.lists(st.sampled_from("pqr"), unique=True),
    ("orphans", "timezone"): st.sampled_from(["UTC", "Europe/Berlin"]),
}


def nested(given_keys: Mapping[tuple[str, ...], object]) -> dict[str, object]:
    policy: dict[str, object] = {}
    for (first, *below), value in given_keys.items():
        if below:
            section = policy.setdefault(first, {})
            assert isinstance(section, dict)
            section[below[0]] = value
        else:
            policy[first] = value
    return policy


parts = st.fixed_dictionaries({}, optional=dict(KEYS))
files = st.fixed_dictionaries(
    {},
    optional={
        "warehouse": parts,
        "databases": st.dictionaries(st.sampled_from("abc"), parts, max_size=3),
        "patterns": st.lists(st.tuples(st.sampled_from(PATTERNS), parts), max_size=4),
        "tables": st.dictionaries(st.sampled_from(TABLES), parts, max_size=3),
    },
)


def written(file: Mapping[str, object]) -> str:
    document: dict[str, object] = {}
    for name, part in file.items():
        if name == "warehouse":
            document[name] = nested(part)  # type: ignore[arg-type]
        elif name == "patterns":
            document[name] = [{"match": each, **nested(p)} for each, p in part]  # type: ignore[attr-defined]
        else:
            document[name] = {each: nested(p) for each, p in part.items()}  # type: ignore[attr-defined]
    return yaml.safe_dump(document, sort_keys=False)


def model(drawn, declared, table: str) -> dict[tuple[str, ...], list[object]]:  # type: ignore[no-untyped-def]
    """The values of each key, the strongest last, by going through the levels in their order."""
    layers = [file.get("warehouse", {}) for file in drawn]
    layers += [file.get("databases", {}).get(table[0], {}) for file in drawn]
    for file in drawn:
        layers += [p for name, p in file.get("patterns", []) if fnmatch.fnmatchcase(table, name)]
    layers += [file.get("tables", {}).get(table, {}) for file in drawn]
    layers.append(declared.get(table, {}))
    merged: dict[tuple[str, ...], list[object]] = {}
    for layer in layers:
        for key, value in layer.items():
            merged.setdefault(key, []).append(value)
    return merged


@given(
    drawn=st.lists(files, max_size=3),
    declared=st.dictionaries(st.sampled_from(TABLES), parts, max_size=2),
)
def test_each_key_of_each_table_is_that_of_the_strongest_level_and_all_lines_are_known(
    tmp_path_factory, drawn, declared
) -> None:  # type: ignore[no-untyped-def]
    folder: Path = tmp_path_factory.mktemp("policies")
    for number, file in enumerate(drawn):
        (folder / f"{number}.yaml").write_text(written(file))
    tables = folder / "tables.yml"
    documents = [{"table": name, "maintenance": nested(p)} for name, p in declared.items()]
    tables.write_text(yaml.safe_dump_all(documents))
    paths = [folder / f"{number}.yaml" for number in range(len(drawn))]
    workspace = read_workspace([tables] if declared else [])
    policies = load_policies(paths, workspace=workspace)
    for table in TABLES:
        merged = model(drawn, declared, table)
        expected = UpkeepPolicy.model_validate(
            nested({key: values[-1] for key, values in merged.items()})
        )
        resolved = policies.of(table)
        assert resolved.policy.model_dump() == expected.model_dump()
        for setting in resolved.settings:
            values = merged.get(setting.key, [])
            told = [] if setting.decided is None else [setting.decided, *setting.lost]
            assert [_value(setting.key, each) for each in reversed(values)] == [
                each.value for each in told
            ]
            assert [each.level for each in told] == sorted(
                (each.level for each in told), reverse=True
            )
            for each in told:
                line = Path(each.file).read_text().splitlines()[each.line - 1]
                assert line.strip().removeprefix("- ").startswith(f"{setting.key[-1]}:")
                assert (each.level is Level.DECLARATION) == (each.file == str(tables))


def _value(key: tuple[str, ...], given_value: object) -> object:
    value: object = UpkeepPolicy.model_validate(nested({key: given_value}))
    for part in key:
        value = getattr(value, part)
    return value
