"""S3, and what speaks its protocol.

A file is created only if it is absent by a PUT with `If-None-Match: *`. The client sends a request
again whose answer was lost, so that its own file can be what it finds there.
"""

from __future__ import annotations

from dataclasses import dataclass

import fsspec

from lakewright.storage.files.clients import client
from lakewright.storage.files.object_files import ObjectFiles


@dataclass(frozen=True)
class S3Files(ObjectFiles):
    """Objects of S3 by `bucket/key`."""

    scheme = "s3"
    credentials = (
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or give the machine a role"
    )

    @property
    def fs(self) -> fsspec.AbstractFileSystem:
        return client("s3", use_listings_cache=False, fixed_upload_size=True)

    def _ask_for_bucket(self, bucket: str) -> None:
        # Listing is what every user of a table may do.
        self.fs.call_s3("list_objects_v2", Bucket=bucket, MaxKeys=1)
