"""Dates and timestamps as other writers store them: as INT96, and in another calendar."""

from __future__ import annotations

import datetime as dt
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.storage.codec.avro_container import Header, encode_block, encode_header
from lakewright.storage.errors import UnfitValues, UnsupportedError
from lakewright.storage.files.data_file import Reading
from lakewright.storage.files.data_files import (
    WantedPieces,
    open_data_file,
    read_footer,
    read_pieces,
    read_rows,
    read_whole_days,
)
from lakewright.storage.files.file_systems import open_file_system

FAR = dt.datetime(9999, 12, 31)
OLD = dt.datetime(1, 1, 1, 12, 34, 56, 123_456)
NEAR = dt.datetime(2024, 1, 31, 13, 45, 0, 123_456)
EARLY = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)
MOMENTS = [FAR, None, NEAR, OLD, EARLY]
US, NS = pa.timestamp("us"), pa.timestamp("ns")


def write(path: Path, columns: dict[str, pa.Array], **how: Any) -> str:
    pq.write_table(pa.table(columns), path, use_deprecated_int96_timestamps=True, **how)
    return str(path)


def read(path: str, columns: list[str], **how: Any) -> pa.Table:
    fs, _ = open_file_system(str(Path(path).parent))
    return pa.concat_tables(list(read_rows(fs, path, columns, **how)))


def nested() -> dict[str, pa.Array]:
    """The same moments at every depth, with nulls at each."""
    rows = [None if each is None else {"at": each, "n": 1} for each in MOMENTS]
    return {
        "row": pa.array(rows, pa.struct([("at", US), ("n", pa.int32())])),
        "list": pa.array([MOMENTS, None, [], [None], [NEAR]], pa.list_(US)),
        "large": pa.array([MOMENTS, None, [], [None], [NEAR]], pa.large_list(US)),
        "map": pa.array([[(FAR, OLD), (NEAR, None)], None, [], [(OLD, FAR)], []], pa.map_(US, US)),
        "deep": pa.array(
            [[{"m": [(NEAR, [FAR])]}], None, [None], [{"m": None}], [{"m": []}]],
            pa.list_(pa.struct([("m", pa.map_(US, pa.list_(US)))])),
        ),
        "bytes": pa.array([b"x" * 12, None, b"y" * 12, b"z" * 12, b"w" * 12], pa.binary(12)),
    }


@pytest.mark.parametrize("batch_rows", [None, 1, 2])
@pytest.mark.parametrize("row_group_size", [2, 100])
@pytest.mark.parametrize("use_dictionary", [False, True])
def test_int96_is_read_without_a_wrap_at_every_depth(
    tmp_path: Path, batch_rows: int | None, row_group_size: int, use_dictionary: bool
) -> None:
    columns = {"at": pa.array(MOMENTS, US), **nested()}
    path = write(
        tmp_path / "a.parquet",
        columns,
        row_group_size=row_group_size,
        use_dictionary=use_dictionary,
        write_page_checksum=True,
    )
    for name, due in columns.items():
        found = [
            value
            for rows in read_rows(open_file_system(str(tmp_path))[0], path, [name])
            for value in rows.column(name).to_pylist()
        ]
        assert found == due.to_pylist(), name
    declared = Reading({name: values.type for name, values in columns.items()})
    in_batches = read(path, list(columns), batch_rows=batch_rows, reading=declared)
    for name, due in columns.items():
        assert in_batches.column(name).to_pylist() == due.to_pylist(), name


def test_pieces_without_bounds_are_all_read_and_pieces_can_be_chosen(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"at": pa.array(MOMENTS, US)}, row_group_size=2)
    fs, _ = open_file_system(str(tmp_path))
    known: list[Any] = []

    def may_hold(bounds: Any) -> bool:
        known.append(bounds)
        return True

    wanted = WantedPieces(["at"], may_hold, any_writer=True)
    pieces = list(read_pieces(fs, path, ["at"], expected_rows=5, wanted=wanted))
    assert [start for start, _ in pieces] == [0, 2, 4]
    assert [v for _, rows in pieces for v in rows.column("at").to_pylist()] == MOMENTS
    assert known == [{}, {}, {}]
    assert read_footer(fs, path, ["at"]).bounds == {}
    with open_data_file(fs, path, streams=True, reading=Reading({"at": US})) as file:
        assert file.piece_count == 3
        for batch_rows in (None, 1):
            some = pa.concat_tables(list(file.tables(["at"], batch_rows, [2, 1])))
            assert some.column("at").to_pylist() == [EARLY, NEAR, OLD]


