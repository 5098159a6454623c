"""File systems that record, fail or die at a call: doubles around a real one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import IO, Any

from lakewright.storage import Catalog, Table
from lakewright.storage.env import FileStatus, FileSystem
from lakewright.storage.errors import UnavailableError


class Crashed(BaseException):
    """The process is dead; the code under test must not catch this."""


class Fault(Enum):
    """The fault at the chosen call."""

    # The process dies before or after the effect of the call; every later call fails too.
    DIES_BEFORE = "dies before"
    DIES_AFTER = "dies after"
    # The store fails once, before or after the effect of the call.
    FAILS_BEFORE = "fails before"
    FAILS_AFTER = "fails after"
    # Both in the middle of a call with several effects: see `HALVES`.
    DIES_HALFWAY = "dies halfway"
    FAILS_HALFWAY = "fails halfway"
    # The store fails permanently.
    GOES_AWAY = "goes away"

    @property
    def is_death(self) -> bool:
        return self in (Fault.DIES_BEFORE, Fault.DIES_AFTER, Fault.DIES_HALFWAY)

    @property
    def is_before(self) -> bool:
        return self in (Fault.DIES_BEFORE, Fault.FAILS_BEFORE, Fault.GOES_AWAY)

    @property
    def is_halfway(self) -> bool:
        return self in (Fault.DIES_HALFWAY, Fault.FAILS_HALFWAY)


@dataclass(frozen=True)
class Call:
    """One call of a file system."""

    name: str
    path: str

    @property
    def changes(self) -> bool:
        return self.name not in READS

    @property
    def can_be_half_done(self) -> bool:
        return self.name in HALVES


Hook = Callable[[Call], object]

# Calls after which a reader sees what it saw before.
READS = frozenset(
    {
        "read_bytes",
        "open_input",
        "exists",
        "list_dir",
        "list_subdirs",
        "list_tree",
        "list_links",
        "make_durable",
        "make_all_durable",
    }
)
# The effect of a call that stops halfway: a truncated file under its own name, or a hidden file
# beside it if the store writes atomically; a file in both places; half a folder.
HALVES = frozenset(
    {"write_bytes", "close", "copy", "put_if_absent", "replace", "move_if_absent", "delete_tree"}
)


@dataclass
class WatchedFiles:
    """Implements `FileSystem` over another one; records calls, and fails one of them.

    `fail_at` counts from 1; with 0 nothing ever fails. `counts` says which calls count. `before`
    and `after` are called with each call; `tells` may change what the caller is told.
    """

    inner: FileSystem
    fail_at: int = 0
    fault: Fault = Fault.FAILS_BEFORE
    counts: Callable[[Call], bool] = lambda call: True
    calls: list[Call] = field(default_factory=list)
    counted: int = 0
    before: Hook = lambda call: None
    after: Hook = lambda call: None
    tells: Callable[[Call, Any], Any] = lambda call, answer: answer
    failed: Call | None = None
    dead: bool = False
    away: bool = False

    @property
    def scheme(self) -> str:
        return self.inner.scheme

    @property
    def changes(self) -> list[Call]:
        return [call for call in self.calls if call.changes]

    def uri(self, path: str) -> str:
        return self.inner.uri(path)

    def read_bytes(self, path: str) -> bytes:
        data: bytes = self.run("read_bytes", path, lambda: self.inner.read_bytes(path))
        return data

    def open_input(self, path: str) -> Any:
        return self.run("open_input", path, lambda: self.inner.open_input(path))

    def open_output(self, path: str) -> IO[bytes]:
        opened: list[IO[bytes]] = []

        def effect() -> None:
            opened.append(self.inner.open_output(path))

        try:
            self.run("open_output", path, effect)
        except BaseException:
            # The caller has no handle to close.
            for handle in opened:
                handle.close()
            raise
        output: Any = _WatchedOutput(self, path, opened[0])
        return output  # type: ignore[no-any-return]

    def write_bytes(self, path: str, data: bytes) -> None:
        self.run(
            "write_bytes",
            path,
            lambda: self.inner.write_bytes(path, data),
            lambda: self.inner.write_bytes(path, _half(data)),
        )

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return bool(
            self.run(
                "put_if_absent",
                path,
                lambda: self.inner.put_if_absent(path, data),
                lambda: self.inner.write_bytes(_temporary(path), _half(data)),
            )
        )

    def move_if_absent(self, source: str, target: str) -> bool:
        return bool(
            self.run(
                "move_if_absent",
                target,
                lambda: self.inner.move_if_absent(source, target),
                lambda: self.inner.put_if_absent(target, self.inner.read_bytes(source)),
            )
        )

    def replace(self, path: str, data: bytes) -> None:
        self.run(
            "replace",
            path,
            lambda: self.inner.replace(path, data),
            lambda: self.inner.write_bytes(_temporary(path), _half(data)),
        )

    def copy(self, source: str, target: str) -> int:
        def half() -> None:
            self.inner.write_bytes(target, _half(self.inner.read_bytes(source)))

        effect = lambda: self.inner.copy(source, target)  # noqa: E731
        return int(self.run("copy", target, effect, half))

    def exists(self, path: str) -> bool:
        return bool(self.run("exists", path, lambda: self.inner.exists(path)))

    def list_dir(self, path: str) -> list[FileStatus]:
        found: list[FileStatus] = self.run("list_dir", path, lambda: self.inner.list_dir(path))
        return found

    def list_subdirs(self, path: str) -> list[str]:
        found: list[str] = self.run("list_subdirs", path, lambda: self.inner.list_subdirs(path))
        return found

    def list_tree(self, path: str) -> list[FileStatus]:
        found: list[FileStatus] = self.run("list_tree", path, lambda: self.inner.list_tree(path))
        return found

    def list_links(self, path: str, *, at_any_depth: bool = False) -> list[str]:
        effect = lambda: self.inner.list_links(path, at_any_depth=at_any_depth)  # noqa: E731
        found: list[str] = self.run("list_links", path, effect)
        return found

    def make_dirs(self, path: str) -> None:
        self.run("make_dirs", path, lambda: self.inner.make_dirs(path))

    def make_durable(self, paths: Collection[str], *, below: str | None = None) -> None:
        if paths:
            effect = lambda: self.inner.make_durable(paths, below=below)  # noqa: E731
            self.run("make_durable", min(paths), effect)

    def make_all_durable(self, path: str) -> None:
        self.run("make_all_durable", path, lambda: self.inner.make_all_durable(path))

    def delete(self, path: str) -> bool:
        return bool(self.run("delete", path, lambda: self.inner.delete(path)))

    def delete_tree(self, path: str) -> None:
        def half() -> None:
            paths = sorted(each.path for each in self.inner.list_tree(path))
            for each in paths[: len(paths) // 2]:
                self.inner.delete(each)

        self.run("delete_tree", path, lambda: self.inner.delete_tree(path), half)

    def remove_empty_dir(self, path: str) -> bool:
        return bool(self.run("remove_empty_dir", path, lambda: self.inner.remove_empty_dir(path)))

    def run(
        self,
        name: str,
        path: str,
        effect: Callable[[], Any],
        half: Callable[[], object] | None = None,
    ) -> Any:
        """Record a call, and fail it if it is the chosen one; `half` is its effect halfway."""
        call = Call(name, path)
        if self.dead:
            raise Crashed
        if self.away:
            raise _unavailable(call)
        self.before(call)
        self.calls.append(call)
        self.counted += self.counts(call)
        fails = self.counts(call) and self.counted == self.fail_at
        if fails and self.fault.is_before:
            self._fail(call)
        if fails and self.fault.is_halfway:
            if half is not None:
                half()
            self._fail(call)
        result = effect()
        if fails:
            self._fail(call)
        self.after(call)
        return self.tells(call, result)

    def _fail(self, call: Call) -> None:
        self.failed = call
        self.away = self.fault is Fault.GOES_AWAY
        if self.fault.is_death:
            self.dead = True
            raise Crashed
        raise _unavailable(call)


@dataclass
class Meanwhile:
    """A hook: another actor does something at a call that `when` chooses, so many times.

    `calls` are those before the present one.
    """

    when: Callable[[Call], bool]
    does: Callable[[], object]
    times: int = 1
    has_happened: bool = False
    calls: list[Call] = field(default_factory=list)

    def __call__(self, call: Call) -> None:
        if self.times > 0 and self.when(call):
            self.times -= 1
            self.has_happened = True
            self.does()
        self.calls.append(call)


def puts_snapshot(call: Call) -> bool:
    """Whether a call is the one by which a commit takes effect."""
    return call.name == "put_if_absent" and "/snapshot/snapshot-" in call.path


def looked_at(look: Hook) -> Hook:
    """A hook that looks after every call that changes something."""
    return lambda call: look(call) if call.changes else None


def _unavailable(call: Call) -> UnavailableError:
    return UnavailableError(f"{call.name} of {call.path} failed as a test wants it")


def _half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _temporary(path: str) -> str:
    """The name of an unfinished file in a store."""
    folder, name = path.rsplit("/", 1)
    return f"{folder}/.{name}.unfinished.tmp"


class _WatchedOutput:
    """A file being written; its close is a counted call."""

    def __init__(self, owner: WatchedFiles, path: str, handle: IO[bytes]) -> None:
        self._owner = owner
        self._path = path
        self._handle = handle

    def write(self, data: bytes) -> int:
        # Clean-up code of a library may continue to write, but not after the death of the process.
        return len(data) if self._owner.dead else self._handle.write(data)

    def flush(self) -> None:
        self._handle.flush()

    def tell(self) -> int:
        return self._handle.tell()

    def seekable(self) -> bool:
        return False

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    @property
    def closed(self) -> bool:
        return self._handle.closed

    def close(self) -> None:
        if not self._handle.closed:
            self._owner.run("close", self._path, self._handle.close, self._cut)

    def _cut(self) -> None:
        self._handle.close()
        files = self._owner.inner
        files.write_bytes(self._path, _half(files.read_bytes(self._path)))


def watched(
    table: Table,
    *,
    fail_at: int = 0,
    fault: Fault = Fault.FAILS_BEFORE,
    counts: Callable[[Call], bool] = lambda call: True,
) -> tuple[Table, WatchedFiles]:
    """The same table on a file system that records and fails."""
    fs = WatchedFiles(table.table_files.fs, fail_at=fail_at, fault=fault, counts=counts)
    return Table(replace(table.table_files, fs=fs)), fs


def overtaken(
    table: Table, at: Callable[[Call], bool], meanwhile: Callable[[], object], *, times: int = 1
) -> Table:
    """The same table, on which another actor does something right after a call."""
    return over(table, WatchedFiles(table.table_files.fs, after=Meanwhile(at, meanwhile, times)))


def interrupted(
    table: Table,
    *,
    when: Callable[[Call], bool],
    meanwhile: Callable[[], object],
    times: int = 1,
) -> tuple[Table, Meanwhile]:
    """The same table, on which another actor does something right before a call."""
    other = Meanwhile(when, meanwhile, times)
    return over(table, WatchedFiles(table.table_files.fs, before=other)), other


def over(table: Table, fs: FileSystem) -> Table:
    """The same table on another file system."""
    return Table(replace(table.table_files, fs=fs))


def watched_catalog(catalog: Catalog) -> tuple[Catalog, WatchedFiles]:
    """The same warehouse on a file system that records."""
    fs = WatchedFiles(catalog.fs)
    return replace(catalog, fs=fs), fs
