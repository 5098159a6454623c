"""Paths of a table's files; every name on disk is built and parsed here.

Source: Paimon specification, chapter File Layouts; `FileStorePathFactory`.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.file_names import UnsafeName, place_below, plain_name
from lakewright.storage.spec.options import POSTPONE_BUCKET
from lakewright.storage.spec.partition import escape_path

DATABASE_SUFFIX = ".db"
UPKEEP_FOLDER = ".lakewright"
_MOST_DIGITS = 19


@dataclass(frozen=True, slots=True)
class TablePaths:
    """Paths below one table's root; `branch` is empty for the main branch."""

    root: str
    branch: str = ""

    @property
    def metadata_root(self) -> str:
        """The folder of snapshots, schemas and tags; each branch has its own."""
        return _inside(self.branch_dir, f"branch-{self.branch}") if self.branch else self.root

    @property
    def snapshot_dir(self) -> str:
        return f"{self.metadata_root}/snapshot"

    def snapshot(self, snapshot_id: int) -> str:
        return f"{self.snapshot_dir}/snapshot-{snapshot_id}"

    @property
    def latest_hint(self) -> str:
        return f"{self.snapshot_dir}/LATEST"

    @property
    def earliest_hint(self) -> str:
        return f"{self.snapshot_dir}/EARLIEST"

    @property
    def schema_dir(self) -> str:
        return f"{self.metadata_root}/schema"

    def schema(self, schema_id: int) -> str:
        return f"{self.schema_dir}/schema-{schema_id}"

    @property
    def tag_dir(self) -> str:
        return f"{self.metadata_root}/tag"

    def tag(self, name: str) -> str:
        return _inside(self.tag_dir, f"tag-{name}")

    @property
    def consumer_dir(self) -> str:
        return f"{self.metadata_root}/consumer"

    def consumer(self, name: str) -> str:
        return _inside(self.consumer_dir, f"consumer-{name}")

    @property
    def changelog_dir(self) -> str:
        return f"{self.metadata_root}/changelog"

    def changelog(self, snapshot_id: int) -> str:
        return f"{self.changelog_dir}/changelog-{snapshot_id}"

    @property
    def changelog_latest_hint(self) -> str:
        return f"{self.changelog_dir}/LATEST"

    @property
    def changelog_earliest_hint(self) -> str:
        return f"{self.changelog_dir}/EARLIEST"

    @property
    def branch_dir(self) -> str:
        return f"{self.root}/branch"

    @property
    def manifest_dir(self) -> str:
        return f"{self.root}/manifest"

    def manifest(self, name: str) -> str:
        return _inside(self.manifest_dir, name)

    @property
    def index_dir(self) -> str:
        return f"{self.root}/index"

    def index(self, name: str) -> str:
        return _inside(self.index_dir, name)

    @property
    def statistics_dir(self) -> str:
        return f"{self.root}/statistics"

    def statistics(self, name: str) -> str:
        return _inside(self.statistics_dir, name)

    @property
    def upkeep_dir(self) -> str:
        """The hidden folder of maintenance data; readers of the format skip hidden folders."""
        return f"{self.root}/{UPKEEP_FOLDER}"

    @property
    def store_clock(self) -> str:
        """A file that is written to learn the store's time."""
        return f"{self.upkeep_dir}/clock"

    @property
    def condemned_dir(self) -> str:
        """The folder of the records of what verbs condemned, on any branch."""
        return f"{self.upkeep_dir}/condemned"

    def condemned(self, name: str) -> str:
        return _inside(self.condemned_dir, name)

    def below(self, path: str) -> str:
        """The full path of a path below the table's root, as plans and records name files.

        Raises:
            InvalidRequestError: the path would lead out of the table.
        """
        return f"{self.root}/{_place(path)}"

    @property
    def pending_dir(self) -> str:
        """The folder of staged batches that wait for their commit; each branch has its own."""
        return f"{self.metadata_root}/{UPKEEP_FOLDER}/pending"

    def pending(self, user: str, identifier: int) -> str:
        return f"{self.pending_dir}/user-{escape_path(user)}/batch-{identifier}"

    @property
    def staged_change_dir(self) -> str:
        """The folder of what a change of partition keys has staged; each branch has its own."""
        return f"{self.metadata_root}/{UPKEEP_FOLDER}/respec"

    def staged_change(self, number: int) -> str:
        return f"{self.staged_change_dir}/change-{number}"

    def staged_partitions(self, number: int, record_id: str) -> str:
        return f"{self.staged_change_dir}/staged-{number}-{record_id}"

    @property
    def stream_dir(self) -> str:
        """The folder of the starts of streams; each branch has its own."""
        return f"{self.metadata_root}/{UPKEEP_FOLDER}/streams"

    def stream(self, stream: str) -> str:
        return f"{self.stream_dir}/stream-{escape_path(stream)}"

    @property
    def checkpoint(self) -> str:
        """The folder in which an engine keeps what it has read of the table's declared stream."""
        return f"{self.metadata_root}/{UPKEEP_FOLDER}/checkpoint"

    @property
    def lease_dir(self) -> str:
        return f"{self.upkeep_dir}/leases"

    @property
    def kept_column_dir(self) -> str:
        """The folder of names of columns that only a deleted branch had."""
        return f"{self.upkeep_dir}/columns"

    def bucket_dir(self, partition: str, bucket: int) -> str:
        """The folder of a bucket; `partition` is the path text of its partition, maybe empty."""
        name = "bucket-postpone" if bucket == POSTPONE_BUCKET else f"bucket-{bucket}"
        return "/".join(part for part in (self.root, partition, name) if part)


def numbered(name: str, prefix: str) -> int | None:
    """The number of a file such as `snapshot-12`, None for other files."""
    digits = name.removeprefix(prefix)
    return whole_number(digits) if digits != name else None


def whole_number(text: str) -> int | None:
    """The number in a file's name or a hint, None for other texts.

    Only one spelling counts: `snapshot-007` is not the file of snapshot 7.
    """
    if not text.isascii() or not text.isdecimal() or len(text) > _MOST_DIGITS:
        return None
    return int(text) if text == "0" or not text.startswith("0") else None


def _inside(folder: str, name: str) -> str:
    """The path of a name in a folder; the name may come from a caller or a plan.

    Raises:
        InvalidRequestError: the name would lead out of the folder.
    """
    try:
        return f"{folder}/{plain_name(name)}"
    except UnsafeName as error:
        raise InvalidRequestError(str(error)) from None


def _place(path: str) -> str:
    try:
        return place_below(path)
    except UnsafeName as error:
        raise InvalidRequestError(str(error)) from None
