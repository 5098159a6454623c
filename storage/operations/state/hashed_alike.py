"""Whether rows of earlier schemas lie in buckets by the bucket keys that a table has now."""

from __future__ import annotations

from collections.abc import Iterable

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.bucketing import have_same_bucket_keys


def are_hashed_alike(files: TableFiles, schema_ids: Iterable[int]) -> bool:
    """Whether rows of these schemas are hashed by the present bucket keys.

    Rows that are hashed by others than the key have a schema of their own: a change of the bucket
    keys leaves rows of earlier schemas in one bucket alone, and then writes them anew.
    """
    own = files.schema
    return all(have_same_bucket_keys(files.at_schema(each).schema, own) for each in schema_ids)
