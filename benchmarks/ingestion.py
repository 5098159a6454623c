"""`python -m benchmarks.ingestion`: rows a CPU second from PostgreSQL, CSV and JSON into tables.

Each contestant is a process of its own, whose CPU time counts, that of its children too; the server
is not counted. The floor fetches or parses the same rows and writes them as Parquet, and keeps no
table. `--postgres URL` names a server that may be filled (its password in PGPASSWORD);
`--peers PYTHON` is the interpreter of an environment with `dlt[parquet,postgres]`, `connectorx` and
`sling`. Peers write Parquet files of the rows, without a key, a snapshot or an upsert.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

_MAKE = """
DROP TABLE IF EXISTS lakewright_bench;
CREATE TABLE lakewright_bench AS SELECT i::bigint AS id, 'name ' || (i % 1000) AS name,
  (i % 100000) / 100.0::numeric(12, 2) AS price,
  timestamp '2024-01-01' + i * interval '1 second' AS at, i % 3 = 0 AS flag
FROM generate_series(1, {rows}) AS i
"""
_COLUMNS = "id BIGINT, name STRING, price DECIMAL(12, 2), `at` TIMESTAMP(6), flag BOOLEAN"
_OURS = """
import sys
from lakewright.session import Session
from lakewright.storage import Catalog
Session(Catalog.open(sys.argv[1])).sql(sys.argv[2])
"""
_FLOOR_POSTGRES = """
import os, sys
import adbc_driver_postgresql.dbapi as adbc, pyarrow as pa, pyarrow.parquet as pq
with adbc.connect(sys.argv[1]) as connection, connection.cursor() as cursor:
    cursor.execute("SELECT id, name, price, at, flag FROM lakewright_bench")
    rows = pa.table(cursor.fetch_record_batch().read_all().columns, names=list("abcde"))
    price = rows.column("c").combine_chunks().storage.cast(pa.decimal128(12, 2))
    pq.write_table(rows.set_column(2, "c", price), sys.argv[2])
"""
_FLOOR_CSV = """
import sys
import pyarrow as pa, pyarrow.csv as csv, pyarrow.parquet as pq
names = ["id", "name", "price", "at", "flag"]
kinds = [pa.int64(), pa.string(), pa.decimal128(12, 2), pa.timestamp("us"), pa.bool_()]
options = csv.ConvertOptions(column_types=dict(zip(names, kinds)))
pq.write_table(csv.read_csv(sys.argv[1], csv.ReadOptions(column_names=names), None, options),
               sys.argv[2])
"""
_FLOOR_JSON = """
import sys
import pyarrow as pa, pyarrow.json as json, pyarrow.parquet as pq
kinds = pa.schema([("id", pa.int64()), ("name", pa.string()), ("price", pa.float64()),
                   ("at", pa.string()), ("flag", pa.bool_())])
rows = json.read_json(sys.argv[1], None, json.ParseOptions(explicit_schema=kinds))
pq.write_table(rows, sys.argv[2])
"""
_DLT_POSTGRES = """
import sys
import dlt
from dlt.sources.sql_database import sql_table
dlt.pipeline("bench", destination=dlt.destinations.filesystem(sys.argv[2]), dataset_name="d",
             pipelines_dir=sys.argv[2] + "/state").run(
    sql_table(sys.argv[1], table="lakewright_bench", backend="connectorx"),
    loader_file_format="parquet")
"""
_DLT_FILES = """
import sys
import dlt
from dlt.sources.filesystem import filesystem, read_csv, read_jsonl
read = read_jsonl if sys.argv[1].endswith("json") else read_csv
more = {} if read is read_jsonl else {"names": ["id", "name", "price", "at", "flag"]}
folder, _, name = sys.argv[1].rpartition("/")
dlt.pipeline("bench", destination=dlt.destinations.filesystem(sys.argv[2]), dataset_name="d",
             pipelines_dir=sys.argv[2] + "/state").run(
    (filesystem(bucket_url=folder, file_glob=name) | read(**more)).with_name("rows"),
    loader_file_format="parquet")
"""


def main() -> None:
    """Print a table of rows a CPU second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--postgres", metavar="URL")
    parser.add_argument("--peers", metavar="PYTHON")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ingestion-") as folder:
        place = Path(folder)
        print(f"{asked.rows:,} rows; rows a CPU second\n\n| from | to | rows/s |\n|---|---|---|")
        if asked.postgres:
            _fill(asked.postgres, asked.rows)
            _race("PostgreSQL", _from_postgres(place, asked.postgres, asked.peers), asked.rows)
        for kind in ("csv", "json"):
            path = _file(place, kind, asked.rows)
            _race(kind.upper(), _from_file(place, path, asked.peers), asked.rows)


