"""Checks of a table's options before each use, so that a refusal leaves the table untouched.

Each use is checked separately: an option that only concerns writers does not prevent reading.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import count
from typing import TypeVar

from lakewright.storage.errors import InvalidOption, UnsupportedError
from lakewright.storage.secret_texts import shown_option
from lakewright.storage.spec.aggregate_options import OVERFLOW
from lakewright.storage.spec.cast_mode import CAST_MODE, cast_mode
from lakewright.storage.spec.data_types import AtomicType, DataType, TypeRoot
from lakewright.storage.spec.file_format import PARQUET, check_holds
from lakewright.storage.spec.ignored_options import IGNORED_OPTIONS
from lakewright.storage.spec.kept_secrets import check_no_secret
from lakewright.storage.spec.known_options import ROWS, Option, Refusal, Use
from lakewright.storage.spec.log_options import KEPT_LOG, LOG, as_written
from lakewright.storage.spec.lookup_strategy import lookup_strategy
from lakewright.storage.spec.merge_option_reader import is_merge_option
from lakewright.storage.spec.merge_options import read_merge_spec
from lakewright.storage.spec.option_reader import OptionReader
from lakewright.storage.spec.option_values import Kind
from lakewright.storage.spec.options import (
    HONOURED_OPTIONS,
    ChangelogProducer,
    TableOptions,
    read_options,
    trimmed,
)
from lakewright.storage.spec.partition_expiry import check_partition_times
from lakewright.storage.spec.refused_options import CLUSTERING, FALLBACK_BRANCH, REFUSED_OPTIONS
from lakewright.storage.spec.schema import VALUE_COUNT, TableSchema
from lakewright.storage.spec.untold_partitions import UNTOLD, untold_partitions

__all__ = [
    "KNOWN_OPTIONS",
    "Use",
    "check_new_options",
    "check_option_name",
    "check_option_secret",
    "check_option_type",
    "check_readable",
    "check_supported",
    "find_option",
    "paimon_group",
    "read_option",
    "without_clustering",
    "without_fallback",
]

T = TypeVar("T")

KNOWN_OPTIONS: tuple[Option[object], ...] = (*HONOURED_OPTIONS, *IGNORED_OPTIONS, *REFUSED_OPTIONS)

# The beginning of the names of lakewright's own options.
_OURS = "lakewright."
# First words that Paimon shares with many users' own properties; no option that affects writing
# begins with one.
_COMMON_WORDS = frozenset({"comment", "owner", "path", "source", "table", "type", "uri"})
# The similarity of an option's name to one of Paimon's from which it counts as a typing error.
_TYPING_ERROR = 0.8


def find_option(name: str) -> Option[object] | None:
    """The description of an option by its name or an older name."""
    by_name, patterns = _index()
    if name in by_name:
        return by_name[name]
    return next((option for pattern, option in patterns if pattern.fullmatch(name)), None)


def read_option(schema: TableSchema, name: str, kind: Kind[T], *, table: str) -> T:
    """The value of an option that `find_option` knows, or its default, whatever its bounds.

    Raises:
        InvalidOption: the value is not of the kind.
    """
    option = find_option(name)
    default = option.default if option else None
    reader = OptionReader(trimmed(schema.options), table)
    return reader.parsed(name, kind, reader.options.get(name, default or ""))


def paimon_group(name: str) -> str | None:
    """The first word of an unknown name, if names of Paimon's options begin with it.

    Such a name may be an option of a later version; any other name is a user's property.
    """
    return next((word for word in _groups() if re.match(rf"{re.escape(word)}[.-]", name)), None)


def check_supported(schema: TableSchema, use: Use, *, table: str) -> None:
    """Refuse a table whose options are not implemented for `use`.

    Raises:
        UnsupportedError: an option rules out the use; the message says what would go wrong.
        InvalidOption: a value is invalid, or contradicts another option.
    """
    for name, value in _given(schema):
        option = find_option(name)
        if option is None:
            _check_unknown(name, value, use, table)
            continue
        for refusal in option.refusals:
            if refusal.concerns(use, value):
                raise _refused(name, value, refusal, use, table)
    options = read_options(schema, table=table)
    untold_partitions(schema.options, table=table)
    if use not in ROWS:
        # Manifests alone decide which files stay; the meaning of rows does not matter.
        return
    read_merge_spec(schema, table=table)
    _check_counted(schema, options, table)
    _check_types(schema, options, table, use)
    if use is Use.COMPACT and schema.has_primary_key:
        _check_record_expiry(schema, options, table)
    if options.pk_clustering_override and options.deletion_vectors_merge_on_read:
        raise UnsupportedError(
            f"{table} sets pk-clustering-override and deletion-vectors.merge-on-read, and files "
            f"that are not sorted by key cannot be merged; the table cannot be {_DONE[use]}",
            option="pk-clustering-override",
        )
    _check_bucket(schema, options, table, use)
    if use is not Use.READ:
        _check_formats(schema, options, table)


def check_readable(schema: TableSchema, *, table: str) -> None:
    """Refuse a table whose latest rows cannot be read; other reads may refuse more.

    Raises:
        UnsupportedError, InvalidOption: as `check_supported`.
    """
    check_supported(without_fallback(schema), Use.READ, table=table)


def without_fallback(schema: TableSchema) -> TableSchema:
    """A schema without the option that names a fallback branch."""
    return _without(schema, FALLBACK_BRANCH)


def without_clustering(schema: TableSchema) -> TableSchema:
    """A schema without the option in whose place rows are sorted."""
    return _without(schema, CLUSTERING)


def _without(schema: TableSchema, option: str) -> TableSchema:
    kept = {name: text for name, text in schema.options.items() if name.strip() != option}
    return replace(schema, options=kept)


def check_new_options(schema: TableSchema, *, table: str) -> None:
    """Refuse options that a new table cannot have, and likely typing errors.

    Raises:
        UnsupportedError: an option is not implemented, or is unknown.
        InvalidOption: a value is invalid, or a name is almost one of Paimon's.
    """
    for name, value in _given(schema):
        check_option_name(name, value, table=table)
    cast_mode(schema, table=table)
    check_supported(schema, Use.WRITE, table=table)
    check_supported(schema, Use.READ, table=table)
    for name, value in _given(schema):
        check_option_type(name, value, table=table)
    check_partition_times(schema, table=table)


def check_option_name(name: str, value: str, *, table: str) -> None:
    """Refuse a new option if its name is a likely typing error, or if it holds a secret.

    Raises:
        InvalidOption: the name is almost one of Paimon's, or is none of ours; or the value is a
            secret, which the file of the schema would keep.
    """
    check_option_secret(name, value, table=table)
    is_ours = name in (CAST_MODE, UNTOLD, OVERFLOW) or name.startswith(KEPT_LOG)
    if name.startswith(_OURS) and not is_ours:
        raise InvalidOption(
            f"{table}: {_shown(name, value)} is not an option of a table; did you mean "
            f"{difflib.get_close_matches(name, (CAST_MODE, OVERFLOW), n=1, cutoff=0)[0]!r}?",
            option=name,
        )
    names = {option.name for option in KNOWN_OPTIONS if "*" not in option.name} - _COMMON_WORDS
    if find_option(name) is not None:
        return
    near = difflib.get_close_matches(name, names, n=1, cutoff=_TYPING_ERROR)
    if near:
        raise InvalidOption(
            f"{table}: {_shown(name, value)} is not an option of a table; did you mean "
            f"{near[0]!r}?",
            option=name,
        )


def check_option_secret(name: str, value: str, *, table: str) -> None:
    """Refuse an option that holds a secret, which the file of the schema would keep.

    Raises:
        InvalidOption: as said.
    """
    # The log looks its variables up; nothing else of a table does.
    check_no_secret(as_written({name: value}), table, resolved=name.startswith((LOG, KEPT_LOG)))


def check_option_type(name: str, value: str, *, table: str) -> None:
    """Refuse a value that is not of an option's type.

    Raises:
        InvalidOption: as said.
    """
    option = find_option(name)
    if option is not None and not option.kind.holds(value):
        raise InvalidOption(
            f"{table}: {_shown(name, value)} is not {option.kind.says}", option=name
        )


def _shown(name: str, value: str) -> str:
    return f"{name}={shown_option(name, value)}"


def _given(schema: TableSchema) -> Iterator[tuple[str, str]]:
    return ((name.strip(), str(value).strip()) for name, value in schema.options.items())


@cache
def _index() -> tuple[
    dict[str, Option[object]], tuple[tuple[re.Pattern[str], Option[object]], ...]
]:
    by_name: dict[str, Option[object]] = {}
    patterns = []
    for option in KNOWN_OPTIONS:
        if "*" in option.name:
            patterns.append((re.compile(re.escape(option.name).replace(r"\*", ".+")), option))
        for name in (option.name, *option.older_names):
            by_name[name] = option
    # The longest pattern first, so that a description of a subgroup precedes that of its group.
    return by_name, tuple(sorted(patterns, key=lambda each: -len(each[1].name)))


@cache
def _groups() -> tuple[str, ...]:
    """The first words of Paimon's options: the part before the first dot, or the first word."""
    names = {name for option in KNOWN_OPTIONS for name in (option.name, *option.older_names)}
    words = {re.split(r"[.]" if "." in name else r"-", name)[0] for name in names}
    return tuple(sorted(words - _COMMON_WORDS))


