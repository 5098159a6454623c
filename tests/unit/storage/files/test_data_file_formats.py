"""Data files of every format: round trips, also in pieces, and detection of damage."""

from __future__ import annotations

import datetime as dt
import errno
import itertools
import json
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pyarrow import orc

from lakewright.storage import Catalog
from lakewright.storage.codec.arrow_cast import cast_column
from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.avro_container import Header, encode_block, encode_header
from lakewright.storage.errors import (
    CorruptionError,
    FileMissing,
    InvalidOption,
    InvalidRows,
    UnavailableError,
    UnsupportedError,
)
from lakewright.storage.files.data_files import open_data_file_writer, read_footer, read_rows
from lakewright.storage.files.file_systems import open_file_system
from lakewright.storage.spec.data_types import DataField, DataType
from lakewright.storage.spec.file_format import COMPRESSIONS, check_holds, file_encoding
from lakewright.storage.spec.options import read_options
from lakewright.storage.spec.schema import new_schema
from tests.support.stores.watched_files import WatchedFiles
from tests.support.tables.builders import (
    EVENTS,
    compact,
    content,
    events,
    new_table,
    rows,
    spec,
    with_options,
)
from tests.support.tables.fixtures import memory_uri
from tests.support.values.strategies import data_types, values

FORMATS = list(COMPRESSIONS)
DAYS = {"k": "BIGINT NOT NULL", "s": "STRING", "day": "DATE", "d": "DOUBLE"}


class Folder:
    """Data files in a store of their own."""

    def __init__(self) -> None:
        self.fs, self.root = open_file_system(memory_uri())
        self._numbers = itertools.count()

    def write(
        self, tables: list[pa.Table], format_name: str, compression: str = "zstd", **options: str
    ) -> str:
        """A file that these tables make together."""
        schema = new_schema(spec(EVENTS, options=options), time_millis=0)
        encoding = file_encoding(format_name, compression, suffix_has_compression=False)
        path = f"{self.root}/data-{next(self._numbers)}{encoding.suffix}"
        writer = open_data_file_writer(
            self.fs, path, tables[0].schema, read_options(schema), encoding
        )
        for table in tables:
            writer.write(table)
        size = writer.close()
        assert size == len(self.fs.read_bytes(path))
        assert writer.row_count == sum(table.num_rows for table in tables)
        return path

    def read(self, path: str, columns: list[str], **how: Any) -> list[pa.Table]:
        return list(read_rows(self.fs, path, columns, **how))


@pytest.fixture
def folder() -> Folder:
    return Folder()


def days(count: int) -> pa.Table:
    numbers = pa.array(range(count), pa.int64())
    return pa.table(
        {
            "k": numbers,
            "s": pa.array([None if each % 7 == 0 else f"name {each}" for each in range(count)]),
            "day": pa.array([each % 1000 for each in range(count)], pa.int32()).cast(pa.date32()),
            "d": pa.array([each / 3 for each in range(count)]),
        }
    )


