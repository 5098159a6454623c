"""The verb that brings Iceberg metadata up to the snapshots of any writer.

1. Plan: compare what Iceberg readers see with the latest snapshot.
2. Run: publish (`publish.py`), and delete what dead publications have left.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.storage.extras import needed_for
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.iceberg.metadata_files import (
    MetadataFiles,
    check_publishable,
    read_status,
    shows_merged,
    unpublished,
)
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.supported_options import Use, check_supported


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishIcebergPlan(Plan["PublishIcebergResult"]):
    """Which snapshot Iceberg readers see, and the latest one; a run publishes what is latest then.

    `waiting` is the number of snapshots that readers do not see, and `unseen_since_ms` the time of
    the first of these. `shows_merged` says that readers see rows only after a full compaction.
    """

    table: str
    location: str
    seen_id: int | None
    latest_id: int | None
    waiting: int
    unseen_since_ms: int | None = None
    shows_merged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishIcebergResult(Shown):
    """What was published; no snapshot if readers saw all of the table before."""

    location: str
    snapshot_id: int | None
    snapshots_published: int
    files_added: int
    files_removed: int
    metadata_files_written: int
    metadata_files_deleted: int
    duration_ms: int


@dataclass(frozen=True)
class PublishIcebergOptions:
    """Nothing to choose: the table's options say where the metadata lies."""


def plan_publish_iceberg(files: TableFiles, options: PublishIcebergOptions) -> PublishIcebergPlan:
    """Plan to publish Iceberg metadata; writes nothing.

    Raises:
        UnsupportedError: Iceberg readers cannot read the table; the message says why.
    """
    del options
    _check(files)
    own = MetadataFiles.of(files)
    status = read_status(files) or unpublished(files)
    ids = own.files.snapshots.ids()
    waiting = [each for each in ids if each > (status.snapshot_id or 0)]
    return PublishIcebergPlan(
        table=files.name,
        location=own.files.fs.uri(own.folder),
        seen_id=status.snapshot_id,
        latest_id=status.latest_id,
        waiting=len(waiting) or int(status.unseen_since_ms is not None),
        unseen_since_ms=status.unseen_since_ms,
        shows_merged=shows_merged(files),
    )


def run_publish_iceberg(files: TableFiles, plan: PublishIcebergPlan) -> PublishIcebergResult:
    """Publish the table as it is now.

    Raises:
        UnsupportedError: as `plan_publish_iceberg`.
        CorruptionError: metadata of the table cannot be read.
    """
    _check(files)
    started = files.env.now_ms()
    with needed_for("Iceberg metadata"):
        from lakewright.storage.operations.iceberg.publish import publish  # noqa: PLC0415

        done = publish(files, sweeps=True)
    return PublishIcebergResult(
        location=plan.location,
        snapshot_id=done.version,
        snapshots_published=done.snapshots,
        files_added=done.files_added,
        files_removed=done.files_removed,
        metadata_files_written=done.files_written,
        metadata_files_deleted=done.files_deleted,
        duration_ms=files.env.now_ms() - started,
    )


def _check(files: TableFiles) -> None:
    check_supported(files.schema, Use.TAG, table=files.name)
    check_publishable(files)
    with needed_for("Iceberg metadata"):
        from lakewright.storage.operations.iceberg.iceberg_types import (  # noqa: PLC0415
            iceberg_schema,
        )

        iceberg_schema(files.schema, table=files.name)
