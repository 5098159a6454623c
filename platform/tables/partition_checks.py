"""Checks of the partitions of a declaration: dimensions, keys, formats and time zones."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from lakewright.platform.documents.marked_yaml import Place
from lakewright.platform.documents.wrong_places import Finding, check_timezone, did_you_mean
from lakewright.platform.tables.declarations import (
    PartitionsDeclaration,
    StaticPartitions,
    TableDeclaration,
    TimePartitions,
)
from lakewright.platform.tables.partition_keys import InvalidPartitionKeyError
from lakewright.platform.tables.partition_schemes import (
    PartitionScheme,
    StaticDimension,
    TimeDimension,
)
from lakewright.storage.errors import StorageError

# Partition keys have years of four digits. Changes of clocks are checked for some years ahead.
_FIRST_YEAR, _LAST_YEAR = 1000, 9000


def check_partitions(declaration: TableDeclaration) -> Iterator[Finding]:
    """What is wrong with the partitions of a declaration whose columns and keys are valid."""
    if declaration.partitions is None:
        return
    findings = list(_check_dimensions(declaration.partitions, declaration.partition_keys))
    yield from findings
    if not findings:
        yield from _check_scheme(declaration, declaration.scheme)


def _check_dimensions(
    partitions: PartitionsDeclaration, partition_keys: Sequence[str]
) -> Iterator[Finding]:
    given = partitions.given
    if len(given) not in (1, 2):
        message = f"give one way to partition, or two to cross; given: {', '.join(given) or 'none'}"
        yield ("partitions",), message
        return
    covered: list[str] = []
    for kind, dimension in given.items():
        place: Place = ("partitions", kind)
        where = "columns"
        match dimension:
            case StaticPartitions():
                names, where = [dimension.column], "column"
                if not dimension.values:
                    yield (*place, "values"), "no values are given; name at least one"
            case TimePartitions():
                yield from (((*place, *inner), text) for inner, text in _check_time(dimension))
                names = list(dimension.columns or ())
                if dimension.column is not None:
                    names, where = [dimension.column], "column"
            case _:
                names = list(dimension.columns)
        for name in names:
            if name not in partition_keys:
                known = did_you_mean(name, partition_keys)
                yield (*place, where), f"{name!r} is not one of the partition_keys; {known}"
            if name in covered:
                yield (*place, where), f"{name!r} is named twice as a partition"
            covered.append(name)
    missing = [name for name in partition_keys if name not in covered]
    if missing:
        message = f"partition key {missing[0]!r} is not covered; add it to the partitions"
        yield ("partitions",), message


def _check_time(dimension: TimePartitions) -> Iterator[Finding]:
    if (dimension.column is None) == (dimension.columns is None):
        yield (), "give either column, or columns with a format for each"
    if dimension.columns is not None and dimension.format is not None:
        yield ("format",), "columns already gives a format for each column; drop this one"
    if dimension.end is not None and dimension.end <= dimension.start:
        yield ("end",), f"end ({dimension.end}) is not after start ({dimension.start})"
    yield from check_timezone(dimension.timezone, ("timezone",))


def _check_scheme(declaration: TableDeclaration, scheme: PartitionScheme) -> Iterator[Finding]:
    assert declaration.partitions is not None
    for kind, dimension in zip(declaration.partitions.given, scheme.dimensions, strict=True):
        place: Place = ("partitions", kind)
        if isinstance(dimension, StaticDimension):
            yield from (((*place, "values"), text) for text in _check_values(dimension))
        elif isinstance(dimension, TimeDimension):
            yield from (((*place, *inner), text) for inner, text in _check_formats(dimension))


def _check_values(dimension: StaticDimension) -> Iterator[str]:
    try:
        keys = Counter(dimension.keys)
    except InvalidPartitionKeyError as err:
        yield str(err)
        return
    for key, times in keys.items():
        if times > 1:
            yield f"value {key!r} is given {times} times"


def _check_formats(dimension: TimeDimension) -> Iterator[tuple[Place, str]]:
    for place, moment in (("start", dimension.start), ("end", dimension.end)):
        if moment is not None and not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
            yield (place,), f"{moment} is not within the years {_FIRST_YEAR} to {_LAST_YEAR}"
            return
    if not dimension.cadence.begins_at(dimension.start):
        yield (
            ("start",),
            f"{dimension.start} is not the beginning of a {dimension.cadence.value} partition",
        )
        return
    # A moment whose year, month, day and hour differ shows a format that leaves one of them out.
    probe = dt.datetime(2013, 12, 30, 23) if dimension.cadence.value == "hourly" else None
    probe = probe or dt.datetime(2013, 12, 1 if dimension.cadence.value == "monthly" else 30)
    key = probe.strftime(dimension.cadence.key_format)
    formats = ", ".join(column.format for column in dimension.columns)
    try:
        if dimension.key_of(dimension.spec_of(key)) != key:
            kind = dimension.cadence.value
            message = f"format {formats} does not distinguish {kind} partitions"
            yield ("format",), message + _format_hint(formats)
        conflict = dimension.hours_in_conflict()
    except (ValueError, OverflowError, StorageError) as err:
        message = f"format {formats} does not fit the column: {err}"
        yield ("format",), message + _format_hint(formats)
        return
    if conflict is not None:
        yield ("timezone",), conflict


def _format_hint(formats: str) -> str:
    """The directives of strftime for a format that is written in another way."""
    if "%" in formats:
        return ""
    written = {"y": "%Y", "m": "%m", "d": "%d", "h": "%H"}
    meant = re.sub(
        r"(y|m|d|h)\1*", lambda each: written[each[1].lower()], formats, flags=re.IGNORECASE
    )
    example = meant if "%Y" in meant else "%Y-%m-%d"
    return f"; formats have the directives of strftime: write {example}"
