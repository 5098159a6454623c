"""Checks partitions that a caller names against those of the table."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from lakewright.platform.tables.partition_keys import first_few
from lakewright.storage import Table
from lakewright.storage.errors import NotFoundError
from lakewright.storage.spec.partition_words import describe_partition

_MOST_NEAR = 5


def unknown_partitions(
    table: Table, specs: Sequence[Mapping[str, object]]
) -> list[Mapping[str, object]]:
    """The specs that match no partition of the latest snapshot.

    A spec may leave columns out.

    Raises:
        InvalidRequestError: a spec names an unknown column, or a value does not fit its type.
    """
    asked = [table.table_files.partitions.stored(spec) for spec in specs]
    present = [each.partition for each in table.at().partitions()]
    return [
        spec
        for spec, values in zip(specs, asked, strict=True)
        if not any(partition.is_named(values) for partition in present)
    ]


def check_partitions_known(table: Table, specs: Sequence[Mapping[str, object]]) -> None:
    """Refuse partitions that the table does not have.

    Raises:
        NotFoundError: no partition has these values; the message names the nearest.
        InvalidRequestError: a spec names an unknown column, or a value does not fit its type.
    """
    unknown = unknown_partitions(table, specs) if specs else []
    if not unknown:
        return
    have = sorted(describe_partition(partition.spec) for partition in table.at().partitions())
    wanted = describe_partition(unknown[0])
    near = difflib.get_close_matches(wanted, have, n=_MOST_NEAR, cutoff=0.6)
    if near:
        told = f"near it are {'; '.join(near)}"
    elif have:
        told = f"there are {first_few(have)}"
    else:
        told = "it has none with rows"
    others = f" (nor {len(unknown) - 1} others asked for)" if len(unknown) > 1 else ""
    raise NotFoundError(f"{table.name} has no partition {wanted}{others}; {told}")
