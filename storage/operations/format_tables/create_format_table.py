"""Creates a format table: one schema file, whose options tell where its folders are.

Paimon's file-system catalogs read tables whose folders are named `key=value` and lie in the
table's own folder. They refuse the others, by their type.
"""

from __future__ import annotations

from lakewright.storage.codec.text_rows import TEXT_FORMATS, check_text_columns, check_text_options
from lakewright.storage.env import Env, FileSystem
from lakewright.storage.errors import AlreadyExistsError, InvalidRequestError
from lakewright.storage.files.external_files import external_uri, path_in_store
from lakewright.storage.files.metadata_stores import SchemaStore
from lakewright.storage.files.paths import TablePaths
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.format_tables.format_spec import (
    FORMAT_OPTION,
    ONLY_VALUES_OPTION,
    OWN_TYPE,
    PATH_OPTION,
    TABLE_TYPE,
    TYPE_OPTION,
    format_spec,
)
from lakewright.storage.operations.running.delete_files import is_half_dropped
from lakewright.storage.spec.file_format import check_holds
from lakewright.storage.spec.schema import SchemaSpec, new_schema
from lakewright.storage.spec.table_distribution import check_distribution

# The folder of tables whose files would otherwise lie between those of the schema.
_DATA_FOLDER = "data"


def create_format_table(
    fs: FileSystem,
    root: str,
    spec: SchemaSpec,
    *,
    table: str,
    env: Env,
    format_name: str,
    location: str | None,
) -> TableFiles:
    """Write the schema; the folders of the location stay as they are.

    Raises:
        InvalidSchema: the schema is invalid; a partition key is declared twice.
        InvalidRequestError: a primary key is given, or files of the format do not hold a column.
        UnsupportedError: a distribution is given.
        AlreadyExistsError: the table exists.
    """
    if spec.primary_keys:
        raise InvalidRequestError(
            f"format table {table} cannot have a primary key: its files are plain rows; create a "
            "table with snapshots instead"
        )
    if spec.distribution is not None:
        # Plain files have no buckets.
        check_distribution(spec.distribution, None, table)
    only_values = spec.options.get(ONLY_VALUES_OPTION, "false").strip().lower() == "true"
    is_paimons = location is None and bool(spec.partition_keys) and not only_values
    if location is not None:
        place = path_in_store(fs, location, root=root, table=table)
    else:
        place = root if is_paimons else f"{root}/{_DATA_FOLDER}"
    options = {
        **spec.options,
        TYPE_OPTION: TABLE_TYPE if is_paimons else OWN_TYPE,
        FORMAT_OPTION: format_name,
        PATH_OPTION: external_uri(fs, place),
    }
    wanted = SchemaSpec(
        columns=spec.columns,
        partition_keys=spec.partition_keys,
        options=options,
        comment=spec.comment,
    )
    schema = new_schema(wanted, time_millis=env.now_ms())
    paths = TablePaths(root)
    files = TableFiles(table, fs, paths, schema, env)
    found = format_spec(files)
    if found.format in TEXT_FORMATS:
        check_text_columns(found.format, found.data_fields, table=table)
        check_text_options(found.format, options)
    else:
        check_holds(found.format, found.data_fields, table=table)
    store = SchemaStore(fs, paths)
    if is_half_dropped(fs, root) or store.ids() or not store.put_schema(schema):
        raise AlreadyExistsError(f"table {table} exists already at {root}")
    fs.make_durable([paths.schema(schema.id)], below="/")
    return files
