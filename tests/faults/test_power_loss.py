"""A power loss at every call of every verb: what was not flushed is lost, no row is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.local_trials import in_memory, laid_out
from tests.faults.test_every_call import cases, trial_of
from tests.faults.trials import READS, _tables, opened
from tests.faults.verbs import Case, Place
from tests.support.disks import LOSSES, RANDOM_LOSSES, LossyDisk
from tests.support.fixtures import empty_memory
from tests.support.invariants import assert_nothing_missing
from tests.support.tally import tally


@pytest.fixture(autouse=True)
def _empty_memory() -> Iterator[None]:
    yield
    empty_memory()


@cases
def test_what_a_verb_did_outlives_a_power_loss_once_it_has_returned(
    case: Case, kind: str, tmp_path: Path
) -> None:
    trial = trial_of(case, kind)
    disk = LossyDisk(str(tmp_path))
    catalog = laid_out(trial, tmp_path)
    with disk.under():
        case.verb(Place(catalog, trial.ready))
        lost = {loss.name: in_memory(disk.after(loss)) for loss in (*LOSSES, *RANDOM_LOSSES)}
    for name, left in lost.items():
        assert trial.seen_in(left) == trial.after, name
        left.restore()
        for table in _tables(opened(READS)):
            assert_nothing_missing(table)
    tally("power losses after a verb", len(lost))


@cases
def test_a_power_loss_amid_a_verb_leaves_the_table_as_it_was_or_as_it_is_to_be(
    case: Case, kind: str, tmp_path: Path
) -> None:
    trial = trial_of(case, kind)
    count = 0

    def look(name: str, path: str) -> None:
        nonlocal count
        for loss in (*LOSSES, *RANDOM_LOSSES[:1]):
            count += 1
            left = in_memory(disk.after(loss))
            try:
                trial.check_whole(trial.seen_in(left))
            except Exception as error:
                at = path.removeprefix(str(tmp_path))
                error.add_note(f"{case.name}: {loss.name} before {name} of {at}")
                raise

    disk = LossyDisk(str(tmp_path), look)
    catalog = laid_out(trial, tmp_path)
    with disk.under():
        case.verb(Place(catalog, trial.ready))
    tally("power losses amid a verb", count)
