"""Selects partitions of a snapshot by a filter on their keys, or by values of some of their keys.

1. Refuse a filter on other columns than partition keys: whole partitions are selected.
2. Prune manifests by the filter, or by a filter that the named values amount to.
3. Group the live files by partition, and keep exactly the partitions that were asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakewright.storage.errors import InvalidPredicate, PartitionNotFound
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.table_state import state_at
from lakewright.storage.spec.arguments import listed_partitions
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.partition_text import shown_value
from lakewright.storage.spec.partition_words import describe_partition
from lakewright.storage.spec.predicate import And, Leaf, Operator, Or, Predicate, columns_of
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.values import Value

# Specs beyond this number are not turned into a filter, which every manifest would be asked.
_MOST_NAMED = 64
_MOST_SHOWN = 5

Specs = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which partitions a caller wants: by a filter, by values of keys, or by both.

    `named` are stored values of some or all keys; without both, all partitions are meant.
    """

    predicate: Predicate | None = None
    named: tuple[Mapping[str, Value], ...] | None = None

    @property
    def takes_all(self) -> bool:
        return self.predicate is None and self.named is None

    def takes(self, partition: Partition) -> bool:
        """Whether a partition has the named values; the filter was applied before."""
        return self.named is None or any(map(partition.is_named, self.named))

    @property
    def pruning(self) -> Predicate | None:
        """A filter that no selected partition fails."""
        if self.named is None or not 0 < len(self.named) <= _MOST_NAMED or not all(self.named):
            return self.predicate
        near = Or(tuple(And(tuple(_equals(*each) for each in spec.items())) for spec in self.named))
        return near if self.predicate is None else And((self.predicate, near))


def selection(
    files: TableFiles, *, where: Predicate | None = None, partitions: Specs | None = None
) -> Selection:
    """What a caller asks for, checked against the table's partition keys.

    Raises:
        InvalidPredicate: the filter compares other columns than partition keys.
        InvalidRequestError: a name is not a partition key, or a value does not fit its type.
    """
    check_on_keys(files, where)
    given = listed_partitions(partitions, "partitions")
    named = None if given is None else tuple(map(files.partitions.stored, given))
    return Selection(predicate=where, named=named)


def check_on_keys(files: TableFiles, where: Predicate | None) -> None:
    """Check that a filter compares partition keys alone.

    Raises:
        InvalidPredicate: it compares another column; the message names the partition keys.
    """
    keys = files.schema.partition_keys
    others = sorted(columns_of(where) - set(keys)) if where is not None else []
    if others:
        have = ", ".join(keys) or "none, it is not partitioned"
        raise InvalidPredicate(
            f"the filter looks at {', '.join(others)}, and partitions are chosen by partition "
            f"keys alone; those of {files.name} are {have}"
        )


def selected_entries(
    files: TableFiles, snapshot: Snapshot | None, asked: Selection
) -> dict[Partition, list[ManifestEntry]]:
    """The live files of the selected partitions, by partition in the order of their values.

    Raises:
        SchemaMoved: partitions have rows of other keys, since these are changing; names the way on.
    """
    found: dict[Partition, list[ManifestEntry]] = {}
    for entry in state_at(files, snapshot).entries_of(predicate=asked.pruning):
        found.setdefault(files.partitions.of_entry(entry), []).append(entry)
    chosen = [partition for partition in found if asked.takes(partition)]
    return {each: found[each] for each in sorted(chosen, key=lambda each: each.order)}


def check_all_found(
    files: TableFiles, snapshot: Snapshot | None, asked: Selection, found: Sequence[Partition]
) -> None:
    """Check that every named spec, or the filter, selects some partition.

    Raises:
        PartitionNotFound: one selects none; the message names partitions that there are.
    """
    missing = [
        dict(spec) for spec in asked.named or () if not any(each.is_named(spec) for each in found)
    ]
    if not missing and found:
        return
    there = sorted(
        {files.partitions.of_entry(entry) for entry in state_at(files, snapshot).entries},
        key=lambda each: each.order,
    )
    shown = "; ".join(each.words for each in there[:_MOST_SHOWN])
    more = f" and {len(there) - _MOST_SHOWN} more" if len(there) > _MOST_SHOWN else ""
    if not missing:
        what = "no partition that the filter selects"
    else:
        wanted = _words(files, missing[0])
        both = "" if asked.predicate is None else "that matches both the filter and "
        what = f"no partition {both}{wanted}"
    others = f" (nor {len(missing) - 1} others asked for)" if len(missing) > 1 else ""
    have = f"there are {shown}{more}" if there else "it has none with rows"
    raise PartitionNotFound(f"{files.name} has {what}{others}; {have}")


def _words(files: TableFiles, stored: Mapping[str, Value]) -> str:
    types = {field.name: field.type for field in files.partitions.keys.fields}
    return describe_partition({name: shown_value(stored[name], types[name]) for name in stored})


def _equals(column: str, value: Value) -> Leaf:
    if value is None:
        return Leaf(column, Operator.IS_NULL)
    return Leaf(column, Operator.EQ, (value,))
