"""What the oracles say of rows, and how they fail; `tests/interop` compares what they read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.oracles.client import (
    DataType,
    JavaOracle,
    LatestJavaOracle,
    Oracle,
    OracleError,
    WritingOracle,
)

pytestmark = pytest.mark.interop


@pytest.fixture
def warehouse(tmp_path: Path, java: JavaOracle) -> Path:
    """A warehouse with one row in db.t, which Java wrote."""
    options = {"file.format": "parquet", "bucket": "-1"}
    java.create(tmp_path, "db.t", {"id": "INT"}, options=options)
    java.write(tmp_path, "db.t", [{"id": 1}])
    return tmp_path


@pytest.mark.parametrize(
    ("data_type", "value", "expected_hex", "expected_hash"),
    [
        ("BIGINT", 1, "0100000000000000", 1465514398),
        ("STRING", "a", "6100000000000081", 943281246),
        ("INT", None, "0000000000000000", -1748325344),
        (
            "TIMESTAMP(6)",
            "2024-01-02T03:04:05.678901",
            "88bf0d00100000002edb20c88c010000",
            828821739,
        ),
        (
            "DECIMAL(30, 5)",
            "-1.00000",
            "03000000" + "10000000fe7960" + "00" * 13,
            -1936344773,
        ),
    ],
)
def test_java_encodes_rows_as_the_format_says(
    java: JavaOracle,
    java_latest: LatestJavaOracle,
    data_type: DataType,
    value: Any,
    expected_hex: str,
    expected_hash: int,
) -> None:
    # One field; then a bit for the kind of row, and those of nulls.
    head = "00000001" + ("0001000000000000" if value is None else "0000000000000000")
    for client in (java, java_latest):
        row = client.binary_row([data_type], [value])
        assert (row.hex, row.hash) == (head + expected_hex, expected_hash)


def test_released_pypaimon_cannot_read_manifests_of_java_0_9(
    warehouse: Path, released_pypaimon: WritingOracle
) -> None:
    with pytest.raises(OracleError, match="_VALUE_STATS_COLS") as failure:
        released_pypaimon.read(warehouse, "db.t")
    assert failure.value.kind == "KeyError"


def test_an_error_leaves_the_oracle_running(
    warehouse: Path, java: JavaOracle, pypaimon: WritingOracle, rust: Oracle
) -> None:
    readers: Sequence[Oracle] = (java, pypaimon, rust)
    for oracle in readers:
        with pytest.raises(OracleError):
            oracle.read(warehouse, "db.missing")
        assert oracle.read(warehouse, "db.t") == [{"id": 1}]
    with pytest.raises(OracleError, match="no such columns: other"):
        java.write(warehouse, "db.t", [{"other": 1}])


def test_a_lost_process_is_reported_with_its_last_words_and_replaced(
    warehouse: Path, rust: Oracle
) -> None:
    rust.read(warehouse, "db.t")
    assert rust._process is not None
    rust._process.kill()
    with pytest.raises(OracleError, match="its last words") as failure:
        rust.read(warehouse, "db.t")
    assert failure.value.kind == "died"
    assert rust.read(warehouse, "db.t") == [{"id": 1}]
