"""Exit codes: one for each action that a caller can take after a failure."""

from __future__ import annotations

from lakewright.storage.errors import (
    AccessError,
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptionError,
    NotFoundError,
    StorageError,
    UnavailableError,
    UnsupportedError,
)

# The codes of `lakewright --help`; every other error of storage means a wrong request.
INVALID_REQUEST = 2
CONFLICT = 5
_CODES: tuple[tuple[type[StorageError], int], ...] = (
    (NotFoundError, 3),
    (UnsupportedError, 4),
    (CommitConflictError, CONFLICT),
    (CorruptionError, 6),
    (UnavailableError, 7),
    (CommitOutcomeUnknownError, 7),
    (AccessError, 8),
)


def exit_code_of(error: StorageError) -> int:
    """The exit code of a failure."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), INVALID_REQUEST)
