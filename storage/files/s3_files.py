"""S3, and stores with its protocol.

A PUT with `If-None-Match: *` creates a file only if it is absent. After a lost answer the client
sends the request again, and may then find its own file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import fsspec

from lakewright.storage.errors import FileMissing
from lakewright.storage.files.clients import client
from lakewright.storage.files.object_files import ObjectFiles
from lakewright.storage.files.store_failures import is_empty


class StoreAccess(Protocol):
    """Who lets into a store for a while; it pickles, has a hash, and holds no secret."""

    def options(self) -> Mapping[str, str]:
        """Options of the client: `key`, `secret`, `token`, `endpoint_url`, `region`."""
        ...


@dataclass(frozen=True)
class S3Files(ObjectFiles):
    """Objects of S3 by `bucket/key`; without `access`, the client looks for credentials itself."""

    access: StoreAccess | None = None
    scheme = "s3"
    credentials = (
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or give the machine a role"
    )

    @property
    def fs(self) -> fsspec.AbstractFileSystem:
        options: dict[str, Any] = {"use_listings_cache": False, "fixed_upload_size": True}
        if self.access is not None:
            given = dict(self.access.options())
            if region := given.pop("region", None):
                options["client_kwargs"] = {"region_name": region}
            options |= given
        return client("s3", of=self.access, **options)

    def keep_up(self, handle: Any) -> None:
        if self.access is not None:
            # A file may be open for longer than a token lasts.
            handle.fs = self.fs

    def read_bytes(self, path: str) -> bytes:
        with self.translated(path):
            # By default, the client requests the size first, to read large files in parts.
            data = self.fs.cat_file(path, max_concurrency=1)
            assert isinstance(data, bytes)
            return data

    def exists(self, path: str) -> bool:
        # The answer to a GET tells whether the file or its bucket is missing. A HEAD has no body,
        # so each missing file would need a second request about the bucket.
        try:
            with self.translated(path):
                self._read_first_byte(path)
        except FileMissing:
            return False
        return True

    def _read_first_byte(self, path: str) -> None:
        try:
            self.fs.cat_file(path, start=0, end=1)
        except Exception as error:
            if not is_empty(error):
                raise

    def _ask_for_bucket(self, bucket: str) -> None:
        # Every user of a table may list it.
        self.fs.call_s3("list_objects_v2", Bucket=bucket, MaxKeys=1)
