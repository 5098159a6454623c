"""Errors of stores' clients, translated to storage errors without secrets.

A client may not be installed, so its errors are matched by name, code and status.
"""

from __future__ import annotations

import ftplib
import re
from collections.abc import Iterator
from typing import Any

from lakewright.storage.errors import (
    AccessRefused,
    ClockJumped,
    CredentialsMissing,
    FileMissing,
    StorageError,
    StoreNotFound,
    UnavailableError,
)
from lakewright.storage.secret_texts import without_secrets

# Codes of S3 and of Azure, and HTTP statuses where a store gives no code.
_NO_STORE = {"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted", "AccountNotFound"}
# Codes for a missing file in an existing bucket; a HEAD and some stores cannot tell the two apart.
_NO_FILE = {"NoSuchKey", "BlobNotFound"}
_NO_SUCH_BYTES = {"InvalidRange", "416"}
_EXISTS = {"PreconditionFailed", "412", "BlobAlreadyExists", "ConditionNotMet"}
_IGNORES_CONDITIONS = {"NotImplemented", "501"}
_CONFLICT = {"ConditionalRequestConflict", "OperationAborted", "409"}
_CLOCK = {"RequestTimeTooSkewed", "RequestExpired"}
_REFUSED = {
    "401",
    "403",
    "FTP 530",
    "FTP 532",
    "AccessDenied",
    "AccountProblem",
    "AllAccessDisabled",
    "AuthenticationFailed",
    "AuthorizationFailure",
    "AuthorizationPermissionMismatch",
    "ExpiredToken",
    "Forbidden",
    "InsufficientAccountPermissions",
    "InvalidAccessKeyId",
    "InvalidAuthenticationInfo",
    "InvalidSecurity",
    "InvalidToken",
    "NotSignedUp",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
    "Unauthorized",
}
_NO_CREDENTIALS = {
    "NoCredentialsError",
    "PartialCredentialsError",
    "CredentialRetrievalError",
    "NoAuthTokenError",
    "TokenRetrievalError",
    "ProfileNotFound",
    "DefaultCredentialsError",
    "CredentialUnavailableError",
}
_REFUSED_ERRORS = {
    "PermissionError",
    "RefreshError",
    "ClientAuthenticationError",
    "AuthenticationException",
}
# Messages of Azure's chain of credentials without any credentials, and of paramiko.
_NO_TOKEN = (
    "failed to retrieve a token",
    "Must provide either a connection_string",
    "No authentication methods available",
)
_ANONYMOUS = "Anonymous caller"
_FORBIDDEN = "Forbidden:"
# Errors in our own code. Every other exception of a client means that it failed: gcsfs asserts on
# answers, and others access attributes that a broken connection lacks.
_MISTAKES = (NameError, SyntaxError, TypeError)
# An unknown multipart upload was finished, with a lost answer, or was aborted.
_UPLOAD_GONE = "NoSuchUpload"
# FTP has no code for a refusal.
_DENIED = re.compile(r"(?i)permission|privilege|denied")

# Lines shown of a long error, such as a list of every place searched for a library.
_MOST_LINES = 3


def is_taken(error: BaseException) -> bool:
    """Whether a conditional create was refused because the file exists."""
    return any(
        isinstance(each, FileExistsError) or code_of(each) in _EXISTS for each in _chain(error)
    )


def is_file_missing(error: BaseException) -> bool:
    """Whether the store reports a missing file in an existing bucket."""
    return any(code_of(each) in _NO_FILE for each in _chain(error))


def is_empty(error: BaseException) -> bool:
    """Whether a range of an empty file was requested."""
    return any(code_of(each) in _NO_SUCH_BYTES for each in _chain(error))


def is_conflict(error: BaseException) -> bool:
    """Whether this request failed because of a concurrent request for the same name."""
    return any(code_of(each) in _CONFLICT for each in _chain(error))


def knows_no_conditions(error: BaseException) -> bool:
    """Whether the store reports that it has no conditional create."""
    return any(code_of(each) in _IGNORES_CONDITIONS for each in _chain(error))


