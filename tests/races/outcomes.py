"""What a race may leave: the outcome of some serial order, whole, and nothing besides."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from io import BytesIO
from itertools import combinations, permutations
from typing import Any

import fastavro

from lakewright.storage import Table
from lakewright.storage.errors import StorageError
from tests.races.verbs import NOW_MS, WRITERS, Arena, litter
from tests.support.processes.interleaving import Actor, Explored, Explorer, Outcome, State, schedule
from tests.support.stores.stepped_files import Call, Content, DictFiles, Verb, answer
from tests.support.tables.builders import comparable

Json = dict[str, Any]

_REWRITES = {"compact", "rescale", "settle"}
_OF_PARTITIONS = ("drop", "rename")
_OF_ROWS = ("delete", "update")
_COMMITS = {*WRITERS, *_REWRITES, *_OF_PARTITIONS, *_OF_ROWS}
_UNKNOWN = "CommitOutcomeUnknownError"
_MOVED = ("SchemaMoved", "StalePlan", "InvalidRequestError")


def allowed_errors(verb: str, others: set[str]) -> set[str]:
    """Errors that a verb may end with beside others; besides these it must go well."""
    found = {name for other in others for name in _ERRORS.get((verb, other), ())}
    if verb in _REWRITES and "expire" in others and others & _COMMITS:
        # What it was rewriting was replaced, and its files went.
        found |= {"StalePlan"}
    if verb in _COMMITS and "expire" in others and "rescale" in {verb, *others}:
        # Two snapshots of others came and went: it is unknown whether its own stands.
        found |= {_UNKNOWN}
    if verb == "read" and "expire" in others and others & _COMMITS:
        # The snapshot being read may be one that went.
        found |= {"FileMissing", "CorruptionError", "SnapshotNotFound"}
    return found


def _error_table() -> dict[tuple[str, str], tuple[str, ...]]:
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for writer in WRITERS:
        # Rows were given buckets by a count that is no longer the partition's.
        found[writer, "rescale"] = ("BucketCountChanged",)
        # What was staged had become visible, and was rolled back with the rest.
        found[writer, "rollback"] = ("FilesGone",)
        found["rescale", writer] = ("StalePlan",)
    for one in _REWRITES:
        for other in _REWRITES:
            found[one, other] = ("StalePlan",)
        found[one, "rollback"] = ("StalePlan", "FilesGone")
    # Another one merged its manifests; or what it read, or had just committed, was rolled back.
    found["manifests", "manifests"] = ("StalePlan",)
    found["manifests", "rollback"] = ("StalePlan", "FilesGone")
    found["manifests", "respec"] = _MOVED
    found["rollback", "manifests"] = ("StalePlan",)
    found["compact", "rescale"] = ("StalePlan", "SchemaMoved")
    found["rescale", "rescale"] = ("StalePlan", "SchemaMoved")
    for verb in _COMMITS:
        found["rollback", verb] = ("StalePlan",)
    for one in ("expire", "rollback"):
        found["orphans", one] = ("StalePlan",)
        found["tag", one] = ("StalePlan", "SnapshotNotFound")
        found["branch", one] = ("SnapshotNotFound", "CorruptionError")
        for other in ("expire", "rollback"):
            found[one, other] = ("StalePlan", "SnapshotNotFound")
        found[one, "tag"] = found[one, "branch"] = ("StalePlan",)
    # Both bring the table to another schema.
    for one in ("rescale", "rollback"):
        found["settle", one] = (*found["settle", one], "SchemaMoved")
    # A schema has one next version; a rewrite reads by the newest one.
    found["alter", "alter"] = found["alter", "rescale"] = ("SchemaMoved",)
    for one in _REWRITES:
        found[one, "alter"] = ("SchemaMoved",)
    # Partitions, staged rows and plans are those of the keys that the table was opened with.
    for one in (*_COMMITS, "rollback", "alter", "respec"):
        found[one, "respec"] = _MOVED
    # A partition of former keys, which was planned for, is none any more.
    for one in ("drop", "rename"):
        found[one, "respec"] = (*found.get((one, "respec"), ()), *_MOVED, "PartitionNotFound")
    # It names partitions of keys that files were written without: those of a second respec.
    found["overwrite", "respec"] += ("UnsupportedError",)
    # The column is a partition key by then.
    found["alter", "respec"] += ("ColumnInUse",)
    for one in ("alter", "rescale", "rollback"):
        found["respec", one] = ("SchemaMoved", "StalePlan")
    # What it had just committed was rolled back; or the rollback first ended the change with
    # snapshots of its own, and took them away with what had followed.
    found["respec", "rollback"] += ("FilesGone", _UNKNOWN)
    # A reader of a primary-key table must know its keys, and opens it again.
    found["read", "respec"] = ("FileMissing", "SchemaMoved")
    # What was opened or staged before has no key; a key is for all rows, or it is not given.
    for one in (*_COMMITS, "rollback", "alter", "respec", "manifests", "read", "key"):
        found[one, "key"] = (*_MOVED, "UnsupportedError", "FilesGone", "NotRevertible")
        found["key", one] = ("StalePlan", "SchemaMoved", "CommitConflictError", "FilesGone")
    found["key", "rollback"] += (_UNKNOWN, "CorruptionError")
    _add_partition_verbs(found)
    for one in _OF_ROWS:
        # The plan is of a history that is gone, or of rows with other columns.
        found[one, "rollback"] = ("StalePlan", "FilesGone")
        found[one, "alter"] = ("SchemaMoved",)
        found[one, "rescale"] = ("BucketCountChanged", "SchemaMoved")
        for other in (*_REWRITES, *_OF_PARTITIONS):
            found[other, one] = ("StalePlan",)
    # Whose turn it was to ask the store for the time, every time.
    found["orphans", "orphans"] = ("UnavailableError",)
    # The other one went back as far already.
    found["rollback", "rollback"] = ("StalePlan", "SnapshotNotFound")
    found["read", "rollback"] = ("FileMissing", "CorruptionError", "SnapshotNotFound")
    # It was collected, or the history has gone on since.
    found["put_back", "collect"] = ("StalePlan", "NotRevertible", "NotFoundError")
    found["put_back", "expire"] = found["put_back", "append"] = ("NotRevertible", "StalePlan")
    found["put_back", "rollback"] = found["put_back", "collect"]
    found["put_back", "put_back"] = found["put_back", "collect"]
    found["expire", "put_back"] = found["collect", "put_back"] = ("StalePlan",)
    found["rollback", "put_back"] = ("StalePlan", "SnapshotNotFound")
    found["untag", "expire"] = found["untag", "rollback"] = ("StalePlan",)
    found["expire", "untag"] = found["rollback", "untag"] = ("StalePlan",)
    # Whose turn it was to ask the store for the time, every time.
    for other in ("collect", "orphans"):
        found["collect", other] = found[other, "collect"] = ("UnavailableError",)
    return found


def _add_partition_verbs(found: dict[tuple[str, str], tuple[str, ...]]) -> None:
    for one in _OF_PARTITIONS:
        # Others changed the partition, or took it away.
        for other in ("upsert", "overwrite", *_REWRITES):
            found[one, other] = ("StalePlan",)
        # What it takes away was rolled back, before its run or during its commit.
        found[one, "rollback"] = ("StalePlan", "FilesGone")
        for other in _OF_PARTITIONS:
            found[one, other] = ("StalePlan", "PartitionNotFound", "PartitionExists")
        for other in _REWRITES:
            found[other, one] = ("StalePlan",)
        found[one, "alter"] = ("SchemaMoved",)
        found[one, "rescale"] = ("StalePlan", "SchemaMoved")
        found["rollback", one] = ("StalePlan",)


_ERRORS = _error_table()


def told(outcome: Outcome) -> str:
    """How a verb ended, in a word."""
    if outcome.error is not None:
        return type(outcome.error).__name__
    return str(outcome.value) or "done"


@dataclass
class Race:
    """Verbs beside each other on a table: explores what may happen, and judges it."""

    arena: Arena
    actors: Sequence[Actor]
    preemptions: int | None = None
    most_states: int | None = None
    outcomes: Counter[tuple[str, ...]] = field(default_factory=Counter)
    # What was wrong, and where first.
    problems: dict[str, State] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._names = [actor.name.split()[0] for actor in self.actors]
        # By who did well, what the table shows under its latest schema.
        self._shown: dict[frozenset[int], set[str]] = {}
        self._serial = self._serial_outcomes()
        self._visible = {rows for found in self._serial.values() for rows in found}
        self._visible |= {_rows(self.arena, self.arena.content, each) for each in self._passed()}
        self._root = self.arena.table.table_files.paths.root

    def run(self) -> Explored:
        """Explore all of it; what is wrong is in `problems`."""
        explorer = Explorer(
            self.actors,
            self.arena.content,
            now_ms=NOW_MS,
            look=self._look,
            preemptions=self.preemptions,
            most_states=self.most_states,
        )
        return explorer.run()

    def told(self) -> str:
        """Every problem, with what led to it."""
        parts = []
        for what, state in self.problems.items():
            ended = [
                f"{a.name}: {told(o)}" for a, o in zip(self.actors, _outcomes(state), strict=True)
            ]
            parts.append("\n".join([what, *ended, *_readable(state, self.actors, self._root)]))
        return "\n\n".join(parts)

    def _passed(self) -> list[int]:
        """Snapshots that are the latest for a while, as a rollback goes through them."""
        there = _kept(self.arena.content, self.arena.table.table_files.paths.root)
        return [each for each in there if each > 1 and (each > 3 or "rollback" in self._names)]

    def _serial_outcomes(self) -> dict[frozenset[int], set[str]]:
        """By who did well, which rows there are when some of the verbs were done in some order."""
        found: dict[frozenset[int], set[str]] = {}
        numbers = range(len(self.actors))
        for count in range(len(self.actors) + 1):
            for some in combinations(numbers, count):
                for order in permutations(some):
                    done, content = self._one_by_one(order)
                    if done == set(some):
                        rows = _rows(self.arena, content)
                        found.setdefault(frozenset(done), set()).add(rows)
                        if "alter" in self._names:
                            shown = _shown(self.arena, content)
                            self._shown.setdefault(frozenset(done), set()).add(shown)
        return found

    def _one_by_one(self, order: Sequence[int]) -> tuple[set[int], Content]:
        content, done = self.arena.content, set()
        for index in order:
            actor = self.actors[index]
            node = actor.root()
            files = DictFiles(content, NOW_MS)
            while node.call is not None:
                result, _ = answer(files.content, node.call, NOW_MS)
                files.perform(node.call)
                node = actor.told(node, result)
            content = files.content
            assert node.outcome is not None
            if node.outcome.error is None:
                done.add(index)
        return done, content

    # --- judging --------------------------------------------------------------------------------

    def _look(self, state: State, call: Call | None) -> None:
        try:
            if call is None:
                self._check_end(state)
            elif call.verb in (Verb.PUT, Verb.DELETE, Verb.REPLACE):
                self._check_on_the_way(state, call)
        except StorageError as error:
            self._wrong(f"cannot be read: {type(error).__name__}: {error}", state)

    def _wrong(self, what: str, state: State) -> None:
        known = self.problems.get(what)
        if known is None or _switches(state) < _switches(known):
            self.problems[what] = state

    def _check_on_the_way(self, state: State, call: Call) -> None:
        """What a reader would see right now."""
        if "rollback" in self._names:
            # A commit that finds its base rolled back takes its snapshot away again.
            return
        for snapshot_id in _kept(state.content, self._root):
            for path in _needs(self.arena, state.content, f"snapshot/snapshot-{snapshot_id}"):
                if path not in state.content:
                    self._wrong(f"snapshot {snapshot_id} lacks a file while it is there", state)
        if call.verb is Verb.PUT and "/snapshot/snapshot-" in call.path:
            rows = _rows(self.arena, state.content)
            if rows not in self._visible:
                self._wrong(f"rows that no serial order has are seen: {rows}", state)

    def _check_end(self, state: State) -> None:
        outcomes = state.outcomes
        self.outcomes[tuple(told(each) for each in outcomes)] += 1
        for index, outcome in enumerate(outcomes):
            self._check_outcome(state, index, outcome)
        well = frozenset(i for i, each in enumerate(outcomes) if each.error is None)
        kept = _kept(state.content, self._root)
        if not kept:
            self._wrong("no snapshot is left", state)
            return
        if kept != list(range(kept[0], kept[-1] + 1)):
            self._wrong(f"the history has a gap: {kept}", state)
        for label in _roots(state.content, self._root):
            for path in _needs(self.arena, state.content, label):
                if path not in state.content:
                    self._wrong(f"{label} lacks a file at the end", state)
                    return
        for snapshot_id in kept:
            _rows(self.arena, state.content, snapshot_id)
        rows = _rows(self.arena, state.content)
        unknown = {i for i, each in enumerate(outcomes) if told(each) == _UNKNOWN}
        orders = [self._serial.get(each, set()) for each in (well, well | unknown)]
        if rows not in set().union(*orders):
            names = ", ".join(self.actors[index].name for index in sorted(well))
            self._wrong(f"rows after {names} are those of no serial order: {rows}", state)
        if "alter" in self._names:
            shown = _shown(self.arena, state.content)
            if shown not in set().union(
                *(self._shown.get(e, set()) for e in (well, well | unknown))
            ):
                self._wrong(f"the table opened anew shows no serial order: {shown}", state)
        if self.arena.table_in(state.content).table_files.snapshots.latest_id() != kept[-1]:
            self._wrong("the hints lead to another snapshot than the latest", state)
        self._check_leftovers(state)

    def _check_outcome(self, state: State, index: int, outcome: Outcome) -> None:
        name = self._names[index]
        others = {each for i, each in enumerate(self._names) if i != index}
        if outcome.error is None:
            if name == "read" and outcome.value not in self._visible:
                self._wrong(f"a reader saw rows of no serial order: {outcome.value}", state)
            return
        kind = type(outcome.error).__name__
        if kind not in allowed_errors(name, others):
            self._wrong(f"{name} beside {', '.join(sorted(others))} ended with {kind}", state)

    def _check_leftovers(self, state: State) -> None:
        content, root = state.content, self._root
        reached = {
            path for label in _roots(content, root) for path in _needs(self.arena, content, label)
        }
        folders = (f"{root}/manifest/", f"{root}/index/")
        extra = {
            path
            for path, stored in content.items()
            if stored.data is not None
            and (path.startswith(folders) or "/bucket-" in path)
            and "/.lakewright/" not in path
            and path not in reached
        }
        cleaned = any(
            name == "orphans" and each.error is None
            for name, each in zip(self._names, state.outcomes, strict=True)
        )
        extra -= set() if cleaned else litter(self.arena.table)
        extra -= _condemned(content, root)
        failed = {
            n for n, o in zip(self._names, state.outcomes, strict=True) if o.error is not None
        }
        # What a tag or branch held that was taken back, the plan of an expiry has passed by. Of a
        # commit whose snapshot another committer may have seen, it is unknown what it keeps.
        if (
            extra
            and not ("expire" in self._names and failed & {"tag", "branch"})
            and not any(told(each) == _UNKNOWN for each in state.outcomes)
        ):
            names = sorted({path.removeprefix(f"{root}/").split("-")[0] for path in extra})
            ended = [f"{n} {told(o)}" for n, o in zip(self._names, state.outcomes, strict=True)]
            self._wrong(f"left behind ({'; '.join(ended)}): {', '.join(names)}", state)


def _outcomes(state: State) -> list[Outcome]:
    return [node.outcome or Outcome(value="under way") for node in state.nodes]


def _switches(state: State) -> int:
    """How often another actor goes on."""
    found, last, above = 0, None, state.before
    while above is not None:
        index = next(i for i, node in enumerate(state.nodes) if node is not above.nodes[i])
        found += index != last
        last, state, above = index, above, above.before
    return found


def _readable(state: State, actors: Sequence[Actor], root: str) -> Iterator[str]:
    """A schedule: the last calls of each stretch say where the actors stand."""
    steps = schedule(state, actors)
    for number, (name, call) in enumerate(steps):
        is_last = number + 1 == len(steps) or steps[number + 1][0] != name
        if is_last or call.verb not in (Verb.READ, Verb.EXISTS, Verb.LIST, Verb.TREE, Verb.SUBDIRS):
            yield f"  {name}: {str(call).replace(root + '/', '')}"


# --- what lies there --------------------------------------------------------------------------


def _numbers(content: Content, folder: str, name: str = "snapshot-") -> list[int]:
    prefix = f"{folder}/{name}"
    return sorted(int(path.removeprefix(prefix)) for path in content if path.startswith(prefix))


def _kept(content: Content, root: str) -> list[int]:
    """Snapshots that are there."""
    return _numbers(content, f"{root}/snapshot")


def _condemned(content: Content, root: str) -> set[str]:
    """Paths of files that wait for the collector."""
    lists = (path for path in content if path.startswith(f"{root}/.lakewright/condemned/"))
    return {
        f"{root}/{name}"
        for path in lists
        if path.endswith(".list")
        for name, _ in json.loads(_data(content, path))["files"]
    }


def _roots(content: Content, root: str) -> list[str]:
    tags = [path.removeprefix(f"{root}/") for path in content if path.startswith(f"{root}/tag/")]
    # A branch is there with its first schema.
    branches = {
        path.removeprefix(f"{root}/branch/").split("/")[0]
        for path in content
        if path.startswith(f"{root}/branch/") and path.endswith("/schema/schema-0")
    }
    folders = [f"branch/{each}/snapshot" for each in sorted(branches)]
    return [
        *(f"snapshot/snapshot-{each}" for each in _kept(content, root)),
        *tags,
        *(f"{each}/snapshot-{n}" for each in folders for n in _numbers(content, f"{root}/{each}")),
    ]


def _needs(arena: Arena, content: Content, label: str) -> list[str]:
    """Paths of what a snapshot or tag names, as far as what names it is there."""
    root = arena.table.table_files.paths.root
    snapshot = json.loads(_data(content, f"{root}/{label}"))
    found: list[str] = []
    live: dict[tuple[Any, ...], str] = {}
    for key in ("baseManifestList", "deltaManifestList"):
        found.append(f"{root}/manifest/{snapshot[key]}")
        for meta in _avro(content, found[-1]):
            found.append(f"{root}/manifest/{meta['_FILE_NAME']}")
            for kind, identity, path in _entries(_data(content, found[-1]), root):
                if kind == 0:
                    live[identity] = path
                else:
                    live.pop(identity, None)
    record = (snapshot.get("properties") or {}).get("lakewright.respec")
    if record is not None:
        # A change of keys may end with these manifests, which are written before.
        found.append(f"{root}/manifest/{json.loads(record)['list']}")
        found += [f"{root}/manifest/{each['_FILE_NAME']}" for each in _avro(content, found[-1])]
    return [*found, *live.values()]


def _data(content: Content, path: str) -> bytes:
    stored = content.get(path)
    return b"" if stored is None or stored.data is None else stored.data


def _avro(content: Content, path: str) -> list[Json]:
    return _records(_data(content, path))


@cache
def _records(data: bytes) -> list[Json]:
    if not data:
        return []
    return [record for record in fastavro.reader(BytesIO(data)) if isinstance(record, dict)]


@cache
def _entries(data: bytes, root: str) -> list[tuple[int, tuple[Any, ...], str]]:
    found = []
    for entry in _records(data):
        file, bucket = entry["_FILE"], entry["_BUCKET"]
        day, folder = _partition(entry["_PARTITION"])
        path = f"{root}/{folder}bucket-{bucket}/{file['_FILE_NAME']}"
        if file.get("_EXTERNAL_PATH") is not None:
            # Of an entry that was restated under other keys.
            path = root + file["_EXTERNAL_PATH"].partition(root)[2]
        found.append((entry["_KIND"], (day, bucket, file["_LEVEL"], file["_FILE_NAME"]), path))
    return found


def _partition(row: bytes) -> tuple[str, str]:
    """The first key's value and its folder: a day of one letter, an id, or no key at all."""
    if not row[3]:
        return "b", ""
    value = row[12:20]
    if value[7] & 0x80:
        # A short text lies in the row, and its length in the last byte.
        return chr(value[0]), f"day={chr(value[0])}/"
    return str(value[0]), f"id={value[0]}/"