def _refused(name: str, value: str, refusal: Refusal, use: Use, table: str) -> UnsupportedError:
    others = f" (implemented: {', '.join(sorted(refusal.unless))})" if refusal.unless else ""
    return UnsupportedError(
        f"{table} sets option {_shown(name, value)}, which is not implemented{others}: "
        f"{refusal.reason}; the table cannot be {refusal.done or _DONE[use]}, and was not changed",
        option=name,
    )


_DONE = {
    Use.READ: "read",
    Use.WRITE: "written to",
    Use.COMPACT: "compacted",
    Use.TAG: "tagged, branched or analyzed",
    Use.EXPIRE: "expired",
    Use.ORPHANS: "searched for orphans",
}


def _check_unknown(name: str, value: str, use: Use, table: str) -> None:
    group = paimon_group(name)
    if group is None or use is Use.READ:
        return
    raise UnsupportedError(
        f"{table} sets option {_shown(name, value)}, which this release does not know; names of "
        f"Paimon's options begin with {group!r}, so it may be an option of a later version; the "
        f"table can be read, but cannot be {_DONE[use]}, and was not changed; if it is a "
        "property of your own, give it another name",
        option=name,
    )


def _check_formats(schema: TableSchema, options: TableOptions, table: str) -> None:
    """Check that the formats of all levels can be written, and can hold the table's columns."""
    # All levels without values of their own are alike.
    named = {*options.file_format_per_level, *options.file_compression_per_level}
    unnamed = next(level for level in count() if level not in named)
    there = options.num_levels if schema.is_keyed else 1
    levels = [level for level in sorted({*named, unnamed}) if level < there]
    try:
        encodings = [options.file_encoding(level) for level in levels]
        encodings += [options.file_encoding(0, changelog=True)]
    except (UnsupportedError, InvalidOption) as error:
        raise type(error)(f"{table}: {error.message}", **error.details) from error
    for format_name in sorted({encoding.format for encoding in encodings}):
        check_holds(format_name, schema.fields, table=table)


