"""Azure's client, and the account that a URI names: one of another name is never asked."""

from __future__ import annotations

import pytest

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.azure_files import AzureFiles
from lakewright.storage.files.file_systems import open_file_system
from tests.stores.conftest import settings
from tests.support.stores.servers import AZURE_ACCOUNT, AZURE_KEY

pytest.importorskip("adlfs")


def client_of(host: str) -> tuple[str, str]:
    """The account that the client of a URI is for, and where it asks."""
    fs, _ = open_file_system(f"abfss://box@{host}/w")
    assert isinstance(fs, AzureFiles)
    there = fs.fs.service_client
    return there.account_name, there.primary_hostname


def test_an_account_is_asked_in_the_cloud_that_the_uri_names() -> None:
    with settings(AZURE_STORAGE_ACCOUNT_KEY=AZURE_KEY):
        for host, address in {
            "prod.dfs.core.windows.net": "prod.blob.core.windows.net",
            "prod.dfs.core.chinacloudapi.cn": "prod.blob.core.chinacloudapi.cn",
            "prod.dfs.core.usgovcloudapi.net": "prod.blob.core.usgovcloudapi.net",
        }.items():
            assert client_of(host) == ("prod", address)


@pytest.mark.parametrize(
    "connection",
    [
        (
            f"DefaultEndpointsProtocol=https;AccountName=trial;AccountKey={AZURE_KEY};"
            "EndpointSuffix=core.windows.net"
        ),
        "BlobEndpoint=https://trial.blob.core.windows.net;SharedAccessSignature=sv=1&sig=x",
        f"AccountName=trial;AccountKey={AZURE_KEY};BlobEndpoint=http://127.0.0.1:1/trial",
    ],
)
def test_a_connection_string_for_another_account_is_refused(connection: str) -> None:
    with settings(AZURE_STORAGE_CONNECTION_STRING=connection):
        fs, root = open_file_system("abfss://box@prod.dfs.core.windows.net/w")
        with pytest.raises(InvalidRequestError, match="prod") as caught:
            fs.exists(f"{root}/x")
        assert AZURE_KEY not in str(caught.value)
        assert client_of("trial.dfs.core.windows.net")[0] in ("trial", None)


def test_an_emulator_is_asked_for_the_account_that_it_has(azure: str) -> None:
    box = azure.removeprefix("abfss://").partition("/")[0]
    fs, root = open_file_system(f"abfss://{box}@{AZURE_ACCOUNT}.dfs.core.windows.net/w")
    assert fs.put_if_absent(f"{root}/x", b"1")
    assert fs.read_bytes(f"{root}/x") == b"1"
