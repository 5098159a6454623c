"""Mappings between the partitions of tables, of which one is made of the other."""

from __future__ import annotations

import dagster as dg
import pytest
from dagster._core.definitions.partitions.context import partition_loading_context

from lakewright.platform.orchestration.asset_partitions import partition_mapping

DAY = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-02-01")
LATER = dg.DailyPartitionsDefinition("2024-01-02", end_date="2024-02-01")
HOUR = dg.HourlyPartitionsDefinition("2024-01-01-00:00", end_date="2024-02-01-00:00")
LISTED = dg.StaticPartitionsDefinition(["JFK", "LGA"])
FOUND = dg.DynamicPartitionsDefinition(name="origin")
DAY_LISTED = dg.MultiPartitionsDefinition({"dt": DAY, "origin": LISTED})
DAY_FOUND = dg.MultiPartitionsDefinition({"dt": DAY, "origin": FOUND})
HOUR_LISTED = dg.MultiPartitionsDefinition({"ts": HOUR, "origin": LISTED})
EVERY: dict[str, dg.PartitionsDefinition[str] | None] = {
    "none": None,
    "day": DAY,
    "later": LATER,
    "hour": HOUR,
    "listed": LISTED,
    "found": FOUND,
    "day, listed": DAY_LISTED,
    "day, found": DAY_FOUND,
    "hour, listed": HOUR_LISTED,
}


def defined(
    upstream: dg.PartitionsDefinition[str] | None, downstream: dg.PartitionsDefinition[str] | None
) -> dg.Definitions:
    above = dg.AssetSpec("above", partitions_def=upstream)
    mapping = partition_mapping(upstream, downstream)
    below = dg.AssetSpec(
        "below", partitions_def=downstream, deps=[dg.AssetDep("above", partition_mapping=mapping)]
    )
    return dg.Definitions(assets=[above, below])


@pytest.mark.parametrize("upstream", EVERY)
@pytest.mark.parametrize("downstream", EVERY)
def test_every_pair_of_definitions_loads(upstream: str, downstream: str) -> None:
    loaded = defined(EVERY[upstream], EVERY[downstream])
    dg.Definitions.validate_loadable(loaded)


def above_of(
    upstream: dg.PartitionsDefinition[str], downstream: dg.PartitionsDefinition[str], key: str
) -> set[str]:
    """The partitions above that a partition below depends on."""
    graph = defined(upstream, downstream).get_repository_def().asset_graph
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("origin", ["JFK", "LGA"])
        with partition_loading_context(dynamic_partitions_store=instance):
            mapping = graph.get_partition_mapping(dg.AssetKey("below"), dg.AssetKey("above"))
            mapped = mapping.get_upstream_mapped_partitions_result_for_partitions(
                downstream.subset_with_partition_keys([key]), downstream, upstream
            )
            return set(mapped.partitions_subset.get_partition_keys())


def test_a_day_depends_on_its_hours() -> None:
    found = above_of(HOUR, DAY, "2024-01-05")
    assert len(found) == 24
    assert all(each.startswith("2024-01-05-") for each in found)


def test_a_day_depends_on_its_part_of_a_table_that_got_another_dimension() -> None:
    due = {"2024-01-05|JFK", "2024-01-05|LGA"}
    assert above_of(DAY_LISTED, DAY, "2024-01-05") == due
    assert above_of(DAY_FOUND, LATER, "2024-01-05") == due
    assert above_of(DAY, DAY_LISTED, "2024-01-05|JFK") == {"2024-01-05"}


def test_dimensions_depend_on_those_of_their_name_and_time_on_time() -> None:
    found = above_of(HOUR_LISTED, DAY_LISTED, "2024-01-05|JFK")
    assert len(found) == 24
    assert all(each.startswith("JFK|2024-01-05-") for each in found)


def test_what_nothing_relates_depends_on_everything() -> None:
    assert len(above_of(DAY, LISTED, "JFK")) == 31
    assert above_of(LISTED, DAY, "2024-01-05") == {"JFK", "LGA"}
