"""The failure tree of storage, grouped by what a caller should do.

    StorageError
    ├── NotFoundError              name something that exists
    │   ├── DatabaseNotFound, TableNotFound, SchemaNotFound, SnapshotNotFound, TagNotFound,
    │   └── BranchNotFound, ConsumerNotFound, FileMissing
    ├── AlreadyExistsError         choose another name, or accept it
    ├── InvalidRequestError        fix the call (also a ValueError)
    │   ├── InvalidSchema, InvalidOption, InvalidRows, InvalidPredicate
    ├── UnsupportedError           this table needs a feature we lack: refused, never guessed
    ├── CommitConflictError        re-plan from the latest snapshot
    │   ├── FilesGone, BucketCountChanged, KeyRangesOverlap, IndexMoved, SchemaMoved,
    │   └── StalePlan, RetriesExhausted
    ├── CommitOutcomeUnknownError  look for (commit user, commit identifier) before retrying
    ├── CorruptionError            stop, and have a person look
    └── UnavailableError           try later

Messages are lower case, without a full stop: what happened, with which numbers; what to do.
"""

from __future__ import annotations


class StorageError(Exception):
    """Root of everything storage raises on purpose; `table` and `details` carry the numbers."""

    def __init__(self, message: str, *, table: str | None = None, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.table = table
        self.details = details

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross Spark and process pools, so they must pickle with their details.
        return _rebuild, (type(self), self.message, self.table, self.details)


def _rebuild(
    kind: type[StorageError], message: str, table: str | None, details: dict[str, object]
) -> StorageError:
    return kind(message, table=table, **details)


class NotFoundError(StorageError, LookupError):
    """Something named does not exist."""


class DatabaseNotFound(NotFoundError):
    """No such database in the warehouse."""


class TableNotFound(NotFoundError):
    """No such table in the database."""


class SchemaNotFound(NotFoundError):
    """No schema file with that id."""


class SnapshotNotFound(NotFoundError):
    """No snapshot with that id, or none at that time."""


class TagNotFound(NotFoundError):
    """No tag of that name."""


class BranchNotFound(NotFoundError):
    """No branch of that name."""


class ConsumerNotFound(NotFoundError):
    """No consumer of that name."""


class FileMissing(NotFoundError):
    """A file that should be there is not; expired snapshots are the usual cause."""


class AlreadyExistsError(StorageError):
    """Something of that name exists already."""


class InvalidRequestError(StorageError, ValueError):
    """The call itself is wrong."""


class InvalidSchema(InvalidRequestError):
    """A schema that cannot be."""


class InvalidOption(InvalidRequestError):
    """A table option whose value cannot be read, or that contradicts another."""


class InvalidRows(InvalidRequestError):
    """Rows that do not fit the table."""


class InvalidPredicate(InvalidRequestError):
    """A filter that cannot be understood or names no column."""


class UnsupportedError(StorageError):
    """The table or store needs a feature that is not implemented."""


class CommitConflictError(StorageError):
    """Someone else's commit came first and cannot be reconciled with this one."""


class FilesGone(CommitConflictError):
    """Files this commit replaces are no longer live."""


class BucketCountChanged(CommitConflictError):
    """The partition holds another number of buckets than the rows were hashed for."""


class KeyRangesOverlap(CommitConflictError):
    """Two files of one level would hold the same keys."""


class IndexMoved(CommitConflictError):
    """An index file that the commit replaces is no longer the bucket's own."""


class SchemaMoved(CommitConflictError):
    """The table's schema changed in a way the staged files cannot follow."""


class StalePlan(CommitConflictError):
    """A plan was applied to a table that has moved on since."""


class RetriesExhausted(CommitConflictError):
    """Every attempt lost the race for the next snapshot."""


class CommitOutcomeUnknownError(StorageError):
    """The snapshot may or may not have been created."""


class CorruptionError(StorageError):
    """Bytes on disk contradict the format or each other."""


class UnavailableError(StorageError):
    """The store did not answer."""
