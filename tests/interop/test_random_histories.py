"""Random histories give the same rows in our hands, in those of Java Paimon, and in both."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from lakewright.storage import Catalog
from tests.oracles.client import JavaOracle, Oracle, WritingOracle
from tests.support.histories.actors import Java, Ours
from tests.support.histories.carrying_out import HistoryDiffers, Proof, Readers
from tests.support.histories.changed_keys import draw_with_changed_keys
from tests.support.histories.drawing import History, Setting, draw, shrink
from tests.support.histories.settings import NEWER_SETTINGS, SETTINGS
from tests.support.tables.invariants import (
    assert_nothing_missing,
    assert_readable_history,
    assert_sound,
    assert_true_hints,
)

_NUMBERS = itertools.count()

Build = Callable[[History], Proof]


@pytest.fixture
def shared(tmp_path: Path) -> Catalog:
    """A warehouse with the clock that Java goes by."""
    return Catalog.open(str(tmp_path / "warehouse"))


@pytest.fixture
def others(pypaimon: WritingOracle, rust: Oracle) -> list[Oracle]:
    """Clients that only read."""
    return [pypaimon, rust]


@pytest.fixture
def parallel(shared: Catalog, java: JavaOracle) -> Build:
    """A history on two tables: one is changed by us only, one by Java only."""

    def build(history: History) -> Proof:
        ours, theirs = Ours(shared), Java(java, shared.root)
        number = next(_NUMBERS)
        tables = {f"db.ours{number}": [ours], f"db.java{number}": [theirs]}
        return _proof(history, tables, ours, theirs)

    return build


@pytest.fixture
def mixed(shared: Catalog, java: JavaOracle, others: list[Oracle]) -> Build:
    """A history on one table that we and Java change by turns, at random; more clients read it."""

    def build(history: History) -> Proof:
        ours, theirs = Ours(shared), Java(java, shared.root)
        tables = {f"db.mixed{next(_NUMBERS)}": [ours, theirs]}
        return _proof(history, tables, ours, theirs, _reading(shared, others, history.setting))

    return build


@pytest.fixture
def alone(shared: Catalog, others: list[Oracle]) -> Build:
    """A history on one table of ours, which other clients than Java read."""

    def build(history: History) -> Proof:
        ours = Ours(shared)
        readers = {**_our_readings(ours, history), **_reading(shared, others, history.setting)}
        return Proof(
            history,
            {f"db.ours{next(_NUMBERS)}": [ours]},
            readers,
            latest_snapshot=ours.latest_snapshot,
            difference=ours.difference,
            filtered=ours.read_where,
        )

    return build


@pytest.fixture
def changing(shared: Catalog, java_latest: JavaOracle, released_pypaimon: Oracle) -> Build:
    """A history on one table that we and Java change by turns, and its partition keys we alone."""

    def build(history: History) -> Proof:
        ours, theirs = Ours(shared), Java(java_latest, shared.root)
        tables = {f"db.changing{next(_NUMBERS)}": [ours, theirs]}
        readers = _reading(shared, [released_pypaimon], history.setting)
        return _proof(history, tables, ours, theirs, readers)

    return build


def _proof(
    history: History,
    tables: dict[str, list[Ours | Java]],
    ours: Ours,
    java: Java,
    others: Readers | None = None,
) -> Proof:
    follows = "changelog-producer" in history.options
    return Proof(
        history,
        tables,
        readers={**_our_readings(ours, history), "Java": java.read, **(others or {})},
        followers={"us": ours.changes, "Java": java.changes} if follows else {},
        latest_snapshot=ours.latest_snapshot,
        difference=ours.difference,
        filtered=ours.read_where,
        travellers={"us": ours.read_at, "Java": java.read_at},
        snapshots=ours.snapshots,
    )


def _our_readings(ours: Ours, history: History) -> Readers:
    return {"us": ours.read, "us key by key": partial(ours.look_up, history.written_keys)}


def _reading(shared: Catalog, others: Sequence[Oracle], setting: Setting) -> Readers:
    return {
        each.name: partial(each.read, shared.root) for each in others if each.name in setting.others
    }


def check(build: Build, history: History, shared: Catalog) -> None:
    """Carry the history out; if that fails, say so with a history as short as can be found."""

    def differs(candidate: History) -> str | None:
        try:
            build(candidate).carry_out()
        except HistoryDiffers as error:
            return str(error)
        return None

    if differs(history) is not None:
        smallest = shrink(history, lambda candidate: differs(candidate) is not None)
        pytest.fail(differs(smallest) or f"only sometimes:\n{smallest}", pytrace=False)
    for name in shared.list_tables("db"):
        table = shared.table(f"db.{name}")
        if name.startswith("ours"):
            assert_sound(table)
        else:
            # Overwriting, Java leaves the changelog behind that it does not commit.
            assert_nothing_missing(table)
            assert_readable_history(table)
            assert_true_hints(table)


def cases(settings: Sequence[Setting] = SETTINGS, *, deep: Sequence[int] = (1, 2)) -> list[object]:
    """Every setting with three seeds; only `make test-deep` tries the seeds of `deep`."""
    return [
        pytest.param(
            setting,
            seed,
            id=f"{setting.name}-{seed}",
            marks=[pytest.mark.deep] if seed in deep else [],
        )
        for setting in settings
        for seed in range(3)
    ]


def drawn_for_two_tables(setting: Setting, seed: int) -> History:
    """Java's writers must not compact where that shows."""
    minor = setting.ordered and seed % 2 == 0
    write_only = True if _compaction_shows(setting) else None
    return draw(setting, seed, length=_length(seed), write_only=write_only, minor=minor)


