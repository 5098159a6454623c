"""The book of leases: all leases of a table in one file, `book-<n>`, of which the highest counts.

1. A change reads the latest book and creates the next, if it is absent, as commits do.
2. Whoever loses that race begins again.
3. Whoever wins looks that what it was for stands in the book that is the latest by then.
4. Books before the last few are deleted now and then.
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
# So many books lie there at most, and so many are left of them.
_MOST_BOOKS, _BOOKS_KEPT = 8, 2
# What is this old and unfinished belongs to a process that died.
_UNFINISHED_MS = 3_600_000

# From the leases there are, and the time, to those there shall be.
Edit = Callable[[Sequence[Lease], int], tuple[Lease, ...]]
# Whether the leases of a book hold what an edit was for.
Stands = Callable[[Sequence[Lease]], bool]


def latest_book(files: TableFiles) -> LeaseBook:
    """The book that counts; an empty one where there is none."""
    return _latest(files, files.leases.listing())


def change_book(files: TableFiles, edit: Edit, stands: Stands) -> LeaseBook:
    """Make the next book, and believe it once what it was made for stands in the latest.

    A process that was stopped for long may create a book whose number was taken and deleted
    meanwhile. Later ones are there then, and its own counts for nothing.
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
    """The book that counts; `known` saves reading it if it is that one."""
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
            # Later ones came, and this one was deleted.
            listing = store.listing()


def _delete_old(files: TableFiles, listing: Sequence[FileStatus]) -> None:
    """Delete books that others followed, and what dead processes left unfinished."""
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
    # Whoever comes next tries again.
    with suppress(StorageError):
        discard_files(files.fs, [*old, *dead])
