"""Azure Blob Storage and Data Lake Storage: created with `If-None-Match: *`, as on S3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import fsspec

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.clients import client
from lakewright.storage.files.object_files import ObjectFiles
from lakewright.storage.files.remote_files import RemoteFiles

_PUBLIC_CLOUD = ".blob.core.windows.net"


@dataclass(frozen=True)
class AzureFiles(ObjectFiles):
    """Blobs by `container/name`; without a host, the environment names the account."""

    # The host in `abfss://container@account.dfs.core.windows.net/…`.
    host: str = ""
    scheme = "abfss"
    credentials = (
        "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, "
        "AZURE_STORAGE_CONNECTION_STRING, or log in with what DefaultAzureCredential tries"
    )

    @property
    def fs(self) -> fsspec.AbstractFileSystem:
        account = _account(self.host) if self.host else {}
        found = client("abfs", use_listings_cache=False, **account)
        if self.host:
            there = found.service_client
            check_account(self.host, name=there.account_name, address=there.primary_hostname)
        return found

    def uri(self, path: str) -> str:
        container, _, name = path.partition("/")
        at = f"@{self.host}" if self.host else ""
        return f"{self.scheme}://{container}{at}/{name}"

    def _write_whole(self, path: str, data: bytes) -> None:
        self.fs.pipe_file(path, data, overwrite=True)

    def copy(self, source: str, target: str) -> int:
        # The store may still be copying when its client returns.
        return RemoteFiles.copy(self, source, target)

    def _ask_for_bucket(self, bucket: str) -> None:
        self.fs.info(bucket)


def check_account(host: str, *, name: str | None, address: str) -> None:
    """Check that the client connects to the account that the URI names.

    The client prefers the environment's connection string to every other setting.

    Raises:
        InvalidRequestError: the client connects to another account, which may hold a table of the
        same name.
    """
    if address == _blob_host(host):
        return
    # The address of an emulator does not name the account; the client's account name does.
    if ".blob." not in address and name == _name(host):
        return
    raise InvalidRequestError(
        f"the URI names the account at {host}, and the connection string that the environment "
        f"gives is for {address}; unset AZURE_STORAGE_CONNECTION_STRING, or leave the account out "
        "of the URI"
    )


def _account(host: str) -> dict[str, Any]:
    """The client's settings for an account; without settings it connects to the public cloud."""
    address = _blob_host(host)
    elsewhere = {} if address.endswith(_PUBLIC_CLOUD) else {"account_host": address}
    return {"account_name": _name(host), **elsewhere}


def _name(host: str) -> str:
    return host.split(".", maxsplit=1)[0]


def _blob_host(host: str) -> str:
    """The host of the blob service; URIs name the host of the data lake service."""
    if "." not in host:
        return host + _PUBLIC_CLOUD
    return host.replace(".dfs.", ".blob.", 1)
