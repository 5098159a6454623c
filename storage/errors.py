"""The failure tree of storage, grouped by what a caller should do.

    StorageError
    ├── NotFoundError              name something that exists
    │   ├── DatabaseNotFound, TableNotFound, SchemaNotFound, SnapshotNotFound, TagNotFound,
    │   └── BranchNotFound, ConsumerNotFound, PartitionNotFound, FileMissing, StoreNotFound
    ├── AlreadyExistsError         choose another name, or accept it
    │   └── PartitionExists
    ├── InvalidRequestError        fix the call (also a ValueError)
    │   ├── InvalidSchema
    │   │   └── ColumnInUse, SchemaDenied
    │   ├── InvalidOption, InvalidRows, InvalidPredicate, InvalidStatement, NotRevertible
    │   └── SourceChanged, StreamRunsElsewhere
    ├── UnsupportedError           this table needs a feature we lack: refused, never guessed
    │   └── UnsafeStore, UnfitValues
    ├── AccessError                give the store credentials that it accepts
    │   └── CredentialsMissing, AccessRefused
    ├── CommitConflictError        re-plan from the latest snapshot
    │   ├── FilesGone, BucketCountChanged, KeyRangesOverlap, IndexMoved, SchemaMoved,
    │   └── StalePlan, RetriesExhausted, LeaseLost
    ├── CommitOutcomeUnknownError  look for (commit user, commit identifier) before a retry
    ├── CorruptionError            stop, and have a person look
    │   └── UnreadableManifest, HistoryGap, VerificationFailed
    └── UnavailableError           try later
        └── LeaseHeld, ClockJumped, NotWritten

Messages are lower case, without a full stop: what happened, with which numbers; what to do. No
message has a secret in it, or the query of a web address: they may come from anywhere.
"""

from __future__ import annotations

from lakewright.storage.secret_texts import shown_text


class StorageError(Exception):
    """Root of all errors that storage raises; `details` carries names and numbers.

    `table` is the table whose face raised it; None for errors that came from no face.
    """

    def __init__(self, message: str, **details: object) -> None:
        self.message = shown_text(message)
        super().__init__(self.message)
        self.table: str | None = None
        self.details = details

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross processes in Spark and pools, so they must pickle with their details.
        return _rebuild, (type(self), self.message, self.table, self.details)


def _rebuild(
    kind: type[StorageError], message: str, table: str | None, details: dict[str, object]
) -> StorageError:
    error = kind(message, **details)
    error.table = table
    return error


class NotFoundError(StorageError, LookupError):
    """A named thing does not exist."""


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


class PartitionNotFound(NotFoundError):
    """No partition has these values, or a filter selects none."""


class FileMissing(NotFoundError):
    """A file is missing; the usual cause is an expired snapshot."""


class StoreNotFound(NotFoundError):
    """The bucket or container of the warehouse does not exist."""


class AlreadyExistsError(StorageError):
    """A thing of that name exists."""


class PartitionExists(AlreadyExistsError):
    """A partition that a verb would create has rows."""


class InvalidRequestError(StorageError, ValueError):
    """The call itself is wrong."""


class InvalidSchema(InvalidRequestError):
    """A schema is invalid."""


class ColumnInUse(InvalidSchema):
    """A key, an option or an older partitioning needs a column as it is."""


class SchemaDenied(InvalidSchema):
    """A change of a schema would break values, readers or users; the message has all findings."""


class InvalidOption(InvalidRequestError):
    """The value of a table option is invalid, or contradicts another option."""


class InvalidRows(InvalidRequestError):
    """Rows do not fit the table."""


class InvalidPredicate(InvalidRequestError):
    """A filter cannot be parsed, or names an unknown column."""


class InvalidStatement(InvalidRequestError):
    """A SQL statement cannot be parsed, or does not fit its table."""


class NotRevertible(InvalidRequestError):
    """What a snapshot did cannot be taken back: later commits built on it, or files are gone."""


class SourceChanged(InvalidRequestError):
    """What the position of a stream rests on is different at its source; `details` name it."""


class StreamRunsElsewhere(InvalidRequestError):
    """Another process has begun the next batch of a stream, and continues with it."""


class UnsupportedError(StorageError):
    """The table or store needs a feature that is not implemented."""


class UnsafeStore(UnsupportedError):
    """The store has neither a conditional create nor a lock."""


class UnfitValues(UnsupportedError):
    """Stored values do not fit the type that their column has, or was altered to."""


class AccessError(StorageError):
    """The store refuses access."""


class CredentialsMissing(AccessError):
    """The store's client found no credentials."""


class AccessRefused(AccessError):
    """The store rejects the credentials, or they lack a right."""


class CommitConflictError(StorageError):
    """Another commit came first and conflicts with this one."""


class FilesGone(CommitConflictError):
    """Files this commit replaces are no longer live."""


class BucketCountChanged(CommitConflictError):
    """The partition holds another number of buckets than the rows were hashed for."""


class KeyRangesOverlap(CommitConflictError):
    """Two files of one level would overlap in their keys."""


class IndexMoved(CommitConflictError):
    """An index file that the commit replaces is no longer the bucket's own."""


class SchemaMoved(CommitConflictError):
    """The table's schema changed, and the staged files do not fit it."""


class StalePlan(CommitConflictError):
    """The table changed after the plan was made."""


class RetriesExhausted(CommitConflictError):
    """Every attempt lost the race for the next snapshot."""


class LeaseLost(CommitConflictError):
    """A lease expired or was taken over before its holder published the work."""


class CommitOutcomeUnknownError(StorageError):
    """The snapshot may or may not have been created."""


class CorruptionError(StorageError):
    """Bytes on disk contradict the format or each other."""


class UnreadableManifest(CorruptionError):
    """A manifest or manifest list cannot be read."""


class HistoryGap(CorruptionError):
    """A snapshot between two others is missing."""


class VerificationFailed(CorruptionError):
    """The rewritten rows differ from the rows to replace; nothing was published."""


class UnavailableError(StorageError):
    """The store did not answer."""


class NotWritten(UnavailableError):
    """The disk refused a file, for example because it is full, or a lock was not acquired.

    No part of the file exists.
    """


class LeaseHeld(UnavailableError):
    """Another process holds a lease on that part of the table."""


class ClockJumped(UnavailableError):
    """Two clocks differ so much that ages of files cannot be trusted."""
