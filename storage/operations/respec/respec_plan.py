"""What a change of partition keys would do, and what it did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.key_values import KeyRow, KeyValues
from lakewright.storage.operations.respec.new_places import bucket_count_for
from lakewright.storage.operations.rewrite.compaction_plan import CompactionPlan
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.spec.manifest import DataFileMeta, ManifestEntry
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.partition import Partition, partition_path
from lakewright.storage.spec.partition_text import partition_text
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.shown import Shown

# More than these make a table slow to plan; a caller may raise them.
MOST_PARTITIONS = 10_000
MOST_FILES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The files that are restated where they lie, or that are split first."""

    files: int
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Becoming:
    """A present partition, and the partitions that its rows come to, by their paths.

    `key` and `keys`, in the order of `becomes`, are the texts of their values, which orchestrators
    keep: unlike folders, they tell null, the empty text and a text of blanks apart.
    """

    partition: str
    becomes: tuple[str, ...]
    key: str = ""
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RespecPlan(Plan["RespecResult"]):
    """What a change of the partition keys would do, as of one snapshot.

    `steps` are the keys after each cut-over; none if the table has the keys already. `becomes`
    names the new partitions of each present one. `splits` has the files to split, by bucket. Of a
    primary-key table it has all files, which are rewritten (`is_keyed`), or those that a client
    committed under former keys. `primary_key` is the new one, if it changes, too. If the table
    `crosses_partitions` afterwards, rows move between them, and it can only be read here.
    `partition_count` is that of the new ones: null and empty texts share a folder, and are several.
    A run that was stopped has `staged` the rows of some files in `split`, which are not written
    again. `gives_up` is how many partitions are staged for another change, and go. `damaged` says
    what is wrong with records of staged partitions that cannot be read, and go. With
    `late_rows_win`, rows that a client committed under former keys count as the latest. With
    `keep_staged`, what was staged for another change stays.
    """

    table: str
    schema_id: int
    snapshot_id: int | None
    keys: tuple[str, ...]
    former_keys: tuple[str, ...]
    steps: tuple[tuple[str, ...], ...]
    restate: Layout
    split: Layout
    splits: CompactionPlan
    files_after: int
    becomes: tuple[Becoming, ...]
    most_partitions: int = MOST_PARTITIONS
    most_files: int = MOST_FILES
    is_keyed: bool = False
    moved_from: str | None = None
    primary_key: tuple[str, ...] | None = None
    crosses_partitions: bool = False
    partition_count: int = 0
    staged: Layout = Layout(files=0, bytes=0, rows=0)
    gives_up: int = 0
    damaged: tuple[str, ...] = ()
    late_rows_win: bool = False
    keep_staged: bool = False

    @property
    def partitions_before(self) -> int:
        return len(self.becomes)

    @property
    def partitions_after(self) -> int:
        return self.partition_count

    @property
    def changes_nothing(self) -> bool:
        """Whether the table has the keys, no file of another layout, and none that is staged."""
        layouts = self.restate.files, self.split.files, self.gives_up, len(self.damaged)
        return not self.steps and not any(layouts)

    @property
    def work_bytes(self) -> int | None:
        return self.splits.work_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RespecResult(Shown):
    """What a change of the partition keys did; `schema` is the current one.

    `files_split` files of `bytes_rewritten` were replaced by those written. `nulled_values` did not
    fit their columns' types, and are null for good now. `files_continued` new files had been staged
    by a run that was stopped. Restated files lie where they lay, but for those that were settled.
    """

    schema: TableSchema
    former_keys: tuple[str, ...]
    snapshot_ids: tuple[int, ...]
    files_restated: int
    files_split: int
    bytes_rewritten: int
    duration_ms: int
    previous_schema_id: int = 0
    differences: tuple[str, ...] = ()
    files_written: int = 0
    bytes_written: int = 0
    rows_written: int = 0
    nulled_values: int = 0
    files_continued: int = 0
    files_settled: int = 0