def _shown(arena: Arena, content: Content) -> str:
    """Columns and rows of the table as it is opened now, under its latest schema."""
    files = arena.table_in(content).table_files
    table = Table(replace(files, schema=files.schemas.latest(table=files.name)))
    columns = [f"{each.id} {each.name} {each.type}" for each in table.schema.fields]
    return "\n".join([*columns, *comparable(table.read())])


_KNOWN_ROWS: dict[object, str] = {}


def _rows(arena: Arena, content: Content, snapshot_id: int | None = None) -> str:
    """Rows of a snapshot, read by the code under test; the latest unless another is meant."""
    root = arena.table.table_files.paths.root
    if snapshot_id is None:
        snapshot_id = _numbers(content, f"{root}/snapshot")[-1]
    label = f"snapshot/snapshot-{snapshot_id}"
    needs = frozenset(
        (path, _data(content, path)) for path in _needs(arena, content, label) if path in content
    )
    key = (id(arena), _data(content, f"{root}/{label}"), needs)
    if key not in _KNOWN_ROWS:
        table = arena.table_in(content)
        seen = table.at(snapshot=snapshot_id)
        if seen.schema.partition_keys == table.schema.partition_keys:
            # By the schema that the race began with: an alter changes columns, and no row.
            seen = replace(seen, table_files=table.table_files)
        _KNOWN_ROWS[key] = "\n".join(comparable(seen.read()))
    return _KNOWN_ROWS[key]
