"""Source files in stores: found by folders of partitions, and errors without secrets."""

from __future__ import annotations

import datetime as dt
import gzip
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakewright.platform.ingest.source_files import source_files
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.storage.errors import AccessError, InvalidRows, NotFoundError, StoreNotFound
from lakewright.storage.file_reader.reader import divided, read_in_turn
from lakewright.storage.files.clients import forget_clients
from lakewright.storage.files.file_systems import open_file_system
from tests.support.stores.servers import KEY, SECRET

COLUMNS = [{"name": "dt", "type": "DATE"}, {"name": "id", "type": "BIGINT"}]
FIRST, SECOND = dt.date(2024, 1, 1), dt.date(2024, 1, 2)


def declared(**source: str) -> TableDeclaration:
    return TableDeclaration.model_validate(
        {"table": "shop.ids", "columns": COLUMNS, "partition_keys": ["dt"], "source": source}
    )


def ids(declaration: TableDeclaration, *days: dt.date) -> list[int]:
    wanted = tuple({"dt": day} for day in days) or None
    files = divided(source_files(declaration, wanted))
    return sorted(
        each for rows in read_in_turn(files, wanted) for each in rows.column("id").to_pylist()
    )


def files_of(number: int) -> dict[str, bytes]:
    """A file of every format with one row."""
    rows = pa.table({"id": [number]})
    parquet, orc_file, csv, avro = BytesIO(), BytesIO(), BytesIO(), BytesIO()
    pq.write_table(rows, parquet)
    orc.write_table(rows, orc_file)
    pa_csv.write_csv(rows, csv)
    fields = [{"name": "id", "type": "long"}]
    fastavro.writer(avro, {"type": "record", "name": "row", "fields": fields}, [{"id": number}])
    return {
        "parquet": parquet.getvalue(),
        "orc": orc_file.getvalue(),
        "csv": csv.getvalue(),
        "avro": avro.getvalue(),
        "json.gz": gzip.compress(f'{{"id": {number}}}'.encode()),
    }


@pytest.mark.stores
def test_every_format_is_read_from_the_folders_of_the_wanted_partitions(s3: str) -> None:
    fs, root = open_file_system(s3)
    for number, day in ((1, FIRST), (2, SECOND)):
        for suffix, data in files_of(number).items():
            fs.write_bytes(f"{root}/dt={day}/deep/a.{suffix}", data)
    for kind in ("parquet", "orc", "avro", "csv", "json"):
        pattern = declared(**{kind: f"{s3}/dt={{dt}}"})
        assert ids(pattern) == [1, 2], kind
        assert ids(pattern, SECOND) == [2], kind
        one = declared(**{kind: f"{s3}/dt={{dt}}/*/a.{kind}*"})
        assert ids(one, FIRST) == [1], kind
        file = f"{s3}/dt={SECOND}/deep/a.{kind}{'.gz' if kind == 'json' else ''}"
        alone = declared(**{kind: file}).model_copy(update={"partition_keys": ()})
        alone = alone.model_copy(update={"columns": alone.columns[1:]})
        assert ids(alone) == [2], kind


@pytest.mark.stores
def test_errors_name_the_uri_and_never_the_credentials(
    s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs, root = open_file_system(s3)
    fs.write_bytes(f"{root}/dt=2024-01-01/a.json", b'{"id": 1}\n{"id": x}')
    said: list[Any] = []
    with pytest.raises(InvalidRows, match=r"a\.json: line 2, column 8 is not JSON") as refused:
        ids(declared(json=f"{s3}/dt={{dt}}/*.json"))
    said.append(refused.value)
    with pytest.raises(NotFoundError, match=r"no file matches s3://"):
        ids(declared(json=f"{s3}/none/*.json"))
    with pytest.raises(StoreNotFound) as missing:
        ids(declared(json="s3://no-such-bucket/*.json"))
    said.append(missing.value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")
    forget_clients()
    with pytest.raises(AccessError) as closed:
        ids(declared(json=f"{s3}/*.json"))
    said.append(closed.value)
    assert not any(secret in str(each) for each in said for secret in (KEY, SECRET))
