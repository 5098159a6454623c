"""Servers of stores, started on this machine for the tests of `tests/stores` and ended with them.

`tests/stores/install.py` installs them into `.stores`, or they are on PATH.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.stores.install import found_on_system

ROOT = Path(__file__).resolve().parents[3]
# The folder of installed servers may lie outside of the tree.
INSTALLED = Path(os.environ.get("LAKEWRIGHT_STORES", ROOT / ".stores"))
HDFS_LAUNCHER = ROOT / "tests" / "stores" / "hdfs" / "MiniDfs.java"
HIVE_LAUNCHER = ROOT / "tests" / "stores" / "hive" / "LocalMetastore.java"
REST_LAUNCHER = ROOT / "tests" / "stores" / "rest" / "LocalRestCatalog.java"
SFTP_PROGRAM = ROOT / "tests" / "stores" / "sftp_server.py"
HIVE = "org.apache.hadoop.hive.metastore"
START_SECONDS = 600

KEY = "the-key-of-tests"
SECRET = "a-very-secret-value/with+signs"
AZURE_ACCOUNT = "devstoreaccount1"
# The emulator's public account and key, from its documentation.
AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def s3_server() -> Iterator[str]:
    """moto's S3 in a process of its own; where it listens."""
    _needs("moto", "s3fs")
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with running(command, port):
        yield f"http://127.0.0.1:{port}"


def has_minio() -> bool:
    return bool(shutil.which("minio")) or (INSTALLED / "minio/minio").exists()


@contextmanager
def minio_server() -> Iterator[str]:
    """MinIO, which checks and writes in one step; where it listens."""
    _needs("s3fs")
    program = _program("minio", "minio/minio")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="minio-") as folder:
        command = [program, "server", "--quiet", "--address", f"127.0.0.1:{port}", folder]
        with running(command, port, MINIO_ROOT_USER=KEY, MINIO_ROOT_PASSWORD=SECRET):
            yield f"http://127.0.0.1:{port}"


