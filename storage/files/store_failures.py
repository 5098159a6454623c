"""What a store's client raises, in storage's own errors and without anything secret.

Clients come and go with their extras, so their errors are known by name, code and status.
"""

from __future__ import annotations

import ftplib
import os
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

# Codes of S3, of Azure, and what a status says where a store gives no code.
_NO_STORE = {"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted", "AccountNotFound"}
# It is the file that is not there, so its bucket is; a HEAD and some stores cannot say so.
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
# What azure's chain of credentials says when none of its links has any, and paramiko.
_NO_TOKEN = (
    "failed to retrieve a token",
    "Must provide either a connection_string",
    "No authentication methods available",
)
_ANONYMOUS = "Anonymous caller"
_FORBIDDEN = "Forbidden:"
# Ours. Whatever else comes out of a client is its way to say that it failed: gcsfs asserts on
# answers, and others look for what a broken connection no longer has.
_MISTAKES = (NameError, SyntaxError, TypeError)
# An upload in parts that the store knows no more was finished, and the answer lost, or given up.
_UPLOAD_GONE = "NoSuchUpload"
# FTP has no code for it.
_DENIED = re.compile(r"(?i)permission|privilege|denied")

_SECRET_NAMES = re.compile(
    r"SECRET|TOKEN|PASSW|CREDENTIAL|CONNECTION_STRING|SAS|(ACCESS|ACCOUNT)_KEY"
)
_SECRET_PARTS = re.compile(
    r"(?i)(://)[^/@\s]+(?=@)|((?:sig|signature|key|token|credential|secret|password|delegation)=)"
    r"[^&;\s\"'<>]+"
)
_SHORTEST_SECRET = 6
# Of a failure, such as every place in which a library was looked for.
_MOST_LINES = 3


def is_taken(error: BaseException) -> bool:
    """Whether a conditional create was refused since there is a file of that name."""
    return any(
        isinstance(each, FileExistsError) or code_of(each) in _EXISTS for each in _chain(error)
    )


def is_file_missing(error: BaseException) -> bool:
    """Whether the store says that it has the bucket, and no such file in it."""
    return any(code_of(each) in _NO_FILE for each in _chain(error))


def is_empty(error: BaseException) -> bool:
    """Whether a part of a file was asked for that is there and has no bytes."""
    return any(code_of(each) in _NO_SUCH_BYTES for each in _chain(error))


def is_conflict(error: BaseException) -> bool:
    """Whether another request for the same name was under way, and this one came to nothing."""
    return any(code_of(each) in _CONFLICT for each in _chain(error))


def knows_no_conditions(error: BaseException) -> bool:
    """Whether the store says that it has no conditional create."""
    return any(code_of(each) in _IGNORES_CONDITIONS for each in _chain(error))


def gives_no_reason(error: BaseException) -> bool:
    """Whether a refusal is a mere status, as that of an answer without a body."""
    return any(code_of(each) == "403" for each in _chain(error))


def told(
    error: Exception, path: str, *, store: str, credentials: str, uri: str | None = None
) -> StorageError | None:
    """The error that says what happened, None for one that is no answer of a store.

    `uri` names the path with its host, which a path alone does not; `credentials` says
    where the store's client looks for them.
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
            f"the upload of {path} was finished or given up before the store said so: {text}; see "
            "whether the file is there, and try again",
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
    """What to say where the bucket of a path is not there."""
    bucket = path.strip("/").split("/")[0]
    return StoreNotFound(
        f"{store} has no bucket or container {bucket}; create it, or correct the warehouse's URI",
        bucket=bucket,
    )


def without_secrets(text: str) -> str:
    """A text without what this process was given to identify itself with."""
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST_SECRET and _SECRET_NAMES.search(name.upper()):
            text = text.replace(value, "***")
    return _SECRET_PARTS.sub(r"\1\2***", text)


def harmless(error: BaseException) -> BaseException | None:
    """The error, for a traceback to show, unless it would show a secret with it."""
    texts = [text for each in _all_behind(error) for text in _texts(each)]
    return error if all(without_secrets(text) == text for text in texts) else None


def code_of(error: BaseException) -> str:
    """What a store called the failure, or its HTTP status, empty if it said neither."""
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
        # What merely happened before says nothing of this one.
        hidden = current.__context__ if current.__suppress_context__ else None
        current = current.__cause__ or hidden


def _all_behind(error: BaseException) -> Iterator[BaseException]:
    """What a traceback can show: every cause, and what each happened in the handling of."""
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
