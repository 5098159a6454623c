"""The failure tree: its shape is a promise, and its members travel."""

from __future__ import annotations

import inspect
import pickle

import pytest

from lakewright.storage import errors
from lakewright.storage.errors import StorageError

TREE = {
    "StorageError": "Exception",
    "NotFoundError": "StorageError",
    "DatabaseNotFound": "NotFoundError",
    "TableNotFound": "NotFoundError",
    "SchemaNotFound": "NotFoundError",
    "SnapshotNotFound": "NotFoundError",
    "TagNotFound": "NotFoundError",
    "BranchNotFound": "NotFoundError",
    "ConsumerNotFound": "NotFoundError",
    "FileMissing": "NotFoundError",
    "StoreNotFound": "NotFoundError",
    "AlreadyExistsError": "StorageError",
    "PartitionExists": "AlreadyExistsError",
    "PartitionNotFound": "NotFoundError",
    "InvalidRequestError": "StorageError",
    "InvalidSchema": "InvalidRequestError",
    "ColumnInUse": "InvalidSchema",
    "SchemaDenied": "InvalidSchema",
    "InvalidOption": "InvalidRequestError",
    "InvalidRows": "InvalidRequestError",
    "InvalidPredicate": "InvalidRequestError",
    "InvalidStatement": "InvalidRequestError",
    "NotRevertible": "InvalidRequestError",
    "SourceChanged": "InvalidRequestError",
    "StreamRunsElsewhere": "InvalidRequestError",
    "UnsupportedError": "StorageError",
    "UnfitValues": "UnsupportedError",
    "UnsafeStore": "UnsupportedError",
    "AccessError": "StorageError",
    "CredentialsMissing": "AccessError",
    "AccessRefused": "AccessError",
    "CommitConflictError": "StorageError",
    "FilesGone": "CommitConflictError",
    "BucketCountChanged": "CommitConflictError",
    "KeyRangesOverlap": "CommitConflictError",
    "IndexMoved": "CommitConflictError",
    "SchemaMoved": "CommitConflictError",
    "StalePlan": "CommitConflictError",
    "RetriesExhausted": "CommitConflictError",
    "LeaseLost": "CommitConflictError",
    "CommitOutcomeUnknownError": "StorageError",
    "CorruptionError": "StorageError",
    "UnreadableManifest": "CorruptionError",
    "HistoryGap": "CorruptionError",
    "VerificationFailed": "CorruptionError",
    "UnavailableError": "StorageError",
    "LeaseHeld": "UnavailableError",
    "ClockJumped": "UnavailableError",
    "NotWritten": "UnavailableError",
}
KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]


def test_the_tree_has_the_shape_that_callers_rely_on() -> None:
    assert {kind.__name__: kind.__bases__[0].__name__ for kind in KINDS} == TREE
    assert issubclass(errors.NotFoundError, LookupError)
    assert issubclass(errors.InvalidRequestError, ValueError)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_pickles_with_its_kind_and_numbers(kind: type[StorageError]) -> None:
    error = kind("what happened", count=3)
    error.table = "db.t"
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (str(copy), copy.table, copy.details) == ("what happened", "db.t", {"count": 3})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_says_what_it_means(kind: type[StorageError]) -> None:
    assert kind.__doc__
    assert kind.__name__ in (errors.__doc__ or "")
