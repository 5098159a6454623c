"""Translation of clients' errors by name, code and status."""

from __future__ import annotations

import ftplib
import traceback

import pytest

from lakewright.storage.errors import (
    AccessRefused,
    ClockJumped,
    CredentialsMissing,
    FileMissing,
    StorageError,
    StoreNotFound,
    UnavailableError,
)
from lakewright.storage.files.renaming_files import RenamingFiles
from lakewright.storage.files.store_failures import harmless, is_taken, told, without_secrets


class ClientError(Exception):
    """As botocore raises: a parsed answer."""

    def __init__(self, code: str) -> None:
        super().__init__(f"An error occurred ({code})")
        self.response = {"Error": {"Code": code}}


class HttpResponseError(Exception):
    """As azure raises: a code of the service, and a status."""

    def __init__(self, error_code: str) -> None:
        super().__init__(error_code)
        self.error_code = error_code


class HttpError(Exception):
    """As gcsfs raises: a status."""

    def __init__(self, code: int, text: str = "no") -> None:
        super().__init__(text)
        self.code = code


class NoCredentialsError(Exception):
    """As botocore raises."""


class ClientAuthenticationError(Exception):
    """As azure raises."""


class SSHException(Exception):
    """As paramiko raises."""


class AuthenticationException(SSHException):
    """As paramiko raises."""


ClientError.__module__ = "botocore.exceptions"
HttpError.__module__ = "gcsfs.retry"
HttpResponseError.__module__ = "azure.core.exceptions"


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


TOLD = [
    (caused(FileNotFoundError("x"), ClientError("NoSuchBucket")), StoreNotFound),
    (caused(FileNotFoundError("x"), ClientError("NoSuchKey")), FileMissing),
    (caused(FileNotFoundError("x"), HttpResponseError("ContainerNotFound")), StoreNotFound),
    (caused(FileNotFoundError("x"), HttpResponseError("BlobNotFound")), FileMissing),
    (FileNotFoundError("x"), FileMissing),
    (caused(PermissionError("x"), ClientError("InvalidAccessKeyId")), AccessRefused),
    (caused(PermissionError("x"), ClientError("RequestTimeTooSkewed")), ClockJumped),
    (HttpResponseError("AuthorizationPermissionMismatch"), AccessRefused),
    (ClientAuthenticationError("signature"), AccessRefused),
    (
        ClientAuthenticationError("DefaultAzureCredential failed to retrieve a token"),
        CredentialsMissing,
    ),
    (OSError("Forbidden: https://x\nno"), AccessRefused),
    (HttpError(401), AccessRefused),
    (HttpError(401, "Anonymous caller does not have access"), CredentialsMissing),
    (NoCredentialsError("Unable to locate credentials"), CredentialsMissing),
    (caused(OSError("x"), ClientError("SlowDown")), UnavailableError),
    (HttpError(503), UnavailableError),
    (TimeoutError(), UnavailableError),
    (ConnectionResetError("x"), UnavailableError),
    (ftplib.error_perm("550 File exists."), UnavailableError),
    (ftplib.error_temp("421 busy"), UnavailableError),
    (ftplib.error_reply("226 out of step"), UnavailableError),
    (ftplib.error_perm("530 Login incorrect."), AccessRefused),
    (ftplib.error_perm("550 Permission denied."), AccessRefused),
    (ftplib.error_perm("550 Not enough privileges."), AccessRefused),
    (AuthenticationException("Authentication failed."), AccessRefused),
    (SSHException("No authentication methods available"), CredentialsMissing),
    # The answer to the last request of an upload in parts was lost, and it was sent again.
    (caused(FileNotFoundError("x"), ClientError("NoSuchUpload")), UnavailableError),
    # As gcsfs says that an answer was not as it should be, and others that they lost a connection.
    (AssertionError(), UnavailableError),
    (KeyError("Range"), UnavailableError),
    (AttributeError("'NoneType' object has no attribute 'sendall'"), UnavailableError),
    (caused(RuntimeError("x"), HttpResponseError("ServerBusy")), UnavailableError),
]