@contextmanager
def gcs_server() -> Iterator[str]:
    """fake-gcs-server, in memory."""
    _needs("gcsfs")
    program = _program("fake-gcs-server", "bin/fake-gcs-server")
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [program, "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    command += ["-backend", "memory", "-external-url", address]
    with running(command, port):
        yield address


@contextmanager
def azure_server() -> Iterator[str]:
    """Azurite's blob service, in memory; the connection string for it."""
    _needs("adlfs")
    script = INSTALLED / "azurite/node_modules/azurite/dist/src/blob/main.js"
    if not script.exists():
        pytest.skip(f"azurite is not installed at {script}: run make test-stores where npm is")
    port = free_port()
    command = [_program("node"), str(script), "--silent", "--skipApiVersionCheck"]
    command += ["--inMemoryPersistence", "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    with running(command, port):
        yield (
            f"DefaultEndpointsProtocol=http;AccountName={AZURE_ACCOUNT};AccountKey={AZURE_KEY};"
            f"BlobEndpoint=http://127.0.0.1:{port}/{AZURE_ACCOUNT};"
        )


@contextmanager
def hdfs_server(folder: Path) -> Iterator[str]:
    """A NameNode and a DataNode; where WebHDFS listens, as `host:port`."""
    jars = INSTALLED / "hadoop"
    if not jars.exists():
        pytest.skip(f"hadoop is not installed at {jars}: run make test-stores where Maven is")
    command = [_program("java"), "-cp", f"{jars}/*", str(HDFS_LAUNCHER), str(folder / "dfs")]
    with (folder / "hdfs.log").open("w") as log:
        server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert server.stdout is not None
        for line in server.stdout:
            if line.startswith("webhdfs "):
                yield f"127.0.0.1:{line.split()[1]}"
                break
        else:
            raise AssertionError((folder / "hdfs.log").read_text()[-2000:])
    finally:
        _end(server)


@contextmanager
def hive_server(version: int, folder: Path) -> Iterator[str]:
    """Hive's metastore of a major version, whose warehouse is a folder; its address."""
    _needs("thriftpy2")
    jars = INSTALLED / f"hive{version}"
    if not jars.exists():
        pytest.skip(f"a metastore is not installed at {jars}: run make test-stores where Maven is")
    port = free_port()
    settings = {
        "metastore.thrift.bind.host": "127.0.0.1",
        "metastore.warehouse.dir": str(folder),
        "derby.system.home": str(folder),
        "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:names;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "metastore.schema.verification": "false",
        "metastore.expression.proxy": f"{HIVE}.DefaultPartitionExpressionProxy",
        "metastore.task.threads.always": f"{HIVE}.events.EventCleanerTask",
    }
    main = [f"{HIVE}.HiveMetaStore", "-p"] if version > 3 else [str(HIVE_LAUNCHER)]
    command = [_program("java"), "-Xmx512m", "-cp", f"{jars}/*"]
    command += [f"-D{name}={value}" for name, value in settings.items()]
    with running([*command, *main, str(port)], port):
        yield f"thrift://127.0.0.1:{port}"


@contextmanager
def java_rest_server(folder: Path, warehouse: str, token: str) -> Iterator[str]:
    """The REST catalog of Java Paimon's tests, with its tables in a folder; its address."""
    jars = INSTALLED / "rest"
    if not jars.exists():
        pytest.skip(f"Paimon's server is not installed at {jars}: run make test-stores with Maven")
    command = [_program("java"), "-Xmx512m", "-cp", f"{jars}/*", str(REST_LAUNCHER)]
    with subprocess.Popen(
        [*command, str(folder), warehouse, token],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip().rstrip("/")
        finally:
            server.kill()


@contextmanager
def kafka_server(folder: Path) -> Iterator[str]:
    """A broker that is its own controller and keeps its log in a folder; its address."""
    command, port = kafka_command(folder)
    with running(command, port):
        yield f"127.0.0.1:{port}"


def kafka_command(folder: Path) -> tuple[list[str], int]:
    """The command of a broker whose log is made, and where it will listen."""
    _needs("confluent_kafka")
    jars = INSTALLED / "kafka"
    if not jars.exists():
        pytest.skip(f"Kafka is not installed at {jars}: run make test-servers where Maven is")
    port, controller = free_port(), free_port()
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / "log"),
        "log.retention.check.interval.ms": "1000",
        "log.initial.task.delay.ms": "1000",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "auto.create.topics.enable": "false",
    }
    config = folder / "server.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    java = [_program("java"), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    java += ["-cp", f"{jars}/*"]
    made = ["kafka.tools.StorageTool", "format", "-t", "bGFrZXdyaWdodC10ZXN0cw", "-c", str(config)]
    subprocess.run([*java, *made], check=True, capture_output=True)
    return [*java, "kafka.Kafka", str(config)], port


@contextmanager
def debezium_server(
    folder: Path, broker: str, connector: Mapping[str, str], *, has_schemas: bool
) -> Iterator[None]:
    """Kafka Connect with one connector of Debezium, which captures as the user `keeper`."""
    jars = INSTALLED / "debezium"
    if not jars.exists():
        pytest.skip(f"Debezium is not installed at {jars}: run make test-servers where Maven is")
    port = free_port()
    converter = "org.apache.kafka.connect.json.JsonConverter"
    worker = {
        "bootstrap.servers": broker,
        "listeners": f"http://127.0.0.1:{port}",
        "offset.storage.file.filename": str(folder / "offsets"),
        "offset.flush.interval.ms": "1000",
        "plugin.discovery": "service_load",
        "key.converter": converter,
        "value.converter": converter,
        "value.converter.schemas.enable": str(has_schemas).lower(),
    }
    source = {
        "name": "captured",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.partitions": "1",
        "database.hostname": "127.0.0.1",
        "database.user": "keeper",
        "database.password": SECRET,
        **connector,
    }
    files = []
    for name, settings in (("worker", worker), ("source", source)):
        files.append(folder / f"{name}.properties")
        files[-1].write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = [_program("java"), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-cp", f"{jars}/*", "org.apache.kafka.connect.cli.ConnectStandalone"]
    with running([*command, *map(str, files)], port):
        yield


@contextmanager
def ftp_server(folder: Path) -> Iterator[str]:
    """A folder over FTP; its address."""
    _needs("pyftpdlib")
    port = free_port()
    command = [sys.executable, "-m", "pyftpdlib", "-i", "127.0.0.1", "-p", str(port)]
    command += ["-w", "-d", str(folder)]
    with running(command, port):
        yield f"127.0.0.1:{port}"


@contextmanager
def sftp_server(folder: Path, port: int = 0) -> Iterator[str]:
    """A folder over SFTP, for a user whose password is `SECRET`; its address."""
    _needs("paramiko")
    port = port or free_port()
    command = [sys.executable, str(SFTP_PROGRAM), str(folder), str(port), "ann", SECRET]
    with running(command, port):
        yield f"ann@127.0.0.1:{port}"


@contextmanager
def postgres_server(*settings: str, data: Path | None = None, port: int = 0) -> Iterator[str]:
    """A PostgreSQL that requires a password; its URL without the password.

    With `data` it keeps its files there, in a folder that other users may enter.
    """
    initdb, server = (_database_program("postgres", each) for each in ("initdb", "postgres"))
    # Not among pytest's folders, which other users may not enter.
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        password, data = Path(folder) / "password", data or Path(folder) / "data"
        password.write_text(SECRET)
        as_nobody: list[str] = []
        if os.geteuid() == 0:
            # It does not run as root.
            as_nobody = [_program("setpriv"), "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
            # To change users undoes it, so it has to be said again.
            as_nobody += ["--pdeathsig", "TERM"]
            for each in (folder, password, data.parent):
                shutil.chown(each, "nobody", "nogroup")
        if not data.exists():
            making = [*as_nobody, initdb, "-D", str(data), "-U", "keeper", "-A", "scram-sha-256"]
            made = subprocess.run(
                [*making, "--no-sync", f"--pwfile={password}"],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            assert made.returncode == 0, made.stdout
        port = port or free_port()
        command = [*as_nobody, server, "-D", str(data), "-h", "127.0.0.1", "-p", str(port)]
        command += ["-k", "", "-c", "fsync=off", *(f"--{each}" for each in settings)]
        with running(command, port):
            yield f"postgresql://keeper@127.0.0.1:{port}/postgres"


@contextmanager
def mariadb_server(*settings: str, data: Path | None = None, port: int = 0) -> Iterator[int]:
    """A MariaDB with a binary log, whose user `keeper` may do everything; its port.

    With `data` it keeps its files there, and its process's number in `pid` among them.
    """
    _needs("pymysqlreplication")
    make, server = (
        _database_program("mariadb", each) for each in ("mariadb-install-db", "mariadbd")
    )
    # Not among pytest's folders, which may be deleted while the server ends.
    with tempfile.TemporaryDirectory(prefix="mariadb-") as folder:
        as_root = ["--user=root"] if os.geteuid() == 0 else []
        base = Path(server).parents[1]
        data = data or Path(folder) / "data"
        place = ["--no-defaults", *as_root, f"--basedir={base}", f"--datadir={data}"]
        if not data.exists():
            subprocess.run([make, *place, "--skip-test-db"], check=True, capture_output=True)
        users = Path(folder) / "users.sql"
        users.write_text(
            f"CREATE USER IF NOT EXISTS keeper@'%' IDENTIFIED BY '{SECRET}';\n"
            "GRANT ALL ON *.* TO keeper@'%' WITH GRANT OPTION;\n"
            "CREATE DATABASE IF NOT EXISTS shop;\n"
        )
        port = port or free_port()
        command = [server, *place, f"--socket={folder}/socket", f"--init-file={users}"]
        command += [f"--pid-file={data}/pid"]
        command += ["--bind-address=127.0.0.1", f"--port={port}", "--skip-name-resolve"]
        command += ["--character-set-server=utf8mb4"]
        command += ["--log-bin=binlog", "--server-id=1", "--binlog-format=ROW"]
        command += ["--binlog-row-image=FULL", "--binlog-row-metadata=FULL"]
        command += ["--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0"]
        with running([*command, *settings], port):
            yield port


def _needs(*packages: str) -> None:
    for each in packages:
        if find_spec(each) is None:
            pytest.skip(f"{each} is not installed; run make test-stores")


def _program(name: str, installed: str | None = None) -> str:
    found = shutil.which(name)
    if installed is not None and (INSTALLED / installed).exists():
        found = str(INSTALLED / installed)
    if found is None:
        pytest.skip(f"{name} is not on the PATH, and make test-stores does not bring it")
    return found


def _database_program(server: str, name: str) -> str:
    """A program of a database that is on this machine, or was unpacked."""
    unpacked = INSTALLED / server
    found = found_on_system(name)
    if found is None and unpacked.exists():
        # Its libraries lie beside it.
        folders = {str(each.parent) for each in unpacked.rglob("*.so*")}
        known = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
        os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(sorted({*folders, *known} - {""}))
        found = next(
            (
                str(each)
                for each in unpacked.rglob(name)
                if os.access(each, os.X_OK) and each.is_file()
            ),
            None,
        )
    if found is None:
        pytest.skip(f"{server} is not here: run make test-servers where apt-get is")
    return found


def _with_us(command: Sequence[str]) -> list[str]:
    """A command that ends with these tests, even after a kill, if the system supports it."""
    setpriv = shutil.which("setpriv")
    return [*([setpriv, "--pdeathsig", "TERM"] if setpriv else []), *command]


@contextmanager
def running(command: Sequence[str], port: int, **settings: str) -> Iterator[None]:
    """A server while it listens on a port of this machine, with variables of its own."""
    server = started(command, port, **settings)
    try:
        yield
    finally:
        _end(server)


def started(command: Sequence[str], port: int, **settings: str) -> subprocess.Popen[bytes]:
    """A server that listens; the caller ends it."""
    server = subprocess.Popen(
        _with_us(command),
        env={**os.environ, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(server, port)
    except BaseException:
        _end(server)
        raise
    return server


def _wait_for(server: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        assert server.poll() is None, f"{server.args!r} ended with {server.returncode}"
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise AssertionError(f"{server.args!r} does not listen after {START_SECONDS} s")


def _end(server: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    if server.stdin is not None:
        server.stdin.close()
    server.terminate()
    try:
        server.wait(timeout=10)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    if server.stdout is not None:
        server.stdout.close()
