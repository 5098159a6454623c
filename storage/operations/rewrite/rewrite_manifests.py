"""Rewrites manifests: few of the target size, sorted by partition, without deleted entries.

1. Plan: find the manifests that hold deleted entries, that are small, or whose partitions overlap
   (`manifest_layout`). Others stay as they are.
2. Run: fold the entries of these, sort the live ones by partition and bucket, and divide them.
3. Write them, once, and prove that the live files are the same.
4. Commit them in a COMPACT snapshot without changes. A commit that wins in between only adds
   manifests, unless it merges the planned ones: then the plan is stale.

Source: Paimon `FileStoreCommitImpl.compactManifest`, `ManifestFileSorter`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from lakewright.storage.errors import (
    CommitOutcomeUnknownError,
    StalePlan,
    StorageError,
    UnsupportedError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.commit import commit_manifests
from lakewright.storage.operations.commit.copied_manifests import sorted_by_partition
from lakewright.storage.operations.commit.rewritten_manifests import write_rewritten
from lakewright.storage.operations.rewrite.manifest_layout import Fault, pick_manifests
from lakewright.storage.operations.rewrite.sized_manifests import (
    bytes_per_entry,
    sized_copies,
    target_bytes_of_entries,
)
from lakewright.storage.operations.running.delete_files import discard_files
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.operations.running.verb_options import COUNT, option
from lakewright.storage.operations.state.deleted_names import may_hold_deleted
from lakewright.storage.operations.state.latest import read_latest
from lakewright.storage.operations.state.live_columns import folded_rows, live_columns
from lakewright.storage.operations.state.live_files import snapshot_manifests
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.spec.arguments import whole_number
from lakewright.storage.spec.commit import EncodedManifest
from lakewright.storage.spec.manifest import FileKind, ManifestEntry, ManifestFileMeta
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported

# Entries of which the size of all others is estimated.
_SAMPLE = 1000

Metas = Sequence[ManifestFileMeta]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedManifest:
    """A manifest to rewrite, together with the others of its run."""

    name: str
    bytes: int
    entries: int
    fault: Fault
    run: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteManifestsPlan(Plan["RewriteManifestsResult"]):
    """The manifests to rewrite; `kept` others stay.

    `manifests_after` and `bytes_after` estimate what replaces them. `entries_dropped` counts
    additions and deletions of files that are gone.
    """

    table: str
    snapshot_id: int | None
    manifests: tuple[PlannedManifest, ...]
    kept: int
    entries_dropped: int
    manifests_after: int
    bytes_after: int
    reason: str

    @property
    def bytes(self) -> int:
        """Size of the manifests to rewrite."""
        return sum(manifest.bytes for manifest in self.manifests)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteManifestsResult(Shown):
    """What a rewrite of manifests replaced, and by what; no snapshot if there was nothing to do."""

    snapshot: Snapshot | None
    manifests_before: int
    manifests_after: int
    bytes_before: int
    bytes_after: int
    entries_dropped: int
    attempts: int
    duration_ms: int


@dataclass(frozen=True)
class RewriteManifestsOptions:
    """From when on manifests are rewritten."""

    min_count: int = option(
        COUNT,
        1,
        "Rewrite from this number of manifests on that are small, share partitions with others or "
        "hold deleted entries.",
    )


def plan_rewrite_manifests(
    files: TableFiles, options: RewriteManifestsOptions
) -> RewriteManifestsPlan:
    """Plan a rewrite, if at least so many manifests are small, overlap or hold deleted entries.

    Raises:
        InvalidRequestError: the count is no whole number.
        UnsupportedError: the table has an option that is not implemented.
    """
    whole_number(options.min_count, "min_count")
    check_supported(files.schema, Use.TAG, table=files.name)
    files = files.reading_once()
    _, plan = read_latest(files, lambda latest: _planned(files, latest, options.min_count))
    return plan


def _planned(files: TableFiles, latest: Snapshot | None, min_count: int) -> RewriteManifestsPlan:
    metas = () if latest is None else snapshot_manifests(files, latest)
    each_bytes = bytes_per_entry(files, _sample(files, metas))
    live = _live_counts(files, metas)
    live_bytes = {meta.file_name: live[meta.file_name] * each_bytes for meta in metas}
    deleted = {meta.file_name for meta in metas if live[meta.file_name] < _entries_of(meta)}
    room = target_bytes_of_entries(files)
    runs = pick_manifests(files, metas, deleted=deleted, live_bytes=live_bytes, room=room)
    faults = Counter(fault for run in runs for fault in run.values())
    found = faults.total() - faults[Fault.NEIGHBOUR]
    if found < min_count:
        runs = []
    by_name = {meta.file_name: meta for meta in metas}
    planned = [
        PlannedManifest(
            name=name,
            bytes=by_name[name].file_size,
            entries=_entries_of(by_name[name]),
            fault=fault,
            run=number,
        )
        for number, run in enumerate(runs)
        for name, fault in run.items()
    ]
    sums = [sum(live_bytes[name] for name in run) for run in runs]
    manifests_after = sum(max(1, int(each / room)) for each in sums if each)
    header = max(0, files.options.manifest_target_file_size - room)
    return RewriteManifestsPlan(
        table=files.name,
        snapshot_id=None if latest is None else latest.id,
        manifests=tuple(planned),
        kept=len(metas) - len(planned),
        entries_dropped=sum(each.entries - live[each.name] for each in planned),
        manifests_after=manifests_after,
        bytes_after=int(sum(sums)) + manifests_after * header,
        reason=_reason(latest, faults, found, min_count),
    )


def _reason(
    latest: Snapshot | None, faults: Mapping[Fault, int], found: int, min_count: int
) -> str:
    if latest is None:
        return "the table has no snapshot, so it has no manifests"
    if not found:
        return (
            "no manifest is small, large, shares partitions with another or holds deleted entries"
        )
    told = ", ".join(f"{count} {fault.value}" for fault, count in faults.items())
    return told if found >= min_count else f"{told}, fewer than {min_count}"


def _entries_of(meta: ManifestFileMeta) -> int:
    return meta.num_added_files + meta.num_deleted_files


def _sample(files: TableFiles, metas: Sequence[ManifestFileMeta]) -> list[ManifestEntry]:
    # Large manifests come first in a list, so few are read.
    return list(islice(files.manifests.entries(metas), _SAMPLE))


def _live_counts(files: TableFiles, metas: Sequence[ManifestFileMeta]) -> dict[str, int]:
    """How many live files each manifest adds; only those that may hold deleted ones are read."""
    counts = {meta.file_name: _entries_of(meta) for meta in metas}
    may_hold = may_hold_deleted(files, metas)
    concerned = [meta for meta in metas if may_hold(meta)]
    if not concerned:
        return counts
    found = live_columns(files, concerned, PartitionFilter(files), apart=True)
    live_of = {id(part): len(there) for part, _, there in found.by_part(found.rows)}
    for meta, part in zip(concerned, found.parts, strict=True):
        counts[meta.file_name] = live_of.get(id(part), 0)
    return counts


def run_rewrite_manifests(files: TableFiles, plan: RewriteManifestsPlan) -> RewriteManifestsResult:
    """Carry a plan out; does nothing if the plan is empty.

    Raises:
        StalePlan: another commit merged a planned manifest, or the plan leaves one out.
        VerificationFailed: the live files would not be the same; nothing was published.
    """
    started = files.env.now_ms()
    files = files.reading_once()
    rewrite = _Rewrite(files, plan)
    snapshot, attempts = None, 0
    if plan.snapshot_id is not None and plan.manifests:
        try:
            result = commit_manifests(
                files, rewrite.state, user=files.env.new_id(), base_snapshot_id=plan.snapshot_id
            )
        except CommitOutcomeUnknownError:
            raise
        except BaseException:
            # A second store failure must not hide why the commit failed.
            with suppress(StorageError):
                rewrite.give_up()
            raise
        snapshot, attempts = result.snapshot, result.attempts
    return RewriteManifestsResult(
        snapshot=snapshot,
        manifests_before=len(plan.manifests),
        manifests_after=len(rewrite.new),
        bytes_before=plan.bytes,
        bytes_after=sum(len(each.data) for each in rewrite.new),
        entries_dropped=sum(manifest.entries for manifest in plan.manifests)
        - sum(each.count for each in rewrite.new),
        attempts=attempts,
        duration_ms=files.env.now_ms() - started,
    )


@dataclass(slots=True)
class _Rewrite:
    """The new manifests of a plan; they are written once, however often the commit tries again."""

    files: TableFiles
    plan: RewriteManifestsPlan
    new: list[EncodedManifest] = field(default_factory=list)
    _replaced: tuple[ManifestFileMeta, ...] = ()
    _state: tuple[ManifestFileMeta, ...] = ()
    _written: list[str] = field(default_factory=list)

    def state(self, metas: Metas) -> Metas:
        """The manifests that replace those of the latest state."""
        before, planned, after = _parted(self.files, self.plan, metas)
        replaced = (*before, *planned)
        if replaced != self._replaced or not self._are_there():
            self.give_up()
            self.new = list(self._manifests(planned, before))
            self._state = write_rewritten(self.files, replaced, before, self.new, self._written)
            self._replaced = replaced
        return (*self._state, *after)

    def _are_there(self) -> bool:
        """Whether the new manifests exist: a rollback may have deleted them with a lost attempt."""
        fs, paths = self.files.fs, self.files.paths
        return all(fs.exists(paths.manifest(name)) for name in self._written)

    def give_up(self) -> None:
        """Delete what was written."""
        discard_files(self.files.fs, map(self.files.paths.manifest, self._written))
        self._written.clear()

    def _manifests(self, planned: Metas, before: Metas) -> Iterator[EncodedManifest]:
        """The new manifests, of entries as they are stored.

        Raises:
            StalePlan: the plan leaves out a manifest with files that the planned ones delete.
            UnsupportedError: entries cannot be copied as they are stored.
        """
        files = self.files
        stored = files.manifests.read_stored(
            planned, compression=files.options.manifest_compression, always=True
        )
        if stored is None:
            # What is damaged is found by the decoder of single entries, which tells the file.
            for meta in planned:
                files.manifests.read_listed(meta)
            raise UnsupportedError(
                f"manifests of {files.name} are encoded in a way that this release does not copy; "
                "commits merge them"
            )
        rows = folded_rows(stored.entries)
        deletes = stored.entries.numbers("_KIND", rows) == FileKind.DELETE
        # A deletion of a file that nothing adds is of no use to a reader.
        waiting = {stored.entries.entry(row).identity for row in rows[deletes].tolist()}
        if waiting and any(entry.identity in waiting for entry in files.manifests.entries(before)):
            raise _leaves_out(files)
        rows = rows[~deletes]
        run_of = {manifest.name: manifest.run for manifest in self.plan.manifests}
        runs = stored.of_manifests([run_of[meta.file_name] for meta in planned], rows)
        for run in np.unique(runs).tolist():
            ordered = sorted_by_partition(files, stored.entries, rows[runs == run])
            yield from sized_copies(files, stored, ordered)


def _parted(
    files: TableFiles, plan: RewriteManifestsPlan, metas: Metas
) -> tuple[Metas, Metas, Metas]:
    """Manifests that stay before the planned ones, those planned, and those after them."""
    names = {manifest.name for manifest in plan.manifests}
    places = [at for at, meta in enumerate(metas) if meta.file_name in names]
    if len(places) < len(names):
        raise StalePlan(
            f"{len(names) - len(places)} of {len(names)} manifests that the plan for {files.name} "
            "rewrites are gone: another commit merged them; plan again"
        )
    end = places[-1] + 1
    before = [meta for meta in metas[:end] if meta.file_name not in names]
    if any(meta.num_deleted_files for meta in before):
        raise _leaves_out(files)
    return before, [metas[at] for at in places], metas[end:]


def _leaves_out(files: TableFiles) -> StalePlan:
    return StalePlan(
        f"the plan for {files.name} leaves out a manifest with deleted entries; plan again"
    )
