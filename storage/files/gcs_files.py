"""Google Cloud Storage: a create requires generation 0, which means that the file is absent."""

from __future__ import annotations

import os
from dataclasses import dataclass

import fsspec
from fsspec.config import conf

from lakewright.storage.files.clients import client
from lakewright.storage.files.object_files import ObjectFiles

_EMULATOR = "STORAGE_EMULATOR_HOST"


@dataclass(frozen=True)
class GcsFiles(ObjectFiles):
    """Objects of Google Cloud Storage by `bucket/key`."""

    scheme = "gs"
    credentials = "set GOOGLE_APPLICATION_CREDENTIALS, or give the machine a service account"

    @property
    def fs(self) -> fsspec.AbstractFileSystem:
        return client("gs", use_listings_cache=False, **_token())

    def _ask_for_bucket(self, bucket: str) -> None:
        # Every user of a table may list it.
        self.fs.call("GET", "b/{}/o", bucket, maxResults=1, json_out=True)


def _token() -> dict[str, str]:
    """The source of credentials; by default, the client would finally try without any."""
    if any("token" in conf.get(name, {}) for name in ("gs", "gcs")):
        return {}
    return {"token": "anon" if os.environ.get(_EMULATOR) else "google_default"}