def test_declared_types_hold_what_they_hold_and_refuse_the_rest_by_name(tmp_path: Path) -> None:
    exact = pa.array([1_706_708_700_123_456_789, None, -1], NS)
    path = write(tmp_path / "a.parquet", {"far": pa.array(MOMENTS[:3], US), "fine": exact})
    found = read(path, ["far", "fine"], reading=Reading({"far": US, "fine": NS}))
    assert found.column("far").to_pylist() == MOMENTS[:3]
    assert found.column("fine").cast(pa.int64()).to_pylist() == exact.cast(pa.int64()).to_pylist()
    assert read(path, ["far", "fine"]).schema.types == [US, NS]
    # INT96 counts in UTC: it is a moment where one is declared.
    zoned = pa.timestamp("us", "UTC")
    fs, _ = open_file_system(str(tmp_path))
    with open_data_file(fs, path, streams=True, reading=Reading({"far": zoned})) as file:
        assert file.schema.field("far").type == zoned
        (rows,) = file.tables(["far"], None)
    assert rows.column("far").type == zoned
    assert rows.column("far")[0].as_py() == FAR.replace(tzinfo=dt.UTC)
    for name, kind, value, why in (
        ("far", NS, "9999-12-31 00:00:00", "the years 1677 to 2262; let the column be TIMESTAMP"),
        ("fine", US, "2024-01-31 13:45:00.123456789", "microseconds do not hold all of its digits"),
        ("far", pa.timestamp("s"), "2024-01-31 13:45:00.123456", "seconds do not hold"),
    ):
        with pytest.raises(UnfitValues) as caught:
            read(path, [name], reading=Reading({name: kind}))
        text = str(caught.value)
        assert f"column {name} of data file {path} holds {value}" in text
        assert why in text
        assert caught.value.details["value"] == value


def test_far_moments_beside_fine_ones_are_refused_unless_digits_may_go(tmp_path: Path) -> None:
    # No array of the library holds both.
    near = write(tmp_path / "near.parquet", {"at": pa.array([1], NS)}, compression="none")
    far = write(tmp_path / "far.parquet", {"at": pa.array([FAR, NEAR], US)}, compression="none")
    change(far, moment(NEAR), struct.pack("<qI", 1, 2_440_588))
    assert read(near, ["at"]).column("at").type == NS
    with pytest.raises(UnfitValues, match=r"9999-12-31 00:00:00.*beside 1970-01-01 00:00:00.00000"):
        read(far, ["at"])
    found = read(far, ["at"], reading=Reading(cut={"at"}))
    assert found.column("at").to_pylist() == [FAR, dt.datetime(1970, 1, 1)]


def moment(value: dt.datetime) -> bytes:
    since = value - dt.datetime(1970, 1, 1)
    nanos = since.seconds * 10**9 + since.microseconds * 1000
    return struct.pack("<qI", nanos, since.days + 2_440_588)


def change(path: str, old: bytes, new: bytes) -> None:
    """Change bytes of values, wherever they are."""
    data = Path(path).read_bytes()
    assert old in data
    Path(path).write_bytes(data.replace(old, new))


@pytest.mark.parametrize("value", [EARLY, OLD, dt.datetime(1500, 2, 28, 23, 59, 59)])
@pytest.mark.parametrize("use_dictionary", [False, True])
def test_negative_nanoseconds_of_java_before_1970_are_the_day_before(
    tmp_path: Path, value: dt.datetime, use_dictionary: bool
) -> None:
    """Java Paimon and old versions of pyarrow write them; the library then adds 584 years."""
    path = write(
        tmp_path / "a.parquet",
        {"at": pa.array([value], US)},
        compression="none",
        use_dictionary=use_dictionary,
    )
    nanos, day = struct.unpack("<qI", moment(value))
    change(path, moment(value), struct.pack("<qI", nanos - 86_400 * 10**9, day + 1))
    library = pq.ParquetFile(path, coerce_int96_timestamp_unit="us").read()
    assert library.column("at")[0].as_py() != value
    assert read(path, ["at"], reading=Reading({"at": US})).column("at").to_pylist() == [value]
    fs, _ = open_file_system(str(tmp_path))
    (days,) = read_whole_days(fs, path, ["at"], batch_rows=None)
    assert days.column("at").to_pylist() == [(value - dt.datetime(1970, 1, 1)).days]


