"""Adds, drops and repairs the partitions of a format table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakewright.storage.errors import InvalidRequestError, PartitionExists, PartitionNotFound
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.format_tables.format_spec import REGISTERED_OPTION, FormatSpec
from lakewright.storage.operations.format_tables.partition_folders import (
    PartitionFolder,
    check_own_folders,
    folder_of,
    folders_on_disk,
    list_data_files,
    list_partitions,
)
from lakewright.storage.operations.format_tables.registry import change_registry, read_registry
from lakewright.storage.operations.partitions.repair_partitions import RepairMode
from lakewright.storage.operations.running.delete_files import delete_files, remove_empty_folders
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.shown import Shown

Specs = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderDrift(Shown):
    """Folders that the registry lacks, and registered partitions whose folders are gone.

    `left` are folders that no repair registers, with the reasons: a registry names partitions, and
    these are not the folders of the partitions that their names tell.
    """

    found: tuple[Partition, ...]
    gone: tuple[Partition, ...]
    left: tuple[tuple[str, str], ...] = ()


def add_format_partitions(
    files: TableFiles, spec: FormatSpec, specs: Specs, *, if_not_exists: bool
) -> tuple[Partition, ...]:
    """Make the folders of partitions, and register them.

    Raises:
        InvalidRequestError: a name is not a partition key, a key has no value, or readers would not
            find the partition by the name of its folder.
        PartitionExists: a partition exists, and `if_not_exists` is False.
    """
    wanted = _partitions(files, specs)
    folders = {each: folder_of(files, spec, each) for each in wanted}
    known = {partition.partition for partition in list_partitions(files, spec)}
    there = [each for each in wanted if each in known]
    if there and not if_not_exists:
        raise PartitionExists(f"{there[0].named} of {files.name} exists already")
    new = tuple(each for each in wanted if each not in known)
    check_own_folders(files, spec, [PartitionFolder(each, folders[each]) for each in new])
    for each in new:
        files.fs.make_dirs(folders[each])
    if spec.is_registered and new:
        change_registry(files, lambda present: {*present, *new})
    return new


def drop_format_partitions(
    files: TableFiles, spec: FormatSpec, specs: Specs, *, delete_files_too: bool, if_exists: bool
) -> tuple[Partition, ...]:
    """Drop partitions: from the registry, and with `delete_files_too` from the disk.

    Raises:
        InvalidRequestError: the table has no registry, and no file is to be deleted.
        PartitionNotFound: a partition does not exist, and `if_exists` is False.
    """
    if not spec.is_registered and not delete_files_too:
        raise InvalidRequestError(
            f"{files.name} has no registry (option {REGISTERED_OPTION}), so a partition is "
            "there as long as its folder is; say that its files are to be deleted"
        )
    wanted = _partitions(files, specs)
    folders = list_partitions(files, spec)
    known = {folder.partition for folder in folders}
    missing = [each for each in wanted if each not in known]
    if missing and not if_exists:
        raise PartitionNotFound(f"{files.name} has no partition {missing[0].words}")
    going = {each: None for each in wanted if each in known}
    leaving = (
        [folder for folder in folders if folder.partition in going] if delete_files_too else []
    )
    # Listed first: a link in a folder is refused while the registry still has the partition.
    paths = [status.path for _, status in list_data_files(files, spec, leaving)]
    if spec.is_registered and going:
        # Readers do not open its files any more when they are deleted.
        change_registry(files, lambda present: present - {*going})
    delete_files(files.fs, paths)
    remove_empty_folders(files.fs, [each.folder for each in leaving], below=spec.location)
    return tuple(going)


def folder_drift(files: TableFiles, spec: FormatSpec) -> FolderDrift:
    """How the registry and the folders differ; writes nothing.

    Raises:
        InvalidRequestError: the table has no registry.
    """
    if not spec.is_registered:
        raise InvalidRequestError(
            f"{files.name} has no registry (option {REGISTERED_OPTION}): its partitions are its "
            "folders, so there is nothing to repair"
        )
    there, left = [], []
    for folder in folders_on_disk(files, spec):
        reason = _not_its_own(files, spec, folder)
        if reason is None:
            there.append(folder.partition)
        else:
            left.append((folder.folder, reason))
    known = read_registry(files)
    return FolderDrift(
        found=tuple(_without(there, known)), gone=tuple(_without(known, there)), left=tuple(left)
    )


def _not_its_own(files: TableFiles, spec: FormatSpec, each: PartitionFolder) -> str | None:
    """Why a folder is not that of the partition that its name tells; None if it is."""
    try:
        own = folder_of(files, spec, each.partition)
    except InvalidRequestError as error:
        return error.message
    if own == each.folder:
        return None
    return f"the folder of {each.partition.words} is {own}; move the files there"


def _without(some: Iterable[Partition], others: Iterable[Partition]) -> Iterable[Partition]:
    left_out = set(others)
    return (each for each in some if each not in left_out)


def repair_format_partitions(files: TableFiles, spec: FormatSpec, mode: RepairMode) -> FolderDrift:
    """Register what is found, drop what is gone, or both; returns what was changed."""
    drift = folder_drift(files, spec)
    found = () if mode is RepairMode.DROP else drift.found
    gone = () if mode is RepairMode.ADD else drift.gone
    if found or gone:
        change_registry(files, lambda present: (present | {*found}) - {*gone})
    return FolderDrift(found=found, gone=gone, left=drift.left)


def _partitions(files: TableFiles, specs: Specs) -> list[Partition]:
    found = []
    for spec in specs:
        values = files.partitions.stored(spec)
        missing = [name for name in files.partitions.keys.names if name not in values]
        if missing:
            raise InvalidRequestError(
                f"partition {dict(spec)} of {files.name} has no value for key {missing[0]!r}"
            )
        found.append(files.partitions.of_values(tuple(values.values())))
    return found