def _race(source: str, contestants: Iterator[tuple[str, list[str]]], rows: int) -> None:
    for name, command in contestants:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ran = subprocess.run(
            command, env=_environment(), capture_output=True, text=True, check=False
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if ran.returncode:
            print(f"| {source} | {name} | failed: {ran.stderr.strip().splitlines()[-1][:100]} |")
            continue
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"| {source} | {name} | {rows / seconds:,.0f} |")
        sys.stdout.flush()


def _from_postgres(place: Path, url: str, peers: str | None) -> Iterator[tuple[str, list[str]]]:
    options = f"'connector' = 'jdbc', 'url' = '{url}', 'table-name' = 'lakewright_bench'"
    options += ", 'password' = '${env:PGPASSWORD}'"
    for name, key in (
        ("keyed table, ours", ", PRIMARY KEY (id) NOT ENFORCED"),
        ("table, ours", ""),
    ):
        warehouse = str(place / name.partition(" ")[0])
        statement = f"""
            CREATE DATABASE d; USE d;
            CREATE TABLE source ({_COLUMNS}) WITH ({options});
            CREATE TABLE target ({_COLUMNS}{key}); INSERT INTO target SELECT * FROM source
        """
        yield name, [sys.executable, "-c", _OURS, warehouse, statement]
    yield "Parquet file, floor", [sys.executable, "-c", _FLOOR_POSTGRES, _secret(url), f"{place}/f"]
    if peers:
        target = f"{place}/dlt"
        yield "Parquet files, dlt", [peers, "-c", _DLT_POSTGRES, _secret(url), target]
        stream = ["--src-stream", "public.lakewright_bench"]
        sling = [str(Path(peers).parent / "sling"), "run", "--src-conn", _secret(url), *stream]
        yield "Parquet file, Sling", [*sling, "--tgt-object", f"file://{place}/sling.parquet"]


def _from_file(place: Path, path: Path, peers: str | None) -> Iterator[tuple[str, list[str]]]:
    kind = path.suffix[1:]
    options = f"'connector' = 'filesystem', 'path' = '{path}', 'format' = '{kind}'"
    warehouse = f"{place}/{kind}-warehouse"
    statement = f"""
        CREATE DATABASE d; USE d; CREATE TABLE source ({_COLUMNS}) WITH ({options});
        CREATE TABLE target ({_COLUMNS}); INSERT INTO target SELECT * FROM source
    """
    yield "table, ours", [sys.executable, "-c", _OURS, warehouse, statement]
    floor = _FLOOR_CSV if kind == "csv" else _FLOOR_JSON
    yield "Parquet file, floor", [sys.executable, "-c", floor, str(path), f"{place}/{kind}.parquet"]
    if peers:
        yield "Parquet files, dlt", [peers, "-c", _DLT_FILES, str(path), f"{place}/dlt-{kind}"]
        sling = [str(Path(peers).parent / "sling"), "run", "--src-stream", f"file://{path}"]
        yield "Parquet file, Sling", [*sling, "--tgt-object", f"file://{place}/{kind}-s.parquet"]


def _fill(url: str, rows: int) -> None:
    subprocess.run(["psql", url, "-qc", _MAKE.format(rows=rows)], check=True)


def _secret(url: str) -> str:
    """The address with its password, for programs that take it so."""
    scheme, _, rest = url.partition("://")
    user, _, host = rest.partition("@")
    return f"{scheme}://{user}:{quote(os.environ['PGPASSWORD'], safe='')}@{host}"


def _file(place: Path, kind: str, rows: int) -> Path:
    path = place / f"rows.{kind}"
    with path.open("w") as file:
        for at in range(rows):
            price, flag = f"{at % 100000 / 100:.2f}", str(at % 3 == 0).lower()
            moment = f"2024-01-{at % 28 + 1:02} 00:{at % 60:02}:{at % 59:02}"
            if kind == "csv":
                file.write(f"{at},name {at % 1000},{price},{moment},{flag}\n")
            else:
                file.write(
                    f'{{"id":{at},"name":"name {at % 1000}","price":{price},"at":"{moment}",'
                    f'"flag":{flag}}}\n'
                )
    return path


def _environment() -> Mapping[str, str]:
    return {**os.environ, "DLT_TELEMETRY": "false", "RUNTIME__DLTHUB_TELEMETRY": "false"}


if __name__ == "__main__":
    main()
