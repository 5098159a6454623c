"""Tables of later versions in Dagster: one that is not decoded stops no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewright.definitions import build_definitions
from lakewright.platform.decide.adopted import read_adopted
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.storage import Catalog
from tests.support.tables.java_kinds import java_kind


@pytest.mark.parametrize(("kind", "type_name"), [("blob", "BLOB"), ("variant", "VARIANT")])
def test_a_table_whose_columns_are_not_decoded_is_an_asset(
    tmp_path: Path, kind: str, type_name: str
) -> None:
    catalog = Catalog.open(str(tmp_path / "warehouse"))
    java_kind(catalog, kind)
    built = build_definitions(
        [],
        warehouse=WarehouseResource(uri=catalog.uri),
        adopted=["db.*"],
        adopted_tables=read_adopted(catalog, ["db.*"]),
    )
    (spec,) = (each for each in built.resolve_all_asset_specs() if each.key.path[-1] == kind)
    shown = [each.type for each in spec.metadata["dagster/column_schema"].columns]
    assert shown == ["BIGINT", type_name]
    # Files of single columns hold values of rows that other files hold too.
    assert ("dagster/row_count" in spec.metadata) is (kind == "variant")
