"""Restore: moves quarantined files back to their original paths, byte for byte.

1. Plan: choose all or some files of a quarantine. If another file has taken the path of one, the
   plan is refused.
2. Run: check the size and checksum of each file against the quarantine's manifest, and move it
   back, never over another file. If an interrupted restore has left the same bytes in both
   places, delete the copy in quarantine.
3. End a quarantine that holds no files.

After a crash the next attempt goes on. A restored file that no root keeps is an orphan again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lakewright.storage.errors import CorruptionError, FileMissing, TargetExists
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.retention.quarantine import end_if_empty, read_quarantine
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.spec.arguments import list_or_none, text_argument
from lakewright.storage.spec.quarantine import QuarantinedFile
from lakewright.storage.spec.shown import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan(Plan["RestoreResult"]):
    """Files to restore from a quarantine; paths are below the table's root."""

    table: str
    quarantine_id: str
    files: tuple[QuarantinedFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult(Shown):
    """What was restored; `missing` files were neither in quarantine nor at their original paths."""

    files_restored: int
    bytes_restored: int
    missing: tuple[str, ...]
    duration_ms: int


def plan_restore(
    files: TableFiles, quarantine_id: str, *, paths: Collection[str] | None = None
) -> RestorePlan:
    """Plan the restore of a whole quarantine, or of the files with the given original paths.

    Raises:
        NotFoundError: the quarantine does not exist; the message lists all quarantines.
        FileMissing: the quarantine holds no file of one of the paths.
        UnreadableManifest: the quarantine's manifest cannot be read.
        TargetExists: another file has taken the path of one.
    """
    paths = list_or_none(paths, "paths", text_argument)
    found = {file.path: file for file in read_quarantine(files, quarantine_id).files}
    for path in sorted(set(paths or ()) - found.keys()):
        raise FileMissing(
            f"no file {path} in quarantine {quarantine_id} of {files.name}, which holds "
            f"{len(found)} files; name paths as the list of the quarantine shows them",
            path=path,
        )
    chosen = [file for path, file in found.items() if paths is None or path in paths]
    for path in sorted(files.quarantine.there(file.path for file in chosen)):
        _check_same(files, quarantine_id, path, restored=0)
    return RestorePlan(table=files.name, quarantine_id=quarantine_id, files=tuple(chosen))


def run_restore(files: TableFiles, plan: RestorePlan) -> RestoreResult:
    """Restore the files of a plan.

    Raises:
        NotFoundError: the quarantine no longer exists.
        TargetExists: another file has taken the path of one; files before it are restored.
        CorruptionError: a file differs from the manifest; it stays in quarantine.
    """
    started = files.env.now_ms()
    # A plan may be edited or old, so the files are checked against the quarantine's manifest.
    known = {file.path: file for file in read_quarantine(files, plan.quarantine_id).files}
    restored: list[QuarantinedFile] = []
    missing = []
    for planned in plan.files:
        file = known.get(planned.path)
        if file is not None and _bring_back(files, plan.quarantine_id, file, len(restored)):
            restored.append(file)
        elif not files.quarantine.there([planned.path]):
            missing.append(planned.path)
    end_if_empty(files, plan.quarantine_id)
    return RestoreResult(
        files_restored=len(restored),
        bytes_restored=sum(file.size_bytes for file in restored),
        missing=tuple(missing),
        duration_ms=files.env.now_ms() - started,
    )


def _bring_back(
    files: TableFiles, quarantine_id: str, file: QuarantinedFile, restored: int
) -> bool:
    """Move one file back; False if it is no longer in quarantine."""
    store = files.quarantine
    copy = files.paths.quarantined(quarantine_id, file.path)
    try:
        _check_unchanged(files, copy, file)
        if not store.put_back(quarantine_id, file.path):
            _check_same(files, quarantine_id, file.path, restored=restored)
            delete_files(files.fs, [copy])
    except FileMissing:
        return False
    return True


def _check_unchanged(files: TableFiles, copy: str, file: QuarantinedFile) -> None:
    size, crc32 = files.quarantine.size_and_crc32(copy)
    if size != file.size_bytes or file.crc32 not in (None, crc32):
        raise CorruptionError(
            f"{copy} is not the file that was set aside: {size} bytes with CRC-32 {crc32:08x}, "
            f"not {file.size_bytes} with {file.crc32 or 0:08x}; it stays there",
            table=files.name,
            path=copy,
        )


def _check_same(files: TableFiles, quarantine_id: str, path: str, *, restored: int) -> None:
    """Check that the file at the original path has the bytes of the quarantined one."""
    target = files.paths.below(path)
    if not files.quarantine.is_same(files.paths.quarantined(quarantine_id, path), target):
        raise TargetExists(
            f"{path} of {files.name} is now another file than the one in quarantine "
            f"{quarantine_id}; move it away, or restore the other files by their paths"
            + (f"; {restored} files are restored" if restored else ""),
            table=files.name,
            path=target,
        )
