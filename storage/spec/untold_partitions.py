"""Partitions whose changes are not tracked: writers keep no changelog, and readers pass them over.

They are an option of the table, a list of partitions as JSON, each a list of its values as texts.
To other clients the option is a property without effect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache

from lakewright.storage.errors import InvalidOption
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.partition import Partition, PartitionKeys
from lakewright.storage.spec.partition_text import partition_text
from lakewright.storage.spec.values import Value

UNTOLD = "lakewright.change-tracking.off"
_Untold = frozenset[frozenset[str]]


def untold_partitions(options: Mapping[str, str], *, table: str) -> _Untold:
    """The partitions of the option, each by the texts of some or all of its values.

    Raises:
        InvalidOption: the option is no such list.
    """
    text = options.get(UNTOLD)
    return frozenset() if text is None else _parsed(text, table)


@lru_cache(maxsize=64)
def _parsed(text: str, table: str) -> _Untold:
    try:
        found = json.loads(text)
        if not all(isinstance(value, str) for each in found for value in each):
            raise TypeError("a value is no text")
        return frozenset(frozenset(each) for each in found)
    except (ValueError, TypeError) as error:
        raise InvalidOption(
            f"{table}: {UNTOLD}={text!r:.100} is no list of partitions: {error}; reset the option, "
            "and write ALTER TABLE t PARTITION (…) SET 'change-tracking' = 'false'",
            option=UNTOLD,
        ) from error


def is_untold(partition: Partition, untold: _Untold) -> bool:
    """Whether a partition is one of these."""
    if not untold:
        return False
    own = _texts(partition.values, partition.keys.fields)
    return any(each <= own for each in untold)


def with_partition(
    options: Mapping[str, str], spec: Mapping[str, Value], keys: PartitionKeys, table: str
) -> str:
    """The option's value with one more partition."""
    return _text({*untold_partitions(options, table=table), _of(spec, keys)})


def without_partition(
    options: Mapping[str, str], spec: Mapping[str, Value], keys: PartitionKeys, table: str
) -> str | None:
    """The option's value without a partition; None if no other is left."""
    left = untold_partitions(options, table=table) - {_of(spec, keys)}
    return _text(left) if left else None


def _of(spec: Mapping[str, Value], keys: PartitionKeys) -> frozenset[str]:
    fields = [field for field in keys.fields if field.name in spec]
    return _texts([spec[field.name] for field in fields], fields)


def _texts(values: Sequence[Value], fields: Sequence[DataField]) -> frozenset[str]:
    return frozenset(
        partition_text([value], [field]) for value, field in zip(values, fields, strict=True)
    )


def _text(untold: set[frozenset[str]] | _Untold) -> str:
    return json.dumps(sorted(sorted(each) for each in untold), ensure_ascii=False)