def _check_record_expiry(schema: TableSchema, options: TableOptions, table: str) -> None:
    """Refuse to drop rows by a time that is not there, or where rows are looked up."""
    if options.record_level_expire_ms is None:
        return
    name = options.record_level_time_field
    found = next((field for field in schema.fields if field.name == name), None)
    if found is None or not _is_time(found.type):
        what = "not set" if name is None else "no column" if found is None else str(found.type)
        raise InvalidOption(
            f"{table} sets record-level.expire-time, and its record-level.time-field ({name}) is "
            f"{what}; name a column of type INT, BIGINT or TIMESTAMP",
            option="record-level.time-field",
        )
    told = options.changelog_producer in (
        ChangelogProducer.LOOKUP,
        ChangelogProducer.FULL_COMPACTION,
    )
    if told or lookup_strategy(options, read_merge_spec(schema, table=table)).needed:
        raise UnsupportedError(
            f"{table} sets option record-level.expire-time, which is not implemented together with "
            "deletion vectors, merge-engine=first-row and changelogs that compactions write; the "
            "table cannot be compacted, and was not changed",
            option="record-level.expire-time",
        )


def _is_time(data_type: DataType) -> bool:
    roots = (TypeRoot.INT, TypeRoot.BIGINT)
    return isinstance(data_type, AtomicType) and (
        data_type.root in roots or data_type.root.is_timestamp
    )


