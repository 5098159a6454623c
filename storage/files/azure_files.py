"""Azure Blob Storage and Data Lake Storage: created with `If-None-Match: *`, as on S3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import fsspec

from lakewright.storage.files.clients import client
from lakewright.storage.files.object_files import PART_BYTES, ObjectFiles


@dataclass(frozen=True)
class AzureFiles(ObjectFiles):
    """Blobs of an account by `container/name`; without a host the account is the environment's."""

    # As in `abfss://container@account.dfs.core.windows.net/…`.
    host: str = ""
    scheme = "abfss"
    credentials = (
        "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, "
        "AZURE_STORAGE_CONNECTION_STRING, or log in with what DefaultAzureCredential tries"
    )

    @property
    def fs(self) -> fsspec.AbstractFileSystem:
        account = {"account_name": self.host.split(".")[0]} if self.host else {}
        return client("abfs", use_listings_cache=False, **account)

    def uri(self, path: str) -> str:
        container, _, name = path.partition("/")
        at = f"@{self.host}" if self.host else ""
        return f"{self.scheme}://{container}{at}/{name}"

    @property
    def _output_options(self) -> dict[str, Any]:
        return {"block_size": PART_BYTES}

    def _write_whole(self, path: str, data: bytes) -> None:
        self.fs.pipe_file(path, data, overwrite=True)

    def _stream_new(self, path: str) -> Any:
        return self.wrap_output(path, self.fs.open(path, "xb", block_size=PART_BYTES))

    def _ask_for_bucket(self, bucket: str) -> None:
        self.fs.info(bucket)