def gives_no_reason(error: BaseException) -> bool:
    """Whether a refusal is only a status, as in an answer without a body."""
    return any(code_of(each) == "403" for each in _chain(error))


def told(
    error: Exception, path: str, *, store: str, credentials: str, uri: str | None = None
) -> StorageError | None:
    """The storage error for a client's error, None for an error in our own code.

    `uri` is the path with its host; `credentials` advises where the client looks for credentials.
    """
    chain = list(_chain(error))
    names = {kind.__name__ for each in chain for kind in type(each).__mro__}
    codes = {code_of(each) for each in chain}
    text = without_secrets(str(error)) or type(error).__name__
    if codes & _NO_STORE:
        return store_not_found(path, store)
    if codes & _CLOCK:
        return ClockJumped(
            f"{store} refuses requests for {path} because this machine's clock is wrong: {text}; "
            "set the clock",
            path=path,
        )
    if names & _NO_CREDENTIALS or any(each in text for each in (*_NO_TOKEN, _ANONYMOUS)):
        return CredentialsMissing(
            f"no credentials for {store} were found to reach {path}: {text}; {credentials}",
            path=path,
        )
    denied = "error_perm" in names and _DENIED.search(text)
    if codes & _REFUSED or names & _REFUSED_ERRORS or denied or text.startswith(_FORBIDDEN):
        return AccessRefused(
            f"{store} refuses access to {path}: {text}; check that the credentials are right and "
            f"may read, write, list and delete there; {credentials}",
            path=path,
        )
    if _UPLOAD_GONE in codes:
        return UnavailableError(
            f"the upload of {path} was finished or aborted before the store answered: {text}; "
            "check whether the file exists, and try again",
            path=path,
        )
    if "FileNotFoundError" in names or "404" in codes:
        return FileMissing(f"file {path} does not exist", path=path)
    if isinstance(error, _MISTAKES):
        return None
    return UnavailableError(
        f"{uri or f'file {path}'} cannot be reached: {_first_lines(text)}", path=path
    )


def _first_lines(text: str) -> str:
    lines = text.splitlines()
    more = len(lines) - _MOST_LINES
    return text if more <= 0 else "\n".join([*lines[:_MOST_LINES], f"… and {more} lines more"])


def store_not_found(path: str, store: str) -> StoreNotFound:
    """The error for a path whose bucket does not exist."""
    bucket = path.strip("/").split("/")[0]
    return StoreNotFound(
        f"{store} has no bucket or container {bucket}; create it, or correct the warehouse's URI",
        bucket=bucket,
    )


def harmless(error: BaseException) -> BaseException | None:
    """The error as a cause in a traceback, None if the traceback would show a secret."""
    texts = [text for each in _all_behind(error) for text in _texts(each)]
    return error if all(without_secrets(text) == text for text in texts) else None


def code_of(error: BaseException) -> str:
    """The store's error code, or its HTTP status, empty without either."""
    if isinstance(error, ftplib.Error):
        return f"FTP {str(error)[:3]}"
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        return str(response.get("Error", {}).get("Code", ""))
    for name in ("error_code", "code", "status", "status_code"):
        code = getattr(error, name, None)
        if code is not None and not callable(code):
            return str(getattr(code, "value", code))
    status = getattr(response, "status_code", None)
    return "" if status is None else str(status)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: list[Any] = []
    current: BaseException | None = error
    while current is not None and not any(current is each for each in seen):
        seen.append(current)
        yield current
        # An unrelated earlier exception is not a cause.
        hidden = current.__context__ if current.__suppress_context__ else None
        current = current.__cause__ or hidden


def _all_behind(error: BaseException) -> Iterator[BaseException]:
    """Every exception that a traceback would show: causes and contexts."""
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        current = waiting.pop()
        if current is None or any(current is each for each in seen):
            continue
        seen.append(current)
        yield current
        waiting += [current.__cause__, current.__context__]


def _texts(error: BaseException) -> list[str]:
    return [str(error), repr(error), *getattr(error, "__notes__", [])]