@pytest.mark.parametrize(("error", "kind"), TOLD, ids=range(len(TOLD)))
def test_a_clients_error_is_told_as_what_it_means(
    error: Exception, kind: type[StorageError]
) -> None:
    said = told(error, "bucket/x", store="s3://", credentials="set AWS_PROFILE")
    assert type(said) is kind
    if kind is CredentialsMissing:
        assert "set AWS_PROFILE" in str(said)


def test_a_mistake_of_ours_is_no_failure_of_a_store() -> None:
    assert told(TypeError("x"), "bucket/x", store="s3://", credentials="") is None


def test_what_merely_went_before_says_nothing_of_a_failure() -> None:
    error = ConnectionResetError("x")
    error.__context__ = FileNotFoundError("before")
    said = told(error, "bucket/x", store="s3://", credentials="")
    assert type(said) is UnavailableError


@pytest.mark.parametrize(
    "error",
    [
        FileExistsError("x"),
        caused(OSError(22, "x"), ClientError("PreconditionFailed")),
        caused(OSError(22, "x"), HttpResponseError("BlobAlreadyExists")),
        HttpError(412),
    ],
    ids=range(4),
)
def test_a_create_that_found_a_file_is_known(error: Exception) -> None:
    assert is_taken(error)
    assert not is_taken(OSError("other"))


@pytest.mark.parametrize(
    "text",
    [
        "the key hidden-secret-value is wrong",
        "http://ann:hidden-secret-value@host/x failed",
        "GET /x?sv=1&sig=hidden-secret-value&se=2",
        "GET /x?X-Amz-Signature=hidden-secret-value",
        "AccountName=a;AccountKey=hidden-secret-value;x=y",
        "password=hidden-secret-value host=h",
    ],
)
def test_secrets_are_taken_out_of_what_is_told(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if text.startswith("the key"):
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden-secret-value")
    assert "hidden-secret-value" not in without_secrets(text)
    assert harmless(OSError(text)) is None
    said = told(OSError(text), "bucket/x", store="s3://", credentials="")
    assert "hidden-secret-value" not in repr(said)


def failed_while(handled: Exception) -> Exception:
    """An error raised while another was handled, which names no cause."""
    try:
        try:
            raise handled
        except type(handled):
            raise OSError("no answer")  # noqa: B904 - as clients do
    except OSError as error:
        return error


@pytest.mark.mission("PT55")
@pytest.mark.parametrize(
    "error",
    [
        failed_while(ValueError("password=hidden-secret-value")),
        caused(OSError("x"), failed_while(ValueError("password=hidden-secret-value"))),
        failed_while(caused(ValueError("x"), KeyError("?sig=hidden-secret-value"))),
    ],
    ids=range(3),
)
def test_a_secret_in_what_went_before_is_in_no_traceback(error: Exception) -> None:
    said = told(error, "bucket/x", store="s3://", credentials="")
    assert said is not None
    assert "hidden-secret-value" in "".join(traceback.format_exception(error))
    said.__cause__ = harmless(error)
    assert "hidden-secret-value" not in "".join(traceback.format_exception(said))


def test_a_note_with_a_secret_is_not_shown() -> None:
    error = OSError("no answer")
    error.add_note("sent with token=hidden-secret-value")
    assert harmless(error) is None


def test_what_holds_no_secret_is_told_as_it_is() -> None:
    text = "connection to http://127.0.0.1:9000/bucket?list-type=2 refused"
    assert without_secrets(text) == text
    error = OSError(text)
    assert harmless(error) is error


def test_a_store_that_is_not_reached_is_named_by_its_uri_and_told_in_few_lines() -> None:
    files = RenamingFiles(protocol="sftp", address="me@nohost.invalid")
    tried = "\n".join(f"tried {number}" for number in range(90))

    with pytest.raises(UnavailableError) as raised, files.translated("/"):
        raise OSError(f"[Errno -2] Name or service not known\n{tried}")

    assert raised.value.message.splitlines() == [
        "sftp://me@nohost.invalid/ cannot be reached: [Errno -2] Name or service not known",
        "tried 0",
        "tried 1",
        "… and 88 lines more",
    ]
