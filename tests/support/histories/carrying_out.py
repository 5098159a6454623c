"""Runs histories on real tables, and checks the invariants after each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.oracles.client import Change
from tests.support.histories.actors import Actor, comparable
from tests.support.histories.drawing import (
    COMPACTING_PRODUCERS,
    Compact,
    Condition,
    Expire,
    History,
    Overwrite,
    Rescale,
    Respec,
    Row,
    Step,
    described,
)
from tests.support.models.keyed_table import MergeModel
from tests.support.tables.changelogs import Replay, comparable_changes

# Readers of a table, by name.
Readers = Mapping[str, Callable[[str], list[Row]]]
# Changelog readers, by name; each gets a table, the first and the last snapshot.
Followers = Mapping[str, Callable[[str, int, int], list[Change]]]

# The number of snapshots that are read again at the end of a history.
LATER_READ = 4


class HistoryDiffers(AssertionError):
    """Clients disagree after a step; the message holds the reproduction."""


@dataclass
class Followed:
    """A table's changelog, as far as it has been read."""

    table: str
    replays: dict[str, Replay]
    next_snapshot: int = 1


@dataclass
class Proof:
    """One history on one or several tables, each changed by one actor or by two."""

    history: History
    # Table → the actors of its steps; the history's `hands` picks one for each step.
    tables: Mapping[str, Sequence[Actor]]
    readers: Readers
    followers: Followers = field(default_factory=dict)
    latest_snapshot: Callable[[str], int] = lambda table: 0
    # Reads the difference between two snapshots of a table, if that is checked.
    difference: Callable[[str, int, int], list[Change]] | None = None
    # Reads the rows of a table that meet a condition, if that is checked.
    filtered: Callable[[str, Condition], list[Row]] | None = None
    # Readers of earlier snapshots, and the existing snapshots.
    travellers: Mapping[str, Callable[[str, int], list[Row]]] = field(default_factory=dict)
    snapshots: Callable[[str], list[int]] = lambda table: []

    def carry_out(self) -> None:
        """Take every step on every table and compare.

        Raises:
            HistoryDiffers: a client failed, or its rows differ from those of another or of the
            model.
        """
        model = MergeModel(self.history)
        followed = [
            Followed(table, {name: Replay(self.history.primary_keys) for name in self.followers})
            for table in self.tables
        ]
        number = 0
        before: Mapping[str, int] = dict.fromkeys(self.tables, 0)
        rows: list[Row] = []
        try:
            for table, actors in self.tables.items():
                actors[self.history.hands[0] % len(actors)].create(table, self.history)
            for number, step in enumerate(self.history.steps, 1):
                hand = self.history.hands[number - 1]
                for table, actors in self.tables.items():
                    actors[hand % len(actors)].do(table, self.history, step)
                model.do(step)
                old, rows = rows, self._read_alike(model)
                self._follow(step, rows, followed)
                self._filter(rows)
                before = self._differ(step, before, old, rows)
            self._travel()
        except Exception as error:  # any failure is a finding
            done = described(self.history.steps[number - 1]) if number else "create"
            what = f"{type(error).__name__}: {error}"
            raise HistoryDiffers(
                f"{self.history}\nfails at step {number}, {done}\n{what}"
            ) from error

    def _read_alike(self, model: MergeModel) -> list[Row]:
        bags = self.history.setting.bags
        seen = {
            f"{table} read by {name}": read(table)
            for table in self.tables
            for name, read in self.readers.items()
        }
        texts = {who: comparable(rows, bags) for who, rows in seen.items()}
        if self.history.is_foreseeable:
            texts["the model"] = comparable(model.rows(), bags)
        who, expected = next(iter(texts.items()))
        for other, found in texts.items():
            more = sorted(set(found) - set(expected))
            less = sorted(set(expected) - set(found))
            assert found == expected, f"{other} has {more}\nwhere {who} has {less}"
        return next(iter(seen.values()))

    def _filter(self, rows: list[Row]) -> None:
        bags = self.history.setting.bags
        if self.filtered is None:
            return
        for condition in self.history.conditions:
            expected = comparable([row for row in rows if condition.holds(row)], bags)
            for table in self.tables:
                found = comparable(self.filtered(table, condition), bags)
                assert found == expected, f"{condition} gives {found}\nand not {expected}"

    def _travel(self) -> None:
        bags = self.history.setting.bags
        for table in self.tables:
            for snapshot in self.snapshots(table)[-LATER_READ:]:
                texts = {
                    name: comparable(read(table, snapshot), bags)
                    for name, read in self.travellers.items()
                }
                first, *others = texts.values()
                assert all(each == first for each in others), f"snapshot {snapshot}: {texts}"

    def _follow(self, step: Step, rows: list[Row], followed: Sequence[Followed]) -> None:
        producer = self.history.options.get("changelog-producer")
        told: dict[str, list[Change]] = {}
        for each in followed:
            latest = self.latest_snapshot(each.table)
            for name, follow in self.followers.items():
                changes = follow(each.table, each.next_snapshot, latest)
                told[f"{each.table} followed by {name}"] = changes
                if producer in COMPACTING_PRODUCERS:
                    self._replay(each.replays[name], step, changes, rows)
            each.next_snapshot = latest + 1
        by_policy = producer in COMPACTING_PRODUCERS and self.history.compacts_by_policy
        if not by_policy and not isinstance(step, Rescale):
            self._told_alike(told)

    def _differ(
        self, step: Step, before: Mapping[str, int], old: list[Row], rows: list[Row]
    ) -> dict[str, int]:
        after = {table: self.latest_snapshot(table) for table in self.tables}
        for table, snapshot in before.items():
            # An expiry deletes the state needed for the comparison, and a change of keys ends it.
            if self.difference is None or isinstance(step, Expire | Respec):
                continue
            if 0 < snapshot < after[table]:
                replay = Replay(self.history.primary_keys)
                replay.reset(old)
                replay.upsert(self.difference(table, snapshot, after[table]))
                self._adds_up(replay, rows, f"the difference of {table} leads to")
        return after

    def _told_alike(self, told: Mapping[str, Sequence[Change]]) -> None:
        keys = self.history.primary_keys
        texts = {who: comparable_changes(changes, keys) for who, changes in told.items()}
        for who, found in texts.items():
            first, expected = next(iter(texts.items()))
            assert found == expected, f"{who}: {found}\n{first}: {expected}"

    def _replay(
        self, replay: Replay, step: Step, changes: Sequence[Change], rows: list[Row]
    ) -> None:
        """Apply the changes of one step; after a full compaction the result must be the rows."""
        match step:
            case Overwrite():
                replay.overwrite(step)
            case Rescale():
                # The rows are the same; clients may or may not repeat them in the changelog.
                replay.lost = True
        if not replay.lost:
            replay.apply(changes)
        if isinstance(step, Compact) and step.full:
            if not replay.lost:
                self._adds_up(replay, rows, "a changelog adds up to")
            replay.reset(rows)

    def _adds_up(self, replay: Replay, rows: list[Row], what: str) -> None:
        bags = self.history.setting.bags
        found = comparable(list(replay.rows.values()), bags)
        expected = comparable(rows, bags)
        assert found == expected, f"{what} {found}\nand the rows are {expected}"