def drawn_for_one_table(setting: Setting, seed: int) -> History:
    minor = setting.merges_retractions
    write_only = True if "changelog-producer" in setting.options or not minor else None
    return draw(setting, 1000 + seed, length=_length(seed), write_only=write_only, minor=minor)


def drawn_for_us(setting: Setting, seed: int) -> History:
    return draw(setting, seed, length=_length(seed), write_only=True)


def drawn_with_changed_keys(setting: Setting, seed: int) -> History:
    return draw_with_changed_keys(setting, seed, length=_length(seed))


def _length(seed: int) -> int:
    """Histories of the first seed are short."""
    return 12 if seed else 5


def _compaction_shows(setting: Setting) -> bool:
    return setting.lags or not setting.ordered or "changelog-producer" in setting.options


@pytest.mark.mission("FS2", "FS5", "FS12", "FS16")
@pytest.mark.parametrize(("setting", "seed"), cases())
@pytest.mark.sampled(1)
def test_the_same_history_gives_the_same_rows_in_our_hands_and_in_those_of_java(
    shared: Catalog, parallel: Build, setting: Setting, seed: int
) -> None:
    check(parallel, drawn_for_two_tables(setting, seed), shared)


@pytest.mark.mission("FS2", "FS5", "FS12", "FS16")
@pytest.mark.parametrize(("setting", "seed"), cases())
@pytest.mark.sampled(2)
def test_we_and_java_change_one_table_by_turns_and_read_it_alike(
    shared: Catalog, mixed: Build, setting: Setting, seed: int
) -> None:
    check(mixed, drawn_for_one_table(setting, seed), shared)


@pytest.mark.mission("FS2")
@pytest.mark.parametrize(("setting", "seed"), cases(NEWER_SETTINGS))
@pytest.mark.sampled(2)
def test_what_java_0_9_does_not_know_is_read_alike_by_newer_clients_and_foreseen_by_the_model(
    shared: Catalog, alone: Build, setting: Setting, seed: int
) -> None:
    check(alone, drawn_for_us(setting, seed), shared)


# Compactions tell what a changelog says, and retractions meet what they made of the rows.
CHANGING = [
    each
    for each in SETTINGS
    if "changelog-producer" not in each.options
    and not (each.options.get("merge-engine") == "aggregation" and "-D" in each.kinds)
]


@pytest.mark.mission("PT1", "PT4", "FS2")
@pytest.mark.parametrize(("setting", "seed"), cases(CHANGING, deep=()))
@pytest.mark.sampled(1)
def test_rows_stay_while_we_change_partition_keys_and_java_writes_in_between(
    shared: Catalog, changing: Build, setting: Setting, seed: int
) -> None:
    check(changing, drawn_with_changed_keys(setting, seed), shared)
