"""Where a table's current schema is repeated for tools that do not read its files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from lakewright.storage.spec.schema import TableSchema


class SchemaRegistry(Protocol):
    """The entry of one table in a registry such as Hive's metastore; it pickles."""

    def tell(self, schema: TableSchema, former: TableSchema) -> None:
        """Let the registry repeat a schema that is about to follow `former`.

        Raises:
            TableNotFound: the registry does not list the table any more.
            InvalidRequestError, UnavailableError: it refuses the schema, or does not answer.
        """
        ...

    def follow(self, latest: Callable[[], TableSchema]) -> None:
        """Let the registry repeat the latest schema, those too that others add meanwhile.

        Raises:
            UnavailableError: it does not answer.
        """
        ...
