"""Splits a staged write by partition, so that some partitions are committed and others are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.write.write import partition_writes
from lakewright.storage.spec.commit import CommitMessage, StagedWrite


def split_staged(
    files: TableFiles, staged: StagedWrite, wanted: Callable[[Mapping[str, object]], bool]
) -> tuple[StagedWrite, StagedWrite]:
    """The part of a write in the wanted partitions, and the part in the others.

    Together they have the files of the write. An overwrite of the partitions in its rows replaces
    only those of its part.
    """
    chosen: dict[bytes, bool] = {}
    for message in staged.messages:
        if message.partition not in chosen:
            spec = files.partitions.of_row(message.partition).spec
            chosen[message.partition] = wanted(spec)
    return (
        _part(files, staged, [each for each in staged.messages if chosen[each.partition]]),
        _part(files, staged, [each for each in staged.messages if not chosen[each.partition]]),
    )


def _part(files: TableFiles, staged: StagedWrite, messages: Sequence[CommitMessage]) -> StagedWrite:
    return replace(staged, messages=tuple(messages), partitions=partition_writes(files, messages))