def test_a_file_without_int96_has_no_days_to_prove(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": pa.array([NEAR], US)}), tmp_path / "a.parquet")
    fs, _ = open_file_system(str(tmp_path))
    path = str(tmp_path / "a.parquet")
    assert list(read_whole_days(fs, path, ["at"], batch_rows=None)) == []
    assert read_footer(fs, path).uncertain == ()


# --- calendars ------------------------------------------------------------------------------------

LEGACY = {
    "org.apache.spark.version": "3.5.1",
    "org.apache.spark.legacyDateTime": "",
    "org.apache.spark.legacyINT96": "",
    "org.apache.spark.timeZone": "UTC",
}
# 1500-03-01 and 2024-01-31 as Java's hybrid calendar stores them.
STORED = [dt.datetime(1500, 3, 11), dt.datetime(2024, 1, 31)]
MEANT = [dt.datetime(1500, 3, 1), dt.datetime(2024, 1, 31)]


def marked(path: Path, marks: dict[str, str], *, int96: bool = False) -> str:
    days = pa.array(STORED, US).cast(pa.date32())
    moments = pa.array(STORED, US if int96 else pa.timestamp("us", "UTC"))
    rows = pa.table(
        {
            "day": days,
            "at": moments,
            "row": pa.StructArray.from_arrays([days, moments], ["day", "at"]),
            "local": pa.array(["a", "b"]) if int96 else pa.array(STORED, US),
        }
    ).replace_schema_metadata(marks)
    pq.write_table(rows, path, use_deprecated_int96_timestamps=int96)
    return str(path)


def naive(values: list[Any]) -> list[Any]:
    return [each.replace(tzinfo=None) if isinstance(each, dt.datetime) else each for each in values]


@pytest.mark.parametrize("int96", [False, True])
def test_marked_days_are_counted_anew_at_every_depth(tmp_path: Path, int96: bool) -> None:
    path = marked(tmp_path / "a.parquet", LEGACY, int96=int96)
    found = read(path, ["day", "at", "row", "local"])
    assert found.column("day").to_pylist() == [each.date() for each in MEANT]
    assert naive(found.column("at").to_pylist()) == MEANT
    rows = found.column("row").to_pylist()
    assert [each["day"] for each in rows] == [each.date() for each in MEANT]
    assert naive([each["at"] for each in rows]) == MEANT
    if not int96:
        # Spark has local timestamps in one calendar only.
        assert found.column("local").to_pylist() == STORED
    fs, _ = open_file_system(str(tmp_path))
    assert set(read_footer(fs, path).uncertain) >= {"day", "at", "row"}


def test_a_filter_passes_over_no_row_group_by_bounds_of_another_calendar(tmp_path: Path) -> None:
    path = marked(tmp_path / "a.parquet", LEGACY)
    fs, _ = open_file_system(str(tmp_path))
    footer = read_footer(fs, path, ["day", "at", "local"])
    assert set(footer.bounds) == {"local"}
    assert footer.null_counts["day"] == 0


@pytest.mark.parametrize(
    ("marks", "column"),
    [
        ({**LEGACY, "org.apache.spark.timeZone": "Europe/Berlin"}, "at"),
        ({"org.apache.spark.version": "2.4.8"}, "at"),
        ({"writer.time.zone": "UTC"}, "day"),
        ({"writer.date.proleptic": "true"}, "local"),
    ],
)
def test_values_whose_day_no_mark_tells_are_refused_by_name(
    tmp_path: Path, marks: dict[str, str], column: str
) -> None:
    path = marked(tmp_path / "a.parquet", marks)
    with pytest.raises(UnsupportedError, match="write the file again") as caught:
        read(path, [column])
    assert f"column {column} of data file {path}" in str(caught.value)
    assert "1500-03-11" in str(caught.value)
    # Of other columns nothing is in doubt.
    others = {"at": "local", "day": "id", "local": "day"}
    if column != "day":
        assert read(path, [others[column]]).num_rows == 2


@pytest.mark.parametrize("marks", [{}, {"org.apache.spark.version": "4.3.0"}, {"pandas": "{}"}])
@pytest.mark.parametrize("int96", [False, True])
def test_files_without_a_mark_are_read_as_they_are(
    tmp_path: Path, marks: dict[str, str], int96: bool
) -> None:
    path = marked(tmp_path / "a.parquet", marks, int96=int96)
    found = read(path, ["day", "at"])
    assert found.column("day").to_pylist() == [each.date() for each in STORED]
    assert naive(found.column("at").to_pylist()) == STORED


def test_avro_files_of_spark_are_counted_anew(tmp_path: Path) -> None:
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        ],
    }
    old = STORED[0] - dt.datetime(1970, 1, 1)
    numbers = [old.days, *[old // dt.timedelta(microseconds=1)] * 2]
    block = b"".join(map(varint, numbers))
    for marks, due in (({}, STORED[0]), (LEGACY, MEANT[0])):
        data = encode_header(Header(schema, "null", b"0" * 16))
        extra = b"".join(counted(key) + counted(value) for key, value in marks.items())
        # The header is one map; its marks come behind the two keys of the format.
        data = data.replace(b"Obj\x01\x04", b"Obj\x01" + varint(2 + len(marks)))
        data = data.replace(b"\x00" + b"0" * 16, extra + b"\x00" + b"0" * 16)
        path = tmp_path / "a.avro"
        header = Header(schema, "null", b"0" * 16)
        path.write_bytes(data + encode_block(block, 1, header, level=1))
        found = read(str(path), ["day", "at", "local"])
        assert found.column("day").to_pylist() == [due.date()]
        assert found.column("at").to_pylist() == [due]
        assert naive(found.column("local").to_pylist()) == [STORED[0]]


def varint(number: int) -> bytes:
    left, found = (number << 1) ^ (number >> 63), b""
    while left > 0x7F:
        found, left = found + bytes([left & 0x7F | 0x80]), left >> 7
    return found + bytes([left])


def counted(text: str) -> bytes:
    return varint(len(text.encode())) + text.encode()
