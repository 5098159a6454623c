"""The failure tree of storage, grouped by what a caller should do.

    StorageError
    ├── NotFoundError              name something that exists
    │   ├── DatabaseNotFound, TableNotFound, SchemaNotFound, SnapshotNotFound, TagNotFound,
    │   └── BranchNotFound, ConsumerNotFound, FileMissing, StoreNotFound
    ├── AlreadyExistsError         choose another name, or accept it
    │   └── TargetExists
    ├── InvalidRequestError        fix the call (also a ValueError)
    │   ├── InvalidSchema, InvalidOption, InvalidRows, InvalidPredicate
    ├── UnsupportedError           this table needs a feature we lack: refused, never guessed
    │   └── UnsafeStore
    ├── AccessError                give the store credentials that it accepts
    │   └── CredentialsMissing, AccessRefused
    ├── CommitConflictError        re-plan from the latest snapshot
    │   ├── FilesGone, BucketCountChanged, KeyRangesOverlap, IndexMoved, SchemaMoved,
    │   └── StalePlan, RetriesExhausted, LeaseLost
    ├── CommitOutcomeUnknownError  look for (commit user, commit identifier) before retrying
    ├── CorruptionError            stop, and have a person look
    │   └── UnreadableManifest, HistoryGap, VerificationFailed
    └── UnavailableError           try later
        └── LeaseHeld, ClockJumped, NotWritten

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


class StoreNotFound(NotFoundError):
    """The bucket or container that should hold the warehouse is not there, or no more."""


class AlreadyExistsError(StorageError):
    """Something of that name exists already."""


class TargetExists(AlreadyExistsError):
    """A file that is to come back finds another one in its place."""


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


class UnsafeStore(UnsupportedError):
    """The store can neither create a file only if it is absent, nor has it been given a lock."""


class AccessError(StorageError):
    """The store does not let us in."""


class CredentialsMissing(AccessError):
    """No credentials were found where the store's own client looks for them."""


class AccessRefused(AccessError):
    """The store knows the credentials and refuses them, or does not know them."""


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


class LeaseLost(CommitConflictError):
    """A lease ran out, or was taken over, before the work under it was published."""


class CommitOutcomeUnknownError(StorageError):
    """The snapshot may or may not have been created."""


class CorruptionError(StorageError):
    """Bytes on disk contradict the format or each other."""


class UnreadableManifest(CorruptionError):
    """A manifest, or a list of them, that cannot be decoded."""


class HistoryGap(CorruptionError):
    """Snapshots that should follow each other have a hole between them."""


class VerificationFailed(CorruptionError):
    """What was written is not what it was to replace; nothing of it was published."""


class UnavailableError(StorageError):
    """The store did not answer."""


class NotWritten(UnavailableError):
    """A disk refused a file before anything of it was there, for example since it is full."""


class LeaseHeld(UnavailableError):
    """Somebody else works on that part of the table."""


class ClockJumped(UnavailableError):
    """Two clocks that should agree differ by so much that ages mean nothing."""
