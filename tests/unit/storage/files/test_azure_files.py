"""Azure: a URI with an account never connects to another account."""

from __future__ import annotations

import pytest

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.azure_files import check_account

PROD = "prod.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("host", "name", "address"),
    [
        (PROD, "prod", "prod.blob.core.windows.net"),
        ("prod", "prod", "prod.blob.core.windows.net"),
        ("prod.blob.core.windows.net", "prod", "prod.blob.core.windows.net"),
        ("prod.dfs.core.chinacloudapi.cn", "prod", "prod.blob.core.chinacloudapi.cn"),
        # With a SAS token the client knows the account by its address only.
        (PROD, None, "prod.blob.core.windows.net"),
        # An emulator, and a name of one's own.
        (PROD, "prod", "127.0.0.1:10000/prod"),
        (PROD, "prod", "lake.acme.example"),
    ],
)
def test_the_account_that_the_uri_names_is_the_one_asked(
    host: str, name: str | None, address: str
) -> None:
    check_account(host, name=name, address=address)


@pytest.mark.parametrize(
    ("host", "name", "address"),
    [
        (PROD, "trial", "trial.blob.core.windows.net"),
        (PROD, "trial", "127.0.0.1:10000/trial"),
        (PROD, None, "lake.acme.example"),
        # The same name in another cloud is another account.
        ("prod.dfs.core.chinacloudapi.cn", "prod", "prod.blob.core.windows.net"),
        (PROD, "prod", "prod.blob.core.chinacloudapi.cn"),
    ],
)
def test_another_account_than_the_uri_names_is_refused(
    host: str, name: str | None, address: str
) -> None:
    with pytest.raises(InvalidRequestError, match="AZURE_STORAGE_CONNECTION_STRING"):
        check_account(host, name=name, address=address)
