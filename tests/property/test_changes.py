"""For any history: changes between two states lead from the one to the other."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from tests.oracles.arrow_values import canonical_rows
from tests.support.histories.actors import Ours, comparable
from tests.support.histories.changed_keys import draw_with_changed_keys
from tests.support.histories.drawing import Expire, History, Respec, Row, draw
from tests.support.histories.settings import SETTINGS
from tests.support.tables.environment import FixedEnv

# Tables whose compactions tell changelogs keep keys that histories would let go.
KEYS_CHANGE = [
    each
    for each in SETTINGS
    if each.options.get("changelog-producer") not in ("lookup", "full-compaction")
]
State = dict[tuple[Any, ...], Row]


def state(table: Table, history: History, snapshot_id: int) -> State:
    found = canonical_rows(table.at(snapshot=snapshot_id).read())
    return {tuple(map(repr, (row[key] for key in history.primary_keys))): row for row in found}


def followed(before: State, table: Table, history: History, first: int, last: int) -> State:
    """A state after the changes between two snapshots."""
    after = dict(before)
    for row in canonical_rows(table.read_changes(first, last, mode="diff")):
        kind = row.pop("_rowkind")
        key = tuple(map(repr, (row[key] for key in history.primary_keys)))
        if kind in ("-U", "-D"):
            after.pop(key, None)
        else:
            after[key] = row
    return after


def assert_differences_lead(catalog: Catalog, name: str, history: Any) -> None:
    """From the first state of a history, and from each one to the next, differences lead on."""
    ours = Ours(catalog)
    ours.create(name, history)
    for step in history.steps:
        if not isinstance(step, Expire):
            ours.do(name, history, step)
    table = catalog.table(name)
    states = {each.id: state(table, history, each.id) for each in table.history.snapshots()}
    ids = list(states)
    for first, last in {*pairwise(ids), *zip(ids[:1] * len(ids), ids[2:], strict=False)}:
        found = followed(states[first], table, history, first, last)
        expected = comparable(list(states[last].values()))
        assert comparable(list(found.values())) == expected, f"{first} to {last}: {history}"


@pytest.mark.parametrize("seed", [0, pytest.param(range(1, 20), marks=pytest.mark.deep)])
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
@pytest.mark.mission("FS1", "FS19")
@pytest.mark.sampled(2)
def test_a_difference_leads_from_any_state_to_any_later_one(
    tmp_path: Path, setting: Any, seed: Any
) -> None:
    catalog = Catalog.open(str(tmp_path / "warehouse"), env=FixedEnv())
    for number in [seed] if isinstance(seed, int) else seed:
        history = draw(setting, number, length=6)
        assert_differences_lead(catalog, f"db.t{number}", history)


@pytest.mark.parametrize("seed", [0, pytest.param(range(1, 20), marks=pytest.mark.deep)])
@pytest.mark.parametrize("setting", KEYS_CHANGE, ids=lambda setting: setting.name)
@pytest.mark.mission("FS1", "PT1")
@pytest.mark.sampled(2)
def test_a_difference_leads_across_changes_of_the_partition_keys(
    tmp_path: Path, setting: Any, seed: Any
) -> None:
    """From the first state and from each one to all others, those during a change too."""
    catalog = Catalog.open(str(tmp_path / "warehouse"), env=FixedEnv())
    for number in [seed] if isinstance(seed, int) else seed:
        history = draw_with_changed_keys(setting, number, length=5)
        assert any(isinstance(step, Respec) for step in history.steps)
        assert_differences_lead(catalog, f"db.t{number}", history)
