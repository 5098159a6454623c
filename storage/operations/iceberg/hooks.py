"""When Iceberg metadata is published besides by its verb: after commits, and before roots go.

pyiceberg is imported where it is needed alone.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from lakewright.storage.errors import UnsupportedError
from lakewright.storage.extras import needed_for
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.iceberg.metadata_files import (
    MetadataFiles,
    is_published,
    versions_of,
)

_LOG = logging.getLogger(__name__)
# Roots of the main branch; branches are not published.
_ROOT = re.compile(r"(snapshot/snapshot-|tag/tag-)[^/]+")


def publish_after_commit(files: TableFiles) -> None:
    """Publish after a commit or a new tag, if the table's option asks for it.

    A failure is a warning: the commit stands, and the next one, or the verb, catches up.
    """
    if is_published(files):
        _publish(files)


def publish_after_change(files: TableFiles) -> None:
    """Publish after roots went or came back, if the table has metadata or its option asks for it.

    A process that published meanwhile may not have seen it.
    """
    if not files.paths.branch and (is_published(files) or _is_found(files)):
        _publish(files)


def leave_metadata(files: TableFiles, roots: Collection[str]) -> None:
    """Publish without roots that are about to go, given by their paths, if metadata names any.

    Raises:
        UnsupportedError: readers see a snapshot that would go, and no other can be published.
    """
    below = f"{files.paths.root}/"
    going = [each for each in roots if _ROOT.fullmatch(each.removeprefix(below))]
    if not going or files.paths.branch or not _is_there(files):
        return
    try:
        with needed_for("Iceberg metadata"):
            from lakewright.storage.operations.iceberg.publish import publish  # noqa: PLC0415

            publish(files, going=going)
    except UnsupportedError as error:
        _leave_version(MetadataFiles.of(files), going, error)


def _publish(files: TableFiles) -> None:
    try:
        with needed_for("Iceberg metadata"):
            from lakewright.storage.operations.iceberg.publish import publish  # noqa: PLC0415

            publish(files)
    except Exception as error:  # noqa: BLE001  # whatever it is, the commit stands
        _LOG.warning(
            "%s: its Iceberg metadata is behind: %s; the commit stands; publish with `lakewright "
            "publish-iceberg %s`, or with the next commit",
            files.name,
            error,
            files.name,
        )


def _is_found(files: TableFiles) -> bool:
    """Whether readers find metadata by its hint; cheaper than `_is_there`."""
    with suppress(UnsupportedError):
        return MetadataFiles.of(files).hint() is not None
    return False


def _is_there(files: TableFiles) -> bool:
    with suppress(UnsupportedError):
        return bool(versions_of(MetadataFiles.of(files).listed()))
    return False


def _leave_version(own: MetadataFiles, going: Collection[str], why: UnsupportedError) -> None:
    """Take snapshots out of the current version, where a new one cannot be made."""
    version = max(versions_of(own.listed()))
    data = own.read(version)
    metadata: dict[str, Any] = {}
    with suppress(ValueError):
        metadata = json.loads(data or b"{}")
    if "snapshots" not in metadata:
        # No reader can read it either.
        return
    paths = own.files.paths
    gone = {
        each["snapshot-id"]
        for each in metadata.get("snapshots", ())
        if paths.snapshot(each["snapshot-id"]) in going
    }
    refs = metadata.get("refs", {})
    kept_by_tags = {
        ref["snapshot-id"]
        for name, ref in refs.items()
        if ref.get("type") == "tag" and paths.tag(name) not in going
    }
    left = {name: ref for name, ref in refs.items() if paths.tag(name) not in going}
    if metadata.get("current-snapshot-id") in gone:
        raise UnsupportedError(
            f"Iceberg readers see snapshot {metadata['current-snapshot-id']} of {own.files.name}, "
            f"whose files would go, and no later one can be published: {why.message}; or delete "
            f"{own.folder}, and readers find no table"
        ) from why
    gone -= kept_by_tags
    metadata["snapshots"] = [s for s in metadata["snapshots"] if s["snapshot-id"] not in gone]
    metadata["snapshot-log"] = [
        each for each in metadata.get("snapshot-log", ()) if each["snapshot-id"] not in gone
    ]
    metadata["refs"] = {name: ref for name, ref in left.items() if ref["snapshot-id"] not in gone}
    own.files.fs.replace(own.version_path(version), json.dumps(metadata).encode())
