"""The options that say how rows of one key become one. Source: Paimon, `CoreOptions`."""

from __future__ import annotations

from lakewright.storage.spec.known_options import Heading, Option, options_under
from lakewright.storage.spec.merge_spec import NO_LIMIT, NestedKeyNulls
from lakewright.storage.spec.option_values import (
    BOOLEAN,
    CHOICE,
    INTEGER,
    TEXT,
    bounded_number,
    choice,
    wrong_value,
)


def _descending(text: str) -> bool:
    if text.lower() not in ("ascending", "descending"):
        raise wrong_value(text, " is neither ascending nor descending")
    return text.lower() == "descending"


def _limit(text: str) -> int:
    limit = bounded_number(text, 32)
    if limit is None or limit < 0:
        raise wrong_value(text, " is not a number of rows; write one such as 100")
    return limit


_NULLS = choice({NestedKeyNull.value: NestedKeyNull for NestedKeyNull in NestedKeyNulls})


class MergeOptions:
    """The rows of the options; `MergeOptionReader` reads those of the table's merge engine."""

    _table = Heading("how rows of one key become one")
    engine = Option("merge-engine", CHOICE.parsed_by(str), "deduplicate", immutable=True)
    sequence_field = Option("sequence.field", TEXT)
    descending = Option("sequence.field.sort-order", CHOICE.parsed_by(_descending), "ascending")
    rowkind_field = Option("rowkind.field", TEXT, immutable=True)
    ignore_delete = Option(
        "ignore-delete",
        BOOLEAN,
        "false",
        older_names=(
            "first-row.ignore-delete",
            "deduplicate.ignore-delete",
            "partial-update.ignore-delete",
        ),
    )
    ignore_update_before = Option("ignore-update-before", BOOLEAN, "false")
    default_function = Option("fields.default-aggregate-function", TEXT)
    remove_on_delete = Option(
        "partial-update.remove-record-on-delete", BOOLEAN, "false", immutable=True
    )
    remove_on_group = Option("partial-update.remove-record-on-sequence-group", TEXT, immutable=True)
    remove_aggregates_on_delete = Option(
        "aggregation.remove-record-on-delete", BOOLEAN, "false", immutable=True
    )

    _columns = Heading("how rows of one key become one row, column by column")
    function = Option("fields.*.aggregate-function", TEXT)
    ignore_retract = Option("fields.*.ignore-retract", BOOLEAN, "false")
    delimiter = Option("fields.*.list-agg-delimiter", TEXT, ",")
    distinct = Option("fields.*.distinct", BOOLEAN, "false")
    nested_key = Option("fields.*.nested-key", TEXT)
    nested_key_nulls = Option("fields.*.nested-key-null-strategy", _NULLS, "merge")
    nested_sequence = Option("fields.*.nested-sequence-field", TEXT)
    count_limit = Option(
        "fields.*.count-limit", INTEGER.parsed_by(_limit), unset=lambda _: NO_LIMIT
    )
    time_field = Option("fields.*.ts-field", TEXT)
    sequence_group = Option("fields.*.sequence-group", TEXT)


MERGE_OPTIONS = options_under(*vars(MergeOptions).values())
