"""The lease book: all leases of a table in one file, `book-<n>`; the highest number is valid.

1. A process that changes leases reads the latest book and creates the next one if it is absent.
2. A process that loses that race starts again at 1.
3. A process that wins reads the latest book again, and checks that its change is in it.
4. The winner deletes old books once there are several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import FileMissing, StorageError, UnavailableError
from lakewright.storage.files.rounds import Rounds
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.delete_files import discard_files
from lakewright.storage.spec.lease import Lease, LeaseBook

_SHORTEST_WAIT_MS, _LONGEST_WAIT_MS = 50, 5_000
_MOST_TRIES = 100
# At this many books, a process deletes all but the last few.
_MOST_BOOKS, _BOOKS_KEPT = 8, 2
# An unfinished book file of this age belongs to a dead process.
_UNFINISHED_MS = 3_600_000

# Takes the present leases and the time, and returns the new leases.
Edit = Callable[[Sequence[Lease], int], tuple[Lease, ...]]
# Whether a book's leases contain the result of an edit.
Stands = Callable[[Sequence[Lease]], bool]


def latest_book(files: TableFiles) -> LeaseBook:
    """The latest book; an empty one if the table has none."""
    return _latest(files, files.leases.listing())


def change_book(files: TableFiles, edit: Edit, stands: Stands) -> LeaseBook:
    """Create the next book, and return the latest book once it contains the change.

    A process that was suspended may create a book whose number was used and deleted in between.
    Later books exist then, and its own book is invalid.
    """
    store, pause = files.leases, float(_SHORTEST_WAIT_MS)
    for _ in range(_MOST_TRIES):
        listing = store.listing()
        book = _latest(files, listing)
        leases = edit(book.leases, files.env.now_ms())
        if leases == book.leases:
            return book
        following = LeaseBook(number=book.number + 1, leases=leases)
        if store.put_book(following):
            _delete_old(files, listing)
            latest = _latest(files, store.listing(), known=following)
            if stands(latest.leases):
                return latest
        files.env.sleep_ms(pause * (0.5 + files.env.jitter()))
        pause = min(1.5 * pause, _LONGEST_WAIT_MS)
    raise UnavailableError(
        f"others changed the leases of {files.name} {_MOST_TRIES} times while one was to be "
        "entered; try again",
        table=files.name,
    )


def _latest(
    files: TableFiles, listing: Sequence[FileStatus], *, known: LeaseBook | None = None
) -> LeaseBook:
    """The latest book; if it is `known`, its file is not read."""
    store = files.leases
    rounds = Rounds(files.name, "its leases were read")
    while True:
        rounds.begin()
        numbers = store.numbers(listing)
        if known is not None and numbers[-1:] in ([known.number], []):
            return known
        if not numbers:
            return LeaseBook()
        try:
            return store.read(numbers[-1])
        except FileMissing:
            # Another process created later books and deleted this one.
            listing = store.listing()


def _delete_old(files: TableFiles, listing: Sequence[FileStatus]) -> None:
    """Delete old books, and unfinished book files of dead processes."""
    store, now_ms = files.leases, files.env.now_ms()
    numbers = store.numbers(listing)
    if len(numbers) < _MOST_BOOKS:
        return
    old = [files.paths.lease_book(number) for number in numbers[:-_BOOKS_KEPT]]
    dead = [
        status.path
        for status in listing
        if status.name.startswith(".book-") and status.modified_ms < now_ms - _UNFINISHED_MS
    ]
    # After a failure, the next process that changes the book deletes them.
    with suppress(StorageError):
        discard_files(files.fs, [*old, *dead])
