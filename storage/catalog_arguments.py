"""Arguments of a catalog: names, and schemas in the forms that callers have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lakewright.storage.codec.arrow_types import columns_from_arrow
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.arguments import text_argument
from lakewright.storage.spec.bucketing import BUCKET_OPTIONS
from lakewright.storage.spec.data_types import parse_data_type
from lakewright.storage.spec.file_names import is_place_below
from lakewright.storage.spec.schema import Column, SchemaSpec
from lakewright.storage.spec.table_distribution import TableDistribution


def schema_spec(
    schema: SchemaSpec | pa.Schema | Mapping[str, str],
    *,
    partition_keys: tuple[str, ...],
    primary_keys: tuple[str, ...],
    options: dict[str, str],
    comment: str,
    distribution: TableDistribution | None = None,
) -> SchemaSpec:
    """The schema that a caller gives in one of three forms.

    Raises:
        InvalidRequestError: it is none of them, or a `SchemaSpec` comes with keys beside it.
    """
    if isinstance(schema, SchemaSpec):
        if partition_keys or primary_keys or options or comment or distribution:
            raise InvalidRequestError(
                "a SchemaSpec holds keys, options, comment and distribution itself; put them into "
                "it"
            )
        return schema
    if isinstance(schema, pa.Schema):
        columns = columns_from_arrow(schema)
    elif isinstance(schema, Mapping):
        columns = tuple(
            Column(
                text_argument(name, "column name"),
                parse_data_type(text_argument(text, f"the type of column {name}")),
            )
            for name, text in schema.items()
        )
    else:
        raise InvalidRequestError(
            f"{schema!r:.100} is not a schema; give a SchemaSpec, a pyarrow schema, or names with "
            "types as text, such as {'id': 'BIGINT'}"
        )
    return SchemaSpec(
        columns=columns,
        partition_keys=partition_keys,
        primary_keys=primary_keys,
        options=options,
        comment=text_argument(comment, "comment"),
        distribution=distribution,
    )


def option_texts(options: Mapping[str, str] | None) -> dict[str, str]:
    """Options with names that are texts.

    Raises:
        InvalidRequestError: they are no mapping.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise InvalidRequestError(
            f"options are {options!r:.100}; give names with values, as a dict"
        )
    return {text_argument(name, "option name"): value for name, value in options.items()}


def split_name(name: str) -> tuple[str, str]:
    """Split `database.table` into its parts.

    Raises:
        InvalidRequestError: it is no text, has no dot, more than one, or an empty part.
    """
    parts = text_argument(name, "table name").split(".")
    if len(parts) != 2 or not all(parts):
        raise InvalidRequestError(f"table name {name!r} is not of the form database.table")
    return parts[0], parts[1]


def folder_name(name: str, kind: str) -> str:
    """The folder name for an existing name; checks that it can be a folder's name."""
    text_argument(name, f"{kind} name")
    if not is_place_below(name) or "/" in name:
        raise InvalidRequestError(f"{kind} name {name!r} cannot be the name of a folder")
    return name


def check_name(name: str, kind: str) -> None:
    """Check the name of a new database or table."""
    folder_name(name, kind)
    if not name.strip() or name.startswith(".") or "$" in name:
        raise InvalidRequestError(
            f"{kind} name {name!r} cannot be the name of a folder; leave out slashes, $ and "
            "leading dots"
        )


def can_be_name(name: str, kind: str) -> bool:
    """Whether a table or database of that name could be made, and opened by `database.table`."""
    try:
        check_name(name, kind)
    except InvalidRequestError:
        return False
    return "." not in name


def new_name(name: str) -> tuple[str, str]:
    """The checked parts of the name of a new table."""
    database, table = split_name(name)
    check_name(database, "database")
    check_name(table, "table")
    return database, table


def merged(names: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Names of both, each once, in order."""
    return tuple(sorted({*names, *others}))


def with_defaults(spec: SchemaSpec, defaults: Mapping[str, str]) -> SchemaSpec:
    """A table with default options where it says nothing.

    A default number of buckets is for tables whose rows have something to be hashed by, and whose
    distribution leaves the number open.
    """
    if spec.distribution is not None:
        number = defaults.get("bucket", "").strip()
        if spec.distribution.bucket_count is None and number.isdecimal() and int(number):
            counted = replace(spec.distribution, bucket_count=int(number))
            spec = replace(spec, distribution=counted)
        defaults = {name: text for name, text in defaults.items() if name not in BUCKET_OPTIONS}
    options = {**defaults, **spec.options}
    is_hashed = spec.primary_keys or options.get("primary-key") or options.get("bucket-key")
    if not is_hashed and "bucket" not in spec.options:
        options.pop("bucket", None)
    return replace(spec, options=options)
