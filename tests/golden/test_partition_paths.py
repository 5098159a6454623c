"""Folders of partitions, as Java and pypaimon name them."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.storage import parse_data_type
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.partition import partition_path
from lakewright.storage.spec.values import from_python

NOTHING = "__DEFAULT_PARTITION__"
# Type, value, folder, and folder with `partition.legacy-name` = false where it is another.
PATHS: list[tuple[str, Any, str, str | None]] = [
    ("STRING", "a/b:c=d e%", "a%2Fb%3Ac%3Dd e%25", None),
    ("STRING", None, NOTHING, None),
    ("STRING", "", NOTHING, None),
    ("STRING", "   ", NOTHING, None),
    (
        "STRING",
        "\x00\x1f\x7f\"#%'*/:=?\\{}[]^",
        "%00%1F%7F%22%23%25%27%2A%2F%3A%3D%3F%5C%7B%7D%5B%5D%5E",
        None,
    ),
    ("STRING", "ä 中&|<>~", "ä 中&|<>~", None),
    ("BOOLEAN", True, "true", None),
    ("INT", -7, "-7", None),
    ("BIGINT", 2**63 - 1, "9223372036854775807", None),
    ("DATE", "2024-01-02", "19724", "2024-01-02"),
    ("DATE", "1969-12-31", "-1", "1969-12-31"),
    ("DATE", "0001-01-01", "-719162", "0001-01-01"),
    ("DECIMAL(5, 2)", "1.2", "1.20", None),
    ("DECIMAL(30, 12)", "0.000000000001", "0.000000000001", None),
    ("TIMESTAMP(3)", "2024-01-02T03:04", "2024-01-02T03%3A04", "2024-01-02 03%3A04%3A00.000"),
    (
        "TIMESTAMP(3)",
        "2024-01-02T03:04:05.12",
        "2024-01-02T03%3A04%3A05.120",
        "2024-01-02 03%3A04%3A05.120",
    ),
    (
        "TIMESTAMP(6)",
        "2024-01-02T03:04:05.678901",
        "2024-01-02T03%3A04%3A05.678901",
        "2024-01-02 03%3A04%3A05.678901",
    ),
    ("TIMESTAMP(6)", "0001-01-01T00:00:00", "0001-01-01T00%3A00", "0001-01-01 00%3A00%3A00.000000"),
    ("FLOAT", 0.1, "0.1", None),
    ("DOUBLE", 1e20, "1.0E20", None),
    ("DOUBLE", 1e7, "1.0E7", None),
    ("DOUBLE", 123456.789, "123456.789", None),
    ("DOUBLE", 1.25e-5, "1.25E-5", None),
    ("DOUBLE", 5e-324, "4.9E-324", None),
    ("DOUBLE", 1e-323, "9.9E-324", None),
    ("FLOAT", 2**-149, "1.4E-45", None),
    ("FLOAT", 1e6, "1000000.0", None),
    ("FLOAT", 3.4028235e38, "3.4028235E38", None),
    ("DOUBLE", -0.0, "-0.0", None),
    ("DOUBLE", float("nan"), "NaN", None),
    ("DOUBLE", float("-inf"), "-Infinity", None),
]


@pytest.mark.parametrize(("type_name", "given", "folder", "newer"), PATHS)
@pytest.mark.mission("PT10", "PT45", "FS4")
def test_a_partition_lies_in_the_folder_of_its_value(
    type_name: str, given: Any, folder: str, newer: str | None
) -> None:
    field = DataField(0, "p", parse_data_type(type_name))
    value = from_python(given, field.type)
    assert partition_path([field], [value]) == f"p={folder}"
    assert partition_path([field], [value], legacy_name=False) == f"p={newer or folder}"


def test_folders_follow_the_order_of_the_keys_and_escape_their_names() -> None:
    fields = [
        DataField(0, "a=b", parse_data_type("INT")),
        DataField(1, "c", parse_data_type("INT")),
    ]
    assert partition_path(fields, [1, None]) == "a%3Db=1/c=__DEFAULT_PARTITION__"
    assert partition_path(fields, [None, 2], default_name="none") == "a%3Db=none/c=2"
    assert partition_path([], []) == ""
