"""Stores as servers on this machine, and the URI of a new place in each."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from fsspec.config import conf

from lakewright.storage.files.clients import client, forget_clients
from lakewright.storage.files.file_systems import open_file_system
from tests.oracles.fixtures import java_latest, released_pypaimon
from tests.support.stores.contract import Store
from tests.support.stores.faulty_proxy import FaultyProxy, faulty_proxy
from tests.support.stores.servers import (
    KEY,
    SECRET,
    azure_server,
    ftp_server,
    gcs_server,
    has_minio,
    hdfs_server,
    minio_server,
    s3_server,
    sftp_server,
)
from tests.support.tables.environment import FixedEnv

# pytest finds it here.
__all__ = ["java_latest", "released_pypaimon"]

NUMBERS = itertools.count()
S3_SETTINGS = {
    "AWS_ACCESS_KEY_ID": KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


@contextmanager
def settings(**values: str) -> Iterator[None]:
    """Variables of the environment, which is where a store is configured."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(name, value)
        forget_clients()
        yield
    forget_clients()


@pytest.fixture
def env() -> FixedEnv:
    return FixedEnv()


@pytest.fixture(scope="session")
def s3_address() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def s3(s3_address: str) -> Iterator[str]:
    """A place in a bucket of S3."""
    with settings(**S3_SETTINGS, AWS_ENDPOINT_URL=s3_address):
        yield new_bucket()


def new_bucket() -> str:
    """A place in a new bucket of S3, wherever that is now."""
    bucket = f"bucket-{next(NUMBERS)}"
    client("s3", use_listings_cache=False).call_s3("create_bucket", Bucket=bucket)
    return f"s3://{bucket}/a b%20#"


@pytest.fixture
def proxy(s3: str, s3_address: str) -> Iterator[FaultyProxy]:
    """The way to S3, which a test may disturb, and on which creates go one at a time."""
    with faulty_proxy(s3_address) as proxy, settings(AWS_ENDPOINT_URL=proxy.address):
        yield proxy


@pytest.fixture(scope="session")
def minio_address() -> Iterator[str]:
    with minio_server() as address:
        yield address


@pytest.fixture
def minio(minio_address: str) -> Iterator[str]:
    """A place in a bucket of MinIO."""
    with settings(**S3_SETTINGS, AWS_ENDPOINT_URL=minio_address):
        yield new_bucket()


@pytest.fixture
def careful_s3(request: pytest.FixtureRequest) -> str:
    """S3 that checks and writes in one step: MinIO, or else moto behind the proxy."""
    if has_minio():
        return str(request.getfixturevalue("minio"))
    request.getfixturevalue("proxy")
    return str(request.getfixturevalue("s3"))


@pytest.fixture(scope="session")
def gcs_address() -> Iterator[str]:
    with gcs_server() as address:
        yield address


@pytest.fixture
def gcs(gcs_address: str) -> Iterator[str]:
    """A place in a bucket of Google Cloud Storage."""
    bucket = f"bucket-{next(NUMBERS)}"
    data = f'{{"name": "{bucket}"}}'.encode()
    headers = {"Content-Type": "application/json"}
    urlopen(Request(f"{gcs_address}/storage/v1/b", data=data, headers=headers)).close()
    # Zones and folders of buckets are asked for over another protocol, which it does not speak.
    with settings(STORAGE_EMULATOR_HOST=gcs_address, GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT="false"):
        yield f"gs://{bucket}/a b%20"


@pytest.fixture(scope="session")
def azure_connection() -> Iterator[str]:
    with azure_server() as connection:
        yield connection


@pytest.fixture
def azure(azure_connection: str) -> Iterator[str]:
    """A place in a container of Azure."""
    with settings(AZURE_STORAGE_CONNECTION_STRING=azure_connection):
        container = f"box-{next(NUMBERS)}"
        client("abfs", use_listings_cache=False).mkdir(container)
        yield f"abfss://{container}/a b%20"


@pytest.fixture(scope="session")
def hdfs_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hdfs_server(tmp_path_factory.mktemp("hdfs")) as address:
        yield address


@pytest.fixture
def webhdfs(hdfs_address: str) -> str:
    """A folder of HDFS."""
    return f"webhdfs://ann@{hdfs_address}/w/{next(NUMBERS)}/a b%20#"


@pytest.fixture
def ftp(tmp_path: Path) -> Iterator[str]:
    """A folder behind FTP, to which writers exclude each other by a file."""
    folder = tmp_path / "ftp"
    folder.mkdir()
    with ftp_server(folder) as address, settings(LAKEWRIGHT_LOCK=f"sqlite://{tmp_path}/lock"):
        yield f"ftp://{address}/w"


@pytest.fixture
def sftp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A folder behind SFTP, to which writers exclude each other by a file."""
    folder = tmp_path / "sftp"
    folder.mkdir()
    # Read from FSSPEC_SFTP_PASSWORD, which is looked at when fsspec is imported.
    monkeypatch.setitem(conf, "sftp", {"password": SECRET})
    with sftp_server(folder) as address, settings(LAKEWRIGHT_LOCK=f"sqlite://{tmp_path}/lock"):
        yield f"sftp://{address}/w"


STORES = ("s3", "minio", "gcs", "azure", "webhdfs", "ftp", "sftp")


@pytest.fixture(params=STORES)
def store_uri(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


@pytest.fixture
def store(store_uri: str) -> Store:
    return open_file_system(store_uri)
