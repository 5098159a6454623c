"""Run config: made of a verb's options, and turned into them again."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.platform.orchestration.run_config import (
    TableVerbConfig,
    choices_of,
    config_class,
    options_of_run,
)
from lakewright.platform.tables.upkeep_policies import EngineChoice
from lakewright.platform.upkeep.compact import CompactRun
from lakewright.platform.upkeep.expire import ExpireSnapshotsRun
from lakewright.platform.upkeep.procedure import AnyProcedure
from lakewright.platform.upkeep.procedures import PROCEDURES
from lakewright.platform.upkeep.sort_compact import SortCompactRun
from lakewright.storage import Catalog, Table, VerifyLevel
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.lsm.sort_layout import SortOrder
from lakewright.storage.operations.running.verb_options import option_fields
from tests.support.tables.builders import new_table
from tests.support.tables.fixtures import memory_uri


@pytest.fixture
def table() -> Table:
    return new_table(Catalog.open(memory_uri()), partitions=("day",))


def asked(declared: Any, table: Table, **given: object) -> Any:
    return options_of_run(config_class(type(declared))(**given), declared, table)


@pytest.mark.parametrize("verb", PROCEDURES.values(), ids=PROCEDURES)
def test_every_option_can_be_given_and_none_must_be(verb: AnyProcedure, table: Table) -> None:
    config = config_class(verb.options)
    written = [each.written_name for each in option_fields(verb.options)]
    assert sorted(config.model_fields) == sorted(["dry_run", *written])
    planned = config_class(verb.options, TableVerbConfig)
    assert sorted(planned.model_fields) == sorted(["dry_run", "plan", *written])
    assert planned.to_config_schema()
    assert all(field.description for field in config.model_fields.values())
    # Dagster takes each of the types.
    assert config.to_config_schema()
    assert asked(verb.options(), table) == verb.options()


def test_what_a_run_says_stands_before_what_is_declared(table: Table) -> None:
    declared = CompactRun(min_files=5, full=True, engine=EngineChoice.SPARK)
    verify = choices_of(VerifyLevel)["full"]

    found = asked(declared, table, partitions=["a"], full=False, buckets=[1, 2], verify=verify)

    assert found == CompactRun(
        partitions=({"day": "a"},),
        buckets=(1, 2),
        full=False,
        min_files=5,
        engine=EngineChoice.SPARK,
        verify=VerifyLevel.FULL,
    )


def test_durations_and_choices_are_written_as_people_write_them(table: Table) -> None:
    declared = ExpireSnapshotsRun(time_retained_ms=1)
    assert asked(declared, table, time_retained="7d").time_retained_ms == 604_800_000
    assert asked(declared, table, time_retained="0s").time_retained_ms == 0
    order = choices_of(SortOrder)["zorder"]
    assert asked(SortCompactRun(), table, by=["id"], order=order).order is SortOrder.ZORDER


@pytest.mark.parametrize(
    ("declared", "given", "told"),
    [
        (ExpireSnapshotsRun(), {"max_duration": "7"}, "max_duration: '7' has no unit"),
        (CompactRun(), {"partitions": []}, "partitions is an empty list"),
        (CompactRun(), {"partitions": ["100%"]}, "is not an encoded partition value"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(
    table: Table, declared: object, given: dict[str, object], told: str
) -> None:
    with pytest.raises(InvalidRequestError, match=told):
        asked(declared, table, **given)


def test_a_table_without_partitions_has_none_to_name() -> None:
    table = new_table(Catalog.open(memory_uri()))
    with pytest.raises(InvalidRequestError, match="has no partitions; leave `partitions` out"):
        asked(CompactRun(), table, partitions=["a"])
