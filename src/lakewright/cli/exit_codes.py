"""Exit codes: one for each thing a caller can do about a failure."""

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

# What `lakewright --help` documents; whatever else storage raises asks for another call.
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
    """The code a failure ends the process with."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), INVALID_REQUEST)
