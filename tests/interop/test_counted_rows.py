"""Readers that know no counts refuse tables that count rows, instead of reading them wrongly."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Column, SchemaSpec, parse_data_type
from tests.oracles.client import Oracle, OracleError


@pytest.mark.parametrize("client", ["java", "pypaimon", "rust"])
@pytest.mark.mission("LG8")
def test_other_clients_refuse_counted_rows_by_name(
    client: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    catalog = Catalog.open(str(tmp_path))
    catalog.create_database("db")
    spec = SchemaSpec(
        columns=(Column("word", parse_data_type("STRING")),),
        options={"merge-engine": "value-count", "bucket": "1"},
    )
    table = catalog.create_table("db.words", spec)
    table.write(pa.table({"word": ["a", "a", "b"]}))
    assert table.read().num_rows == 3
    oracle: Oracle = request.getfixturevalue(client)
    # Java does not even open a table with buckets and no key to hash.
    with pytest.raises(OracleError, match=r"value-count|bucket-key"):
        oracle.read(tmp_path, "db.words")