def _check_types(schema: TableSchema, options: TableOptions, table: str, use: Use) -> None:
    """Refuse uses that decode all columns, if values of one are not decoded."""
    opaque = next(iter(schema.opaque_fields), None)
    if opaque is None or use is Use.READ:
        return
    is_copied = not schema.is_keyed and not options.row_tracking_enabled
    if use is Use.COMPACT and is_copied and options.file_encoding(0).format == PARQUET:
        return
    raise UnsupportedError(
        f"{table}: column {opaque.name} is of type {opaque.type}, whose values this release does "
        f"not decode; the table cannot be {_DONE[use]}, and was not changed; its other columns "
        "can be read",
        column=opaque.name,
    )


def _check_counted(schema: TableSchema, options: TableOptions, table: str) -> None:
    """Refuse options that contradict counted rows."""
    if not schema.counts_rows:
        return
    if options.bucket < 1:
        raise InvalidOption(
            f"{table}: merge-engine={VALUE_COUNT} needs buckets in which equal rows meet; set "
            "bucket to a positive number",
            option="merge-engine",
        )
    formats = {options.file_encoding(level).format for level in range(options.num_levels)}
    for name, meant in {
        "file.format": formats != {PARQUET},
        "deletion-vectors.enabled": options.deletion_vectors_enabled,
        "force-lookup": options.force_lookup,
        "changelog-producer": options.changelog_producer is not ChangelogProducer.NONE,
        "data-file.thin-mode": not options.data_file_thin_mode,
    }.items():
        if meant:
            raise InvalidOption(
                f"{table}: {name}={schema.options.get(name)} does not go with "
                f"merge-engine={VALUE_COUNT}; leave it out",
                option=name,
            )
    for name in schema.options:
        if is_merge_option(name) and name != "merge-engine":
            raise InvalidOption(
                f"{table}: {name} says how rows of a key are merged, and with "
                f"merge-engine={VALUE_COUNT} they are counted; leave it out",
                option=name,
            )


def _check_bucket(schema: TableSchema, options: TableOptions, table: str, use: Use) -> None:
    if schema.crosses_partitions:
        _refuse_cross_partition(schema, table, use)
    lowest = -2 if schema.has_primary_key else -1
    if options.bucket == 0 or options.bucket < lowest:
        postponed = ", or -2 to give rows a bucket later" if schema.has_primary_key else ""
        raise InvalidOption(
            f"{table}: bucket={options.bucket}; write -1 or a positive number{postponed}",
            option="bucket",
        )
    if not schema.has_primary_key and options.bucket > 0 and not options.bucket_keys:
        raise InvalidOption(
            f"{table}: bucket={options.bucket} without a bucket-key; name the columns rows are "
            "hashed by, or leave bucket at -1",
            option="bucket",
        )
    if options.bucket == -1 and options.bucket_keys:
        raise InvalidOption(
            f"{table}: a bucket-key needs a fixed number of buckets; set bucket",
            option="bucket-key",
        )
    if schema.is_keyed:
        outside = [key for key in options.bucket_keys if key not in schema.key_names]
        if outside:
            raise InvalidOption(
                f"{table}: bucket-key {outside[0]!r} is not in the primary key without partition "
                f"keys ({', '.join(schema.trimmed_primary_keys)}), so one key could be in two "
                "buckets; add the column to the primary key, or leave it out of bucket-key",
                option="bucket-key",
            )


def _refuse_cross_partition(schema: TableSchema, table: str, use: Use) -> None:
    if use is Use.WRITE:
        outside = [key for key in schema.partition_keys if key not in schema.primary_keys]
        raise UnsupportedError(
            f"{table}: partition key {outside[0]!r} is not in the primary key "
            f"({', '.join(schema.primary_keys)}), so a key may move between partitions, which is "
            "not implemented; add it to the primary key of a new table"
        )
