"""A compaction that copies row groups, with a crash or failure at every IO call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lakewright.storage.operations.rewrite import compact_append, copied_parts
from tests.faults.trials import FAULTS, Trial
from tests.faults.verbs import CASES
from tests.support.stores.watched_files import Fault
from tests.support.tables.fixtures import empty_memory

COMPACT = next(case for case in CASES if case.name == "compact")


@pytest.fixture(autouse=True)
def copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Row groups of any size are worth copying; the names of the files that were copied to."""
    found: list[str] = []
    write = copied_parts.write_copied

    def noted(*args: Any) -> Any:
        made = write(*args)
        found.append(made.file_name)
        return made

    monkeypatch.setattr(copied_parts, "_LEAST_GROUP_BYTES", 1)
    monkeypatch.setattr(compact_append, "write_copied", noted)
    yield found
    empty_memory()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.mission("FS9", "FS10")
@pytest.mark.sampled(2)
def test_copied_row_groups_are_there_once_after_a_failure_at_any_call(
    fault: Fault, copies: list[str]
) -> None:
    trial = Trial(COMPACT, "append")
    points = [trial.check(point) for point in trial.points(fault, None)]
    assert len(points) > 5
    assert len(copies) > 5


def test_a_reader_sees_the_rows_at_every_moment_of_a_copy(copies: list[str]) -> None:
    assert Trial(COMPACT, "append").look_at_every_moment() > 5
    assert copies
