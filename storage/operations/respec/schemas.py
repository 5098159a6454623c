"""The schemas that a change of partition keys creates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lakewright.storage.errors import SchemaMoved
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.rewrite_schema import check_current_schema
from lakewright.storage.spec.schema import TableSchema


@dataclass(frozen=True, slots=True)
class Schemas:
    """The new schema, those of older files with the new keys, and their ids by the old ids."""

    latest: TableSchema
    older: tuple[TableSchema, ...]
    ids: dict[int, int]

    @classmethod
    def of(cls, files: TableFiles, keys: tuple[str, ...], schema_ids: Iterable[int]) -> Schemas:
        stored = {
            schema_id: files.at_schema(schema_id).schema for schema_id in sorted(set(schema_ids))
        }
        others = {
            each: schema
            for each, schema in stored.items()
            if schema.partition_keys != keys[: len(schema.partition_keys)]
        }
        older = [each for each, schema in others.items() if schema.fields != files.schema.fields]
        first = files.schema.id + 1
        ids = {each: first + number for number, each in enumerate(older)}
        latest_id = first + len(older)
        return cls(
            replace(
                files.schema, id=latest_id, partition_keys=keys, time_millis=files.env.now_ms()
            ),
            tuple(replace(others[each], id=ids[each], partition_keys=keys) for each in older),
            {each: ids.get(each, latest_id) for each in others},
        )


def put_schemas(files: TableFiles, keys: tuple[str, ...], schemas: Schemas) -> TableFiles:
    """Create the schemas; returns the table with the new one, which is the latest from now on.

    The ids of older files' schemas lie below it, so that none of them is ever the latest.

    Raises:
        SchemaMoved: another client changed the schema.
    """
    store = files.schemas
    moved = SchemaMoved(
        f"the schema of {files.name} was changed while its partition keys became "
        f"{', '.join(keys) or 'none'}; open the table and plan again"
    )
    if store.latest_id(table=files.name) != files.schema.id or not store.put_schema(schemas.latest):
        raise moved
    for schema in schemas.older:
        if not store.put_schema(schema):
            # An alter took the next id, and is no longer the latest: its columns become so again.
            altered = store.read(schema.id)
            store.put_schema(replace(altered, id=schemas.latest.id + 1))
            raise moved
    return files.at_schema(schemas.latest.id)


def unchanged(files: TableFiles) -> TableFiles:
    """The table under its latest schema, which a cut-over in vain may have made.

    Raises:
        SchemaMoved: another client changed the schema.
    """
    now = files.at_schema(files.schemas.latest_id(table=files.name))
    if (
        replace(now.schema, id=files.schema.id, time_millis=files.schema.time_millis)
        != files.schema
    ):
        check_current_schema(files)
    return now
