"""What a table holds at one snapshot, read once, and whether its files have the table's keys.

Every operation over live files begins with a state. `state_at` refuses files of other partition
keys unless its caller takes them, so a verb that was written without a thought of changing keys
never meets such files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

import numpy as np

from lakewright.storage.errors import SchemaMoved, UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.keys_of_files import (
    files_fit,
    has_bridged_rows,
    is_bridged_row,
    keys_of,
    late_entries,
    rows_fit,
    schemas_fit,
    ways_out,
)
from lakewright.storage.operations.state.latest import read_latest
from lakewright.storage.operations.state.live_columns import LiveColumns, live_columns
from lakewright.storage.operations.state.live_files import (
    KnownEntries,
    index_entries,
    live_entries,
    live_entries_known,
    snapshot_manifests,
)
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.operations.state.rewrite_schema import check_keys_stay
from lakewright.storage.spec.index import IndexEntry
from lakewright.storage.spec.manifest import (
    DataFileMeta,
    FileKind,
    ManifestEntry,
    ManifestFileMeta,
    fold_entries,
)
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.snapshot import Snapshot


class Keys(Enum):
    """How the partition keys of the live files compare with those of the table.

    SETTLED: the row of each entry has one value for each key, and the schema of its file has these
    keys, or the first of them. A table is so between changes of its keys, and all may read it.

    MIXED: an entry has a row or a schema of other keys. During a change of an append table, and
    after one that was stopped, all rows have the longer list of keys; a client that opened a table
    before a change leaves files of the former keys. Scans read an append table, and refuse a keyed
    table whose rows may replace others. Committers and `respec` bring the files to the keys.

    BRIDGED: the moment of a change of a primary-key table. Rows have more values than the keys of
    before and after, and files share no key. Scans and comparisons of snapshots read it. A
    committer waits, and ends the change if its process died.
    """

    SETTLED = "settled"
    MIXED = "mixed"
    BRIDGED = "bridged"


SETTLED = frozenset([Keys.SETTLED])
ANY_KEYS = frozenset(Keys)


@dataclass(frozen=True)
class TableState:
    """The files of a table at a snapshot; without a snapshot there are none.

    Each part is read when it is first asked for. `known` is what a committer knows, which reads
    one snapshot after another.
    """

    files: TableFiles
    snapshot: Snapshot | None
    known: KnownEntries | None = field(default=None, compare=False, repr=False)

    @cached_property
    def manifests(self) -> tuple[ManifestFileMeta, ...]:
        """The manifests, oldest first."""
        return () if self.snapshot is None else snapshot_manifests(self.files, self.snapshot)

    @cached_property
    def entries(self) -> list[ManifestEntry]:
        """All live files, in manifest order."""
        return self.entries_of()

    def entries_of(
        self, partitions: Iterable[bytes] | None = None, *, predicate: Predicate | None = None
    ) -> list[ManifestEntry]:
        """The live files of some partitions, by their rows and by what a filter says of keys."""
        if self.known is None:
            return live_entries(
                self.files,
                self.snapshot,
                partitions=partitions,
                predicate=predicate,
                manifests=self.manifests,
            )
        assert predicate is None
        rows = None if partitions is None else frozenset(partitions)
        if rows not in self._by_rows:
            self._by_rows[rows] = live_entries_known(self.files, self.manifests, rows, self.known)
        return self._by_rows[rows]

    @cached_property
    def _by_rows(self) -> dict[frozenset[bytes] | None, list[ManifestEntry]]:
        return {}

    @property
    def standing(self) -> list[ManifestEntry]:
        """All live files without those that were removed in vain."""
        if rows_fit(
            self.files, (manifest.partition_stats.min_values for manifest in self.manifests)
        ):
            return self.entries
        return [e for e in self.entries if e.file.file_name not in self.removed_in_vain]

    @cached_property
    def removed_in_vain(self) -> frozenset[str]:
        """Names of files whose removal names another row than theirs, so that readers see them.

        A client that opened the table before its partition keys changed writes the row of a removal
        anew, with the values of its own keys, as it overwrites a partition.
        """
        folded = fold_entries(self.files.manifests.entries(self.manifests)).values()
        return frozenset(each.file.file_name for each in folded if each.kind is FileKind.DELETE)

    def columns_of(self, wanted: PartitionFilter) -> LiveColumns:
        """The live files of some partitions as columns, without an object for each."""
        return live_columns(self.files, self.manifests, wanted)

    @cached_property
    def indexes(self) -> tuple[IndexEntry, ...]:
        """Every index file.

        Raises:
            UnsupportedError: an index file lies outside of the table.
        """
        return index_entries(self.files, self.snapshot)

    @cached_property
    def keys(self) -> Keys:
        """The keys of the live files; of a table whose keys never changed, manifests tell them."""
        if self.is_bridged:
            return Keys.BRIDGED
        return Keys.SETTLED if files_fit(self.files, self.manifests) else Keys.MIXED

    @property
    def is_settled(self) -> bool:
        """Whether the keys are `Keys.SETTLED`."""
        return self.keys is Keys.SETTLED

    @cached_property
    def is_bridged(self) -> bool:
        """Whether the keys are `Keys.BRIDGED`, without a look at the entries."""
        return has_bridged_rows(self.files, self.manifests)

    def check_settled(self) -> None:
        """Check that each partition has one row, and each row is of one partition.

        Raises:
            SchemaMoved: files have other keys than the table; names the way on.
        """
        if self.is_settled:
            return
        check_keys_stay(self.files, self.files.schemas.latest(table=self.files.name))
        keys = ",".join(self.files.schema.partition_keys)
        raise SchemaMoved(
            f"the partition keys of {self.files.name} are changing, which takes a moment, or a "
            "process was stopped that changed them, or wrote under former ones; end it (lakewright "
            f"respec {self.files.name} --keys {keys!r}), and plan again"
        )

    def check_keys_of(self, metas: Iterable[DataFileMeta]) -> None:
        """Check that some live files have the table's keys; others of the table may have not.

        Raises:
            SchemaMoved: one has other keys; names the way on.
        """
        if not schemas_fit(self.files, {meta.schema_id for meta in metas}):
            self.check_settled()

    def check_read(self, live: LiveColumns) -> None:
        """Check some live files of a primary-key table: a client of former keys wrote none.

        Their rows replace rows in other partitions, which no merge would find.

        Raises:
            SchemaMoved: the keys changed since the table was opened.
            UnsupportedError: names the keys.
        """
        files = self.files
        if not files.schema.has_primary_key:
            return
        ids = np.unique(live.numbers("_FILE._SCHEMA_ID", live.rows)).tolist()
        foreign = [each for each in ids if keys_of(files, each) != files.schema.partition_keys]
        if self.is_bridged:
            rows = live.texts("_PARTITION", live.rows).to_pylist()
            own = live.numbers("_FILE._SCHEMA_ID", live.rows).tolist()
            others = {
                schema_id
                for row, schema_id in {*zip(rows, own, strict=True)}
                if not is_bridged_row(files, row, schema_id)
            }
            if not others:
                return
            if others.isdisjoint(foreign):
                raise UnsupportedError(
                    f"a change of the partition keys of {files.name} is in progress or was "
                    "stopped, and another client committed rows meanwhile, which may replace "
                    "others; the next commit to the table ends the change, or lakewright respec "
                    f"{files.name} --keys {','.join(files.schema.partition_keys)!r}"
                )
        self._refuse_files_of(foreign)

    def check_looked_up(self, live: Iterable[ManifestEntry]) -> None:
        """Check that keys can be looked up by the partitions and bounds of some live files.

        Bridged entries have no bounds of keys, and files of other partition keys lie elsewhere.

        Raises:
            SchemaMoved: the partition keys are changing, or changed since the table was opened.
            UnsupportedError: a client wrote files under former keys.
        """
        if self.is_bridged:
            raise SchemaMoved(
                f"the partition keys of {self.files.name} are changing, which takes a moment; open "
                "the table and look the keys up again, or read it with a filter"
            )
        late = {entry.file.schema_id for entry in late_entries(self.files, live)}
        self._refuse_files_of(sorted(late))

    def _refuse_files_of(self, foreign: Sequence[int]) -> None:
        """Refuse files of schemas with other partition keys, if there are any; ids ascend."""
        files = self.files
        if not foreign:
            return
        if foreign[-1] > files.schema.id:
            raise SchemaMoved(
                f"the partition keys of {files.name} changed since it was opened (schema "
                f"{files.schema.id}; files have schema {foreign[-1]}); open the table again"
            )
        raise UnsupportedError(
            f"data files of {files.name} have the partition keys "
            f"{', '.join(keys_of(files, foreign[0])) or 'none'} (schema {foreign[0]}), and the "
            f"table has {', '.join(files.schema.partition_keys) or 'none'}: a client that opened "
            "the table before its keys changed wrote them, and their rows may replace others; "
            f"{ways_out(files)}"
        )


def state_at(
    files: TableFiles, snapshot: Snapshot | None, *, takes: Collection[Keys] = SETTLED
) -> TableState:
    """The state of a table at a snapshot.

    Raises:
        SchemaMoved: the files have keys that the caller does not take; names the way on.
    """
    state = TableState(files, snapshot)
    if len(takes) < len(Keys) and state.keys not in takes:
        state.check_settled()
    return state


def latest_state(
    files: TableFiles,
    read: Callable[[TableState], object] = lambda state: state.entries,
    *,
    takes: Collection[Keys] = SETTLED,
) -> TableState:
    """The state at the latest snapshot, of which `read` reads what is needed.

    It begins anew if another process replaced the snapshot meanwhile.

    Raises:
        SchemaMoved: the files have keys that the caller does not take; names the way on.
        CorruptionError: a file is missing although the snapshot still is the latest.
    """

    def begin(snapshot: Snapshot | None) -> TableState:
        state = state_at(files, snapshot, takes=takes)
        read(state)
        return state

    return read_latest(files, begin)[1]
