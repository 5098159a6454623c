"""Histories whose tables get other partition keys between steps."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from random import Random

from tests.support.histories.drawing import (
    PARTITION,
    Compact,
    Expire,
    History,
    Overwrite,
    Respec,
    Setting,
    Step,
    draw,
)

# Our hand, the first: no other client changes partition keys, or expires snapshots across that.
_OURS = 0
_CHANGES = 2
# Types that clients name folders alike after.
_NO_KEYS = frozenset({"DOUBLE", "BYTES"})


def draw_with_changed_keys(setting: Setting, seed: int, *, length: int) -> History:
    """A history of a partitioned table whose partition keys change now and then.

    A full compaction goes before each change, as some tables need one. Overwrites replace the whole
    table, since partitions differ before and after.
    """
    drawn = (
        draw(setting, each, length=length, write_only=True, minor=False)
        for each in itertools.count(1000 * seed)
    )
    history = next(
        each for each in drawn if each.partition_type and (len(each.keys) > 1 or not setting.lags)
    )
    random = Random(f"{setting.name} {seed} keys")
    # Java 1.4.2 compacts as it overwrites, which shows rows at once where reads lag.
    alone = (Expire, Overwrite) if setting.lags else (Expire,)
    steps: list[tuple[Step, int]] = [
        (
            replace(step, target=None) if isinstance(step, Overwrite) else step,
            _OURS if isinstance(step, alone) else hand,
        )
        for step, hand in zip(history.steps, history.hands, strict=True)
    ]
    present: tuple[str, ...] = (PARTITION,)
    places = sorted(random.randrange(1, len(steps)) for _ in range(_CHANGES))
    for inserted, place in enumerate(places):
        others = [each for each in _keys_of(history.columns, history) if each != present]
        if setting.lags:
            # Keys of such tables may come; they go only if they come first in the rest of the key.
            others = [each for each in others if each[: len(present)] == present]
        present = random.choice(others or [present])
        at = place + 2 * inserted
        steps[at:at] = [(Compact(full=True), _OURS), (Respec(present), _OURS)]
    return replace(
        history, steps=tuple(step for step, _ in steps), hands=tuple(hand for _, hand in steps)
    )


def _keys_of(types: Mapping[str, str], history: History) -> list[tuple[str, ...]]:
    """The partition keys that the primary key allows, at most two."""
    able = [name for name in history.primary_keys if types[name] not in _NO_KEYS]
    most = min(2, len(history.primary_keys) - 1)
    return [keys for count in range(most + 1) for keys in itertools.permutations(able, count)]