def as_written(read: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows of a read, in the types of the write."""
    columns = [cast_column(read.column(each.name), each.type) for each in schema]
    return pa.table(columns, schema=schema)


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.mission("FS3", "FS17")
def test_columns_come_back_in_the_order_asked_for(folder: Folder, format_name: str) -> None:
    rows_written = days(1000)
    path = folder.write([rows_written.slice(0, 400), rows_written.slice(400)], format_name)
    (read,) = folder.read(path, ["d", "k"])
    assert read.column_names == ["d", "k"]
    assert read.to_pylist() == rows_written.select(["d", "k"]).to_pylist()
    (read,) = folder.read(path, rows_written.column_names, expected_rows=1000)
    assert as_written(read, rows_written.schema).to_pylist() == rows_written.to_pylist()


@pytest.mark.parametrize("format_name", ["parquet", "orc"])
@pytest.mark.parametrize("order", [["k", "a.b", "a"], ["a", "k", "a.b"]])
def test_a_name_with_a_dot_is_no_member_of_another_column(
    folder: Folder, format_name: str, order: list[str]
) -> None:
    given = {"k": [1, 2], "a.b": [3, 4], "a": [{"b": 50, "c.d": 60}, {"b": 51, "c.d": 61}]}
    written = pa.table({name: given[name] for name in order})
    path = folder.write([written], format_name)
    for asked in ([name] for name in order):
        for batch_rows in (None, 5):
            (read,) = folder.read(path, asked, batch_rows=batch_rows)
            assert read.select(asked).to_pylist() == written.select(asked).to_pylist()
    expected = {"k": (1, 2), "a.b": (3, 4)} if format_name == "parquet" else {}
    assert read_footer(folder.fs, path, ["k", "a.b", "a"]).bounds == expected


class _FailingInput(BytesIO):
    def read(self, size: int | None = -1) -> bytes:
        raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_disk_that_fails_while_a_file_is_read_is_not_taken_for_damage(
    folder: Folder, format_name: str
) -> None:
    path = folder.write([days(1000)], format_name)
    opens = lambda call, opened: _FailingInput(opened.read())  # noqa: E731
    failing = WatchedFiles(folder.fs, tells=opens)
    with pytest.raises(UnavailableError, match="cannot be read now"):
        list(read_rows(failing, path, ["k"]))
    assert folder.read(path, ["k"])[0].num_rows == 1000


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("batch_rows", [1, 7, 1000, 5000])
def test_batches_hold_all_rows_in_order_and_none_too_many(
    folder: Folder, format_name: str, batch_rows: int
) -> None:
    whole = days(2500)
    path = folder.write([whole], format_name)
    batches = folder.read(path, ["k", "s"], batch_rows=batch_rows)
    assert {each.num_rows for each in batches[:-1]} <= set(range(1, batch_rows + 1))
    assert pa.concat_tables(batches).to_pylist() == whole.select(["k", "s"]).to_pylist()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format_name", FORMATS)
def test_reading_in_batches_takes_a_fraction_of_the_file_s_memory(
    folder: Folder, format_name: str
) -> None:
    whole = days(400_000)
    path = folder.write(
        [whole], format_name, **{"parquet.block.size": "1 mb", "orc.stripe.size": "64 kb"}
    )
    size, whole = whole.nbytes, whole.slice(0, 1)
    before = pa.total_allocated_bytes()
    peak = 0
    for _ in read_rows(folder.fs, path, ["k", "s", "day", "d"], batch_rows=4096):
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert peak < size / 3


_TYPES = st.lists(data_types(), min_size=1, max_size=3)


@given(data=st.data(), types=_TYPES)
@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.mission("SE28", "FS3", "FS17")
def test_values_of_any_type_are_read_as_they_were_written(
    format_name: str, types: list[DataType], data: st.DataObject
) -> None:
    fields = [DataField(number, f"c{number}", each) for number, each in enumerate(types)]
    try:
        check_holds(format_name, fields, table="db.t")
    except UnsupportedError:
        assume(False)
    schema = to_arrow_schema(fields)
    drawn = [
        pa.array(data.draw(st.lists(values(each.type), min_size=5, max_size=5)), field.type)
        for each, field in zip(fields, schema, strict=True)
    ]
    written = pa.table(drawn, schema=schema)
    # Slices, since what begins inside of an array is what is easily got wrong.
    parts = [written.slice(0, 2), written.slice(2, 0), written.slice(2)]
    folder = Folder()
    # ORC files take fewer timestamps than others, which has a test of its own.
    unheld: Any = InvalidRows if format_name == "orc" else ()
    try:
        path = folder.write(parts, format_name)
    except unheld:
        assume(False)
    for batch_rows in (None, 2):
        read = pa.concat_tables(folder.read(path, schema.names, batch_rows=batch_rows))
        back = as_written(read, schema)
        back.validate(full=True)
        # Arrow compares types anew with each cast, and refuses nulls where they may not be.
        back.cast(schema)
        assert repr(back.to_pylist()) == repr(written.to_pylist())


# --- damage -----------------------------------------------------------------------------------


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("batch_rows", [None, 100])
@pytest.mark.parametrize("kept", [0.0, 0.001, 0.1, 0.5, 0.99])
def test_a_file_cut_short_is_corrupt_before_it_gives_a_row(
    folder: Folder, format_name: str, batch_rows: int | None, kept: float
) -> None:
    path = folder.write([days(5000)], format_name)
    data = folder.fs.read_bytes(path)
    folder.fs.write_bytes(path, data[: int(len(data) * kept)])
    with pytest.raises(CorruptionError) as caught:
        next(read_rows(folder.fs, path, ["k"], batch_rows=batch_rows))
    assert path in str(caught.value)
    with pytest.raises(CorruptionError):
        read_footer(folder.fs, path)


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_file_of_something_else_is_corrupt(folder: Folder, format_name: str) -> None:
    path = f"{folder.root}/data-0.{format_name}"
    folder.fs.write_bytes(path, b"PAR1" + bytes(range(256)) * 4)
    with pytest.raises(CorruptionError, match=path):
        folder.read(path, ["k"])


@pytest.mark.parametrize("compression", ["zstd", "snappy", "deflate", "bzip2", "xz"])
def test_damage_inside_of_an_avro_block_is_noticed(folder: Folder, compression: str) -> None:
    path = folder.write([days(100)], "avro", compression)
    data = bytearray(folder.fs.read_bytes(path))
    middle_of_block = (data.index(data[-16:]) + 16 + len(data) - 16) // 2
    data[middle_of_block : middle_of_block + 8] = b"damaged!"
    folder.fs.write_bytes(path, bytes(data))
    with pytest.raises(CorruptionError, match=path):
        folder.read(path, ["k", "s", "day", "d"])


@pytest.mark.parametrize("format_name", ["parquet", "avro"])
def test_one_changed_byte_anywhere_is_never_another_value(folder: Folder, format_name: str) -> None:
    """Parquet pages and Avro blocks carry checksums; ORC, which has none, is left out."""
    whole = days(2000)
    path = folder.write([whole], format_name)
    good = folder.fs.read_bytes(path)
    for place in range(0, len(good), 97):
        changed = bytearray(good)
        changed[place] ^= 0x10
        folder.fs.write_bytes(path, bytes(changed))
        try:
            (read,) = folder.read(path, whole.column_names, expected_rows=2000)
        except (CorruptionError, UnsupportedError):
            continue
        assert read.to_pylist() == whole.to_pylist(), place


def test_an_avro_block_with_rows_left_over_is_corrupt(folder: Folder) -> None:
    path = folder.write([days(3)], "avro", "none")
    data = folder.fs.read_bytes(path)
    sync = data[-16:]
    first = data.index(sync) + 16
    # The count is the first byte of the block: three rows, as a zigzag number.
    assert data[first] == 6
    for claimed in (2, 4):
        changed = data[:first] + bytes([2 * claimed]) + data[first + 1 :]
        folder.fs.write_bytes(path, changed)
        with pytest.raises(CorruptionError, match=path):
            folder.read(path, ["k"])


@pytest.mark.parametrize("format_name", FORMATS)
def test_another_number_of_rows_than_the_manifest_says_is_corruption(
    folder: Folder, format_name: str
) -> None:
    path = folder.write([days(10)], format_name)
    assert read_footer(folder.fs, path).row_count == 10
    with pytest.raises(CorruptionError, match="holds 10 rows, its manifest says 11"):
        folder.read(path, ["k"], expected_rows=11)


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_column_that_is_not_there_is_named(folder: Folder, format_name: str) -> None:
    path = folder.write([days(10)], format_name)
    with pytest.raises(CorruptionError, match="lacks column 'nope'"):
        folder.read(path, ["k", "nope"])


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_file_that_is_not_there_is_missing(folder: Folder, format_name: str) -> None:
    with pytest.raises(FileMissing, match=r"is missing; if the snapshot"):
        folder.read(f"{folder.root}/data-0.{format_name}", ["k"])


def test_a_file_of_an_unknown_format_is_refused_by_its_suffix(folder: Folder) -> None:
    path = f"{folder.root}/data-0.csv"
    folder.fs.write_bytes(path, b"a,b\n")
    for attempt in (lambda: folder.read(path, ["a"]), lambda: read_footer(folder.fs, path)):
        with pytest.raises(UnsupportedError, match=r"data-0\.csv .* parquet, orc, avro"):
            attempt()


# --- other libraries --------------------------------------------------------------------------


def test_another_avro_library_reads_what_we_write(folder: Folder) -> None:
    path = folder.write([days(300)], "avro", "deflate")
    reader = fastavro.reader(BytesIO(folder.fs.read_bytes(path)))
    assert list(reader) == days(300).to_pylist()
    assert reader.codec == "deflate"


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "zstandard"])
@pytest.mark.parametrize("null_first", [True, False])
def test_we_read_what_another_avro_library_writes(
    folder: Folder, codec: str, null_first: bool
) -> None:
    day = {"type": "int", "logicalType": "date"}
    optional = (
        [["null", "string"], ["null", day]] if null_first else [["string", "null"], [day, "null"]]
    )
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "k", "type": "long"},
            {"name": "s", "type": optional[0]},
            {"name": "day", "type": optional[1]},
            {"name": "d", "type": "double"},
        ],
    }
    output = BytesIO()
    expected = days(500).to_pylist()
    fastavro.writer(output, schema, expected, codec=codec, sync_interval=1000)
    path = f"{folder.root}/data-0.avro"
    folder.fs.write_bytes(path, output.getvalue())
    assert read_footer(folder.fs, path).row_count == 500
    (read,) = folder.read(path, ["k", "s", "day", "d"], expected_rows=500)
    assert read.to_pylist() == expected


def test_an_avro_value_that_is_no_column_is_refused_by_name(folder: Folder) -> None:
    path = f"{folder.root}/data-0.avro"
    for kind in (["string", "long"], {"type": "enum", "name": "e", "symbols": ["a"]}):
        record = {"type": "record", "name": "r", "fields": [{"name": "k", "type": kind}]}
        header = Header(record, "null", b"0" * 16)
        block = encode_block(b"\x00\x02a", 1, header, level=1)
        folder.fs.write_bytes(path, encode_header(header) + block)
        with pytest.raises(UnsupportedError, match="which cannot be read as a column"):
            folder.read(path, ["k"])


# --- options ----------------------------------------------------------------------------------

_ON_DISK = {
    ("parquet", "zstd"): "ZSTD",
    ("parquet", "none"): "UNCOMPRESSED",
    ("parquet", "snappy"): "SNAPPY",
    ("parquet", "gzip"): "GZIP",
    ("parquet", "lz4"): "LZ4",
    ("orc", "zstd"): "ZSTD",
    ("orc", "none"): "UNCOMPRESSED",
    ("orc", "snappy"): "SNAPPY",
    ("orc", "zlib"): "ZLIB",
    ("orc", "lz4"): "LZ4",
    ("avro", "zstd"): "zstandard",
    ("avro", "none"): "null",
    ("avro", "snappy"): "snappy",
    ("avro", "deflate"): "deflate",
    ("avro", "bzip2"): "bzip2",
    ("avro", "xz"): "xz",
}


def compression_on_disk(data: bytes, format_name: str) -> str:
    if format_name == "parquet":
        group = pq.ParquetFile(BytesIO(data)).metadata.row_group(0)
        return str(group.column(0).compression)
    if format_name == "orc":
        return str(orc.ORCFile(BytesIO(data)).compression)
    # fastavro needs libraries for some codecs to go on reading, so only the header is looked at.
    return data.split(b"avro.codec", 1)[1][1:].split(b"\x00", 1)[0].decode()


def test_every_compression_a_format_knows_is_tried_here() -> None:
    assert set(_ON_DISK) == {(name, each) for name in COMPRESSIONS for each in COMPRESSIONS[name]}


@pytest.mark.parametrize(("format_name", "compression"), list(_ON_DISK))
def test_files_are_compressed_as_asked(folder: Folder, format_name: str, compression: str) -> None:
    path = folder.write([days(3000)], format_name, compression)
    found = compression_on_disk(folder.fs.read_bytes(path), format_name)
    assert found == _ON_DISK[format_name, compression]
    (read,) = folder.read(path, ["k", "s", "day", "d"])
    assert read.to_pylist() == days(3000).to_pylist()


def test_a_higher_zstd_level_makes_smaller_files(folder: Folder) -> None:
    text = pa.array([f"{each * each % 9973} and {each % 131} of {each}" for each in range(20_000)])
    whole = pa.table({"s": text})
    for format_name in ("parquet", "avro"):
        low, high = (
            len(folder.fs.read_bytes(folder.write([whole], format_name, **options)))
            for options in ({}, {"file.compression.zstd-level": "15"})
        )
        assert high < low


def test_sizes_inside_of_files_are_as_asked(folder: Folder) -> None:
    whole = days(200_000)
    coarse = folder.write([whole], "parquet")
    fine = folder.write([whole], "parquet", **{"file.block-size": "1 mb"})
    groups = [pq.ParquetFile(BytesIO(folder.fs.read_bytes(each))) for each in (coarse, fine)]
    assert groups[0].num_row_groups == 1
    assert 5 <= groups[1].num_row_groups <= 20
    coarse = folder.write([whole], "orc")
    fine = folder.write(
        [whole], "orc", **{"orc.stripe.size": "256 kb", "orc.row.index.stride": "5000"}
    )
    stripes = [orc.ORCFile(BytesIO(folder.fs.read_bytes(each))) for each in (coarse, fine)]
    assert stripes[0].nstripes == 1
    assert stripes[1].nstripes > 1
    assert [each.row_index_stride for each in stripes] == [10_000, 5000]
    plain = folder.write([whole], "parquet", **{"parquet.enable.dictionary": "false"})
    column = pq.ParquetFile(BytesIO(folder.fs.read_bytes(plain))).metadata.row_group(0).column(2)
    assert not column.has_dictionary_page


def test_long_decimals_have_no_dictionary_in_which_java_would_miss_them(folder: Folder) -> None:
    number = Decimal("0.000000000001")
    long, short = pa.decimal128(30, 12), pa.decimal128(18, 12)
    nested = pa.struct([("long", pa.list_(long)), ("text", pa.string())])
    rows = pa.table(
        {
            "long": pa.array([number] * 3, long),
            "short": pa.array([number] * 3, short),
            "nested": pa.array([{"long": [number], "text": "x"}] * 3, nested),
        }
    )
    path = folder.write([rows], "parquet")
    group = pq.ParquetFile(BytesIO(folder.fs.read_bytes(path))).metadata.row_group(0)
    columns = [group.column(each) for each in range(group.num_columns)]
    assert {each.path_in_schema: each.has_dictionary_page for each in columns} == {
        "long": False,
        "short": True,
        "nested.long.list.element": False,
        "nested.text": True,
    }


@pytest.mark.parametrize(
    ("format_name", "name", "value"),
    [
        ("orc", "orc.compress.size", "1 b"),
        ("orc", "orc.compress.size", "1 gb"),
        ("orc", "orc.stripe.size", "1 b"),
        ("orc", "orc.row.index.stride", "2000000000"),
        ("orc", "orc.dictionary.key.threshold", "0.8"),
        ("parquet", "parquet.page.size", "1 b"),
        ("parquet", "parquet.block.size", "100 tb"),
        ("parquet", "file.compression.zstd-level", "99"),
        ("avro", "file.compression.zstd-level", "99"),
    ],
)
def test_sizes_that_make_no_sense_do_no_harm(
    folder: Folder, format_name: str, name: str, value: str
) -> None:
    whole = days(1000)
    path = folder.write([whole], format_name, **{name: value})
    (read,) = folder.read(path, whole.column_names)
    assert read.to_pylist() == whole.to_pylist()


LEVELS = {
    "file.format": "orc",
    "file.format.per.level": "0:avro, 5:parquet",
    "file.compression": "snappy",
    "file.compression.per.level": "5:gzip",
    "file.suffix.include.compression": "true",
}


def test_a_level_has_the_format_and_compression_that_the_options_give_it() -> None:
    options = read_options(new_schema(spec(EVENTS, options=LEVELS), time_millis=0))
    suffixes = {level: options.file_encoding(level).suffix for level in (0, 1, 5)}
    assert suffixes == {0: ".snappy.avro", 1: ".snappy.orc", 5: ".gzip.parquet"}
    assert options.file_encoding(0, changelog=True).suffix == ".snappy.avro"
    changelog = {"changelog-file.format": "parquet", "changelog-file.compression": "none"}
    options = read_options(new_schema(spec(EVENTS, options=LEVELS | changelog), time_millis=0))
    assert options.file_encoding(0, changelog=True) == ("parquet", "none", ".parquet")
    assert options.file_encoding(0).suffix == ".snappy.avro"


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"file.format": "lance"}, UnsupportedError, "file.format=lance"),
        ({"file.format.per.level": "0:csv"}, UnsupportedError, "csv.*parquet, orc, avro"),
        ({"file.format.per.level": "avro"}, InvalidOption, "write levels and values as in"),
        ({"file.format.per.level": "x:avro"}, InvalidOption, "write levels and values as in"),
        ({"file.compression": "lzo"}, InvalidOption, "file.compression=lzo"),
        ({"file.compression.per.level": "1:lzo"}, InvalidOption, "'lzo' is not one of"),
        ({"file.compression": "gzip", "file.format": "orc"}, InvalidOption, "zstd, none, snappy"),
        ({"file.compression": "lz4", "file.format": "avro"}, InvalidOption, "not compressed with"),
        ({"changelog-file.compression": "xz"}, InvalidOption, "parquet files are not compressed"),
        ({"orc.dictionary.key.threshold": "2"}, InvalidOption, "not between 0 and 1"),
    ],
)
def test_options_that_no_file_can_follow_are_refused_when_the_table_is_made(
    catalog: Catalog, given: dict[str, str], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        new_table(catalog, keys=["id"], options={"bucket": "1", **given})
    assert catalog.list_databases() == ()


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (("a b", "INT"), "'a b' is not an Avro name"),
        (("ä", "INT"), "is not an Avro name"),
        (("a", "ROW<`1` INT>"), "'1' is not an Avro name"),
        (("a", "TIMESTAMP(9)"), "finer than microseconds"),
        (("a", "ARRAY<MAP<INT, TIMESTAMP(7) WITH LOCAL TIME ZONE>>"), "finer than microseconds"),
        (("a", "MULTISET<TIME(6)>"), "finer than milliseconds"),
    ],
)
def test_columns_that_avro_cannot_hold_are_refused_when_the_table_is_made(
    catalog: Catalog, column: tuple[str, str], words: str
) -> None:
    name, kind = column
    with pytest.raises(UnsupportedError, match=words) as caught:
        new_table(catalog, {"k": "INT", name: kind}, options={"file.format": "avro"})
    assert "choose parquet or orc" in str(caught.value)
    keyed: dict[str, Any] = {"keys": ["k"], "options": {"bucket": "1"}}
    keyed["options"]["file.format.per.level"] = "0:avro"
    with pytest.raises(UnsupportedError, match=words):
        new_table(catalog, {"k": "INT", name: kind}, **keyed)


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        (dt.datetime(9999, 12, 31), "outside of the years 1677 to 2262"),
        (dt.datetime(1969, 12, 31, 23, 59, 59, 1), "before 1970 with a fraction of a second"),
    ],
)
def test_timestamps_that_orc_files_cannot_hold_leave_nothing_behind(
    catalog: Catalog, moment: dt.datetime, words: str
) -> None:
    options = {"file.format": "orc"}
    table = new_table(catalog, {"k": "INT", "r": "ROW<t TIMESTAMP(6)>"}, options=options)
    table.write(rows(table, [{"k": 1, "r": {"t": dt.datetime(1969, 12, 31, 23, 59, 59)}}]))
    before = content(table)
    with pytest.raises(InvalidRows, match=words):
        table.write(rows(table, [{"k": 2}, {"k": 3, "r": {"t": moment}}]))
    assert content(table) == before
    assert len(table.history.snapshots()) == 1


def test_orc_timestamps_beyond_the_reach_of_nanoseconds_are_read(folder: Folder) -> None:
    values = [253402300799999999, None, -62135596800000000, *range(3000)]
    written = pa.table(
        {
            "k": pa.array(range(len(values)), pa.int64()),
            "t": pa.array(values, pa.timestamp("us")),
            "near": pa.array([0] * len(values), pa.timestamp("us")),
        }
    )
    path = f"{folder.root}/data-0.orc"
    output = BytesIO()
    orc.write_table(written, output, stripe_size=4096)
    folder.fs.write_bytes(path, output.getvalue())
    for columns in (["k", "t"], ["t"], ["near", "t", "k"]):
        for batch_rows in (None, 1000):
            expected = written.select(columns)
            parts = folder.read(path, columns, batch_rows=batch_rows)
            read = pa.concat_tables([as_written(part, expected.schema) for part in parts])
            assert read.to_pylist() == expected.to_pylist()


def test_orc_timestamps_beyond_reach_inside_of_rows_are_refused_not_misread(folder: Folder) -> None:
    path = f"{folder.root}/data-0.orc"
    output = BytesIO()
    times = pa.array([253402300799999999], pa.timestamp("us"))
    orc.write_table(pa.table({"r": pa.StructArray.from_arrays([times], ["t"])}), output)
    folder.fs.write_bytes(path, output.getvalue())
    with pytest.raises(UnsupportedError, match="outside of the years 1677 to 2262"):
        folder.read(path, ["r"])


def test_orc_columns_carry_their_field_ids(catalog: Catalog) -> None:
    columns = {"k": "INT", "t": "TIME(3)", "r": "ROW<a INT>"}
    table = new_table(catalog, columns, options={"file.format": "orc"})
    table.write(rows(table, [{"k": 1, "t": dt.time(1, 2, 3), "r": {"a": 1}}]))
    (entry,) = table.at().files()
    data = table.table_files.fs.read_bytes(table.table_files.entry_paths(entry)[0])
    schema = orc.ORCFile(BytesIO(data)).schema
    assert [field.metadata for field in schema] == [
        {b"paimon.id": str(field.id).encode()} for field in table.schema.fields
    ]
    assert schema.field("t").type == pa.int32()


# --- tables -----------------------------------------------------------------------------------


def suffixes(table: Any) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for entry in table.at().files():
        found.setdefault(entry.file.level, set()).add(entry.file.file_name.split(".", 1)[1])
    return found


@pytest.mark.mission("FS3", "FS17")
def test_each_level_of_a_table_is_written_in_its_format_and_all_are_read(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1", **LEVELS})
    table.write(rows(table, events(0, 10)))
    table.write(rows(table, events(0, 10)))
    compact(table, full=True)
    assert suffixes(table) == {5: {"gzip.parquet"}}
    table.write(rows(table, events(5, 12, v="new")))
    assert suffixes(table) == {0: {"snappy.avro"}, 5: {"gzip.parquet"}}
    assert content(table) == as_content(events(0, 5) + events(5, 12, v="new"))


@pytest.mark.mission("FS3", "FS17")
def test_a_table_s_format_may_change_and_its_older_files_are_read_on(catalog: Catalog) -> None:
    table = new_table(catalog)
    expected: list[dict[str, Any]] = []
    for number, format_name in enumerate(FORMATS):
        changed = with_options(table, file__format=format_name)
        changed.write(rows(table, events(number, number + 2)))
        expected += events(number, number + 2)
    assert suffixes(table) == {0: set(FORMATS)}
    assert content(table) == as_content(expected)


@pytest.mark.parametrize("format_name", FORMATS)
def test_what_must_not_be_null_may_lie_in_something_that_is(
    catalog: Catalog, format_name: str
) -> None:
    columns = {
        "k": "INT",
        "r": "ROW<a BOOLEAN NOT NULL, b ROW<c STRING NOT NULL> NOT NULL>",
        "l": "ARRAY<ROW<d INT NOT NULL>>",
    }
    table = new_table(catalog, columns, options={"file.format": format_name})
    given_rows: list[dict[str, Any]] = [
        {"k": 1, "r": None, "l": None},
        {"k": 2, "r": {"a": True, "b": {"c": "x"}}, "l": [None, {"d": 1}]},
    ]
    table.write(rows(table, given_rows))
    table.write(rows(table, given_rows[:1]))
    compact(table, full=True)
    read = table.read()
    read.validate(full=True)
    assert sorted(read.to_pylist(), key=lambda row: row["k"]) == given_rows[:1] + given_rows


def as_content(expected: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in expected)