@dataclass
class Rewritten:
    """The sums of files that a change replaced, and of those that it wrote for them."""

    files: int = 0
    bytes: int = 0
    files_written: int = 0
    bytes_written: int = 0
    rows_written: int = 0
    nulled_values: int = 0
    files_continued: int = 0

    def read(self, files: Iterable[DataFileMeta]) -> None:
        """Count files that are replaced."""
        for file in files:
            self.files += 1
            self.bytes += file.file_size

    def wrote(self, files: Iterable[DataFileMeta], nulled_values: int) -> None:
        """Count files that were written."""
        self.nulled_values += nulled_values
        for file in files:
            self.files_written += 1
            self.bytes_written += file.file_size
            self.rows_written += file.row_count

    def add(self, other: Rewritten) -> None:
        """Count what another part of the change did."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


def layout_of(entries: Iterable[ManifestEntry]) -> Layout:
    """The sums of some files."""
    metas = [entry.file for entry in entries]
    return Layout(
        files=len(metas),
        bytes=sum(file.file_size for file in metas),
        rows=sum(file.row_count for file in metas),
    )


def becomings(
    files: TableFiles, entries: Iterable[ManifestEntry], values: KeyValues
) -> tuple[Becoming, ...]:
    """The new partitions of each present partition."""
    found: dict[Partition, set[tuple[str, str]]] = {}
    names: dict[KeyRow, tuple[str, str]] = {}
    now = files.partitions.keys
    for entry in entries:
        of_partition = found.setdefault(files.partitions.of_entry(entry), set())
        for row in values.found[entry.file.file_name]:
            if row not in names:
                path = partition_path(
                    values.fields, row, default_name=now.default_name, legacy_name=now.legacy_name
                )
                names[row] = (path, partition_text(row, values.fields))
            of_partition.add(names[row])
    there = [(each.path, each.text, sorted(into)) for each, into in found.items()]
    return tuple(
        Becoming(
            partition=path,
            becomes=tuple(path for path, _ in into),
            key=key,
            keys=tuple(key for _, key in into),
        )
        for path, key, into in sorted(there)
    )


def check_size(plan: RespecPlan) -> None:
    """Check that the table stays below the limits.

    Raises:
        InvalidRequestError: tells the numbers, and the limit.
    """
    for what, count, limit in (
        ("partitions", plan.partitions_after, plan.most_partitions),
        ("files", plan.files_after, plan.most_files),
    ):
        if count > limit:
            raise InvalidRequestError(
                f"{plan.table} would have {count:,} {what} under the keys "
                f"{', '.join(plan.keys) or 'none'} (now {plan.partitions_before:,} partitions), "
                f"and the limit is {limit:,}; take coarser keys, or raise "
                f"most_{what} (--max-{what}, in a policy max_{what})"
            )


def count_files_after(
    files: TableFiles,
    single: Sequence[ManifestEntry],
    several: Sequence[ManifestEntry],
    values: KeyValues,
    splits: CompactionPlan,
) -> int:
    """How many files there will be; of a primary-key table at most, if none reaches its size.

    A split joins the rows of a bucket that have the same values. Of a primary-key table whose keys
    go, each present partition may have rows for each bucket of its new one.
    """
    if not files.schema.has_primary_key:
        joined = {name for task in splits.tasks for name in task.files}
        apart = [each for each in several if each.file.file_name not in joined]
        split = sum(
            len({row for name in task.files for row in values.found[name]})
            + sum(task.file_sizes) // files.options.target_file_size
            for task in splits.tasks
        )
        return len(single) + split + sum(len(values.found[each.file.file_name]) for each in apart)
    keys_by_partition: dict[bytes, set[KeyRow]] = {}
    rows: dict[bytes, int] = {}
    for entry in several:
        keys_by_partition.setdefault(entry.partition, set()).update(
            values.found[entry.file.file_name]
        )
        rows[entry.partition] = rows.get(entry.partition, 0) + entry.file.row_count
    if files.options.bucket_mode is BucketMode.FIXED:
        return sum(map(len, keys_by_partition.values())) * files.options.bucket
    target = files.options.dynamic_bucket_target_row_num
    if any(len(each) > 1 for each in keys_by_partition.values()):
        return sum(
            len(keys_by_partition[each]) + rows[each] // target for each in keys_by_partition
        )
    together: dict[KeyRow, int] = {}
    for partition, (row,) in keys_by_partition.items():
        together[row] = together.get(row, 0) + rows[partition]
    return sum(bucket_count_for(files, together[row]) for (row,) in keys_by_partition.values())
