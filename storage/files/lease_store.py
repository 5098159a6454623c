"""Files of one table's lease books: `book-1`, `book-2`, …; the highest number is current."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakewright.storage.codec.lease_json import decode_book, encode_book
from lakewright.storage.env import FileStatus, FileSystem
from lakewright.storage.files.paths import TablePaths, numbered
from lakewright.storage.spec.lease import LeaseBook


@dataclass(frozen=True, slots=True)
class LeaseStore:
    """Creates and reads books, and deletes them once later books exist; a book never changes."""

    fs: FileSystem
    paths: TablePaths

    def listing(self) -> list[FileStatus]:
        return self.fs.list_dir(self.paths.lease_dir)

    def numbers(self, listing: Sequence[FileStatus]) -> list[int]:
        """Numbers of the books in a listing, in order."""
        found = (numbered(status.name, "book-") for status in listing)
        return sorted(number for number in found if number is not None)

    def read(self, number: int) -> LeaseBook:
        """One book.

        Raises:
            FileMissing: the book was deleted, so later books exist.
        """
        path = self.paths.lease_book(number)
        return decode_book(self.fs.read_bytes(path), number=number, name=path)

    def put_book(self, book: LeaseBook) -> bool:
        """Create the book's file; False if a book of its number exists."""
        return self.fs.put_if_absent(self.paths.lease_book(book.number), encode_book(book))
