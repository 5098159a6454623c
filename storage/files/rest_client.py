"""The server of a REST catalog, spoken to in Paimon's protocol: one request for each question."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from lakewright.storage.codec.json_values import as_list, as_object, as_text, read_object
from lakewright.storage.env import Env
from lakewright.storage.errors import (
    AccessRefused,
    AlreadyExistsError,
    BranchNotFound,
    CredentialsMissing,
    DatabaseNotFound,
    InvalidRequestError,
    NotFoundError,
    NotWritten,
    SnapshotNotFound,
    StorageError,
    TableNotFound,
    TagNotFound,
    UnavailableError,
    UnsupportedError,
)
from lakewright.storage.files.store_failures import harmless
from lakewright.storage.secret_texts import without_secrets

TOKEN_VARIABLE = "LAKEWRIGHT_CATALOG_TOKEN"  # noqa: S105 - the name of a variable
HTTP_SCHEMES = ("http://", "https://")
_ANSWER_SECONDS = 60
# A server that renames or drops a table moves or deletes its files before it answers.
MOVE_SECONDS = 600
_MOST_ANSWER_BYTES = 256 << 20
_TRIES = 4
_FIRST_WAIT_MS = 200
# Answers of a server, or of a proxy before it, that did not begin the request.
_BUSY = (429, 503)
_OK = (200, 202, 204)
_USED = ("prefix", "header.", "data-token.enabled", "table-default.")
_MISSING = {
    "DATABASE": DatabaseNotFound,
    "TABLE": TableNotFound,
    "SNAPSHOT": SnapshotNotFound,
    "TAG": TagNotFound,
    "BRANCH": BranchNotFound,
}
_REFUSALS: Mapping[int, type[StorageError]] = {
    400: InvalidRequestError,
    401: AccessRefused,
    403: AccessRefused,
    409: AlreadyExistsError,
    501: UnsupportedError,
}
# Tokens that callers of this process gave, by server and warehouse. They are in no value that
# pickles, is shown or is logged.
_GIVEN_TOKENS: dict[tuple[str, str], str] = {}


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        # The token would go along, to wherever the answer says.
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


@dataclass(frozen=True)
class RestServer:
    """One warehouse of one server; it pickles, and holds no secret.

    A process without the token that a caller gave, such as a Spark task, takes the variable's.
    """

    uri: str
    warehouse: str
    env: Env = field(compare=False, repr=False)
    # What the server says of its warehouse, as far as it is used here.
    config: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def get(self, *path: str, **query: str | None) -> dict[str, Any]:
        """The answer to a question, which is asked again if the server is busy or cut off."""
        return self._sent("GET", path, None, query=query, again=True)

    def listed(self, key: str, *path: str, **query: str | None) -> Iterator[Any]:
        """All elements of a list, page by page.

        Raises:
            UnavailableError: a page names one of before it as the next, so the list has no end.
        """
        page: str | None = None
        pages: set[str] = set()
        while True:
            answer = self.get(*path, **query, pageToken=page)
            found = as_list(answer.get(key) or [])
            yield from found
            page = answer.get("nextPageToken")
            if not page or not found:
                return
            page = as_text(page)
            if page in pages:
                raise UnavailableError(
                    f"the REST catalog at {self.uri} names a page of {'/'.join(path)} twice, so "
                    "their list has no end; ask for its repair"
                )
            pages.add(page)

    def post(
        self, *path: str, body: Mapping[str, Any], again: bool = False, seconds: int | None = None
    ) -> dict[str, Any]:
        """The answer to a change; `again` says that the server knows a repeated one."""
        return self._sent("POST", path, body, again=again, seconds=seconds)

    def drop(self, *path: str) -> None:
        """Let the server drop a thing, with all that belongs to it."""
        self._sent("DELETE", path, None, seconds=MOVE_SECONDS)

    def _sent(
        self,
        method: str,
        path: tuple[str, ...],
        body: Mapping[str, Any] | None,
        *,
        query: Mapping[str, str | None] | None = None,
        again: bool = False,
        seconds: int | None = None,
    ) -> dict[str, Any]:
        """The answer of the server.

        Raises:
            NotWritten: the server cannot be reached.
            UnavailableError: it failed or did not answer, and may have done what was asked.
            NotFoundError, AlreadyExistsError, InvalidRequestError, AccessError, UnsupportedError:
                it refused, and did nothing.
        """
        what = f"{method} {'/'.join(path)}"
        changes = method != "GET"
        for tries_left in reversed(range(_TRIES if again else 1)):
            try:
                code, data = self._exchanged(method, path, body, query or {}, seconds, what)
                if code in _OK:
                    return self._read(data, what) if data.strip() else {}
                failure = self._refused(code, data, what)
            except UnavailableError as error:
                code, failure = 0, error
            if again and changes and tries_left < _TRIES - 1:
                # A proxy may have answered the first request after the server took it.
                failure = UnavailableError(failure.message)
            if not tries_left or (code not in _BUSY and (changes or code)):
                raise failure
            self.env.sleep_ms(_FIRST_WAIT_MS * 2 ** (_TRIES - tries_left) * self.env.jitter())
        raise AssertionError("the last try returns or raises")

    def _exchanged(
        self,
        method: str,
        path: tuple[str, ...],
        body: Mapping[str, Any] | None,
        query: Mapping[str, str | None],
        seconds: int | None,
        what: str,
    ) -> tuple[int, bytes]:
        given = urlencode({name: value for name, value in query.items() if value is not None})
        url = f"{self.uri}/v1/{'/'.join(quote(part, safe='') for part in self._below(path))}"
        request = urllib.request.Request(  # noqa: S310 - only http and https are taken
            f"{url}?{given}" if given else url,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **self._headers()},
        )
        try:
            with _OPENER.open(request, timeout=seconds or _ANSWER_SECONDS) as answer:
                return answer.status, answer.read(_MOST_ANSWER_BYTES)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(_MOST_ANSWER_BYTES)
        except urllib.error.URLError as error:
            if _never_arrived(error.reason):
                raise NotWritten(
                    f"the REST catalog at {self.uri} cannot be reached: {self._told(error.reason)};"
                    " check the uri and that the server runs"
                ) from harmless(error)
            raise self._unanswered(what, error.reason) from harmless(error)
        except (OSError, http.client.HTTPException) as error:
            raise self._unanswered(what, error) from harmless(error)

    def _below(self, path: tuple[str, ...]) -> tuple[str, ...]:
        prefix = tuple(filter(None, self.config.get("prefix", "").split("/")))
        return path if path == ("config",) else (*prefix, *path)

    def _headers(self) -> dict[str, str]:
        sent = {
            name.removeprefix("header."): value
            for name, value in self.config.items()
            if name.startswith("header.")
        }
        return {**sent, "Authorization": f"Bearer {self._token()}"}

    def _token(self) -> str:
        token = _GIVEN_TOKENS.get((self.uri, self.warehouse)) or os.environ.get(TOKEN_VARIABLE)
        if not token:
            raise CredentialsMissing(
                f"the REST catalog at {self.uri} needs a token; set {TOKEN_VARIABLE}, on machines "
                "that run Spark tasks too"
            )
        return token

    def _read(self, data: bytes, what: str) -> dict[str, Any]:
        try:
            return as_object(read_object(data))
        except ValueError as error:
            # The answer may hold a token of a table.
            raise UnavailableError(
                f"the REST catalog at {self.uri} answered {what} with something else than JSON; "
                "check that the uri is one of a Paimon REST catalog"
            ) from harmless(error)

    def _refused(self, code: int, data: bytes, what: str) -> StorageError:
        try:
            told = as_object(read_object(data))
            message = self._told(told.get("message") or "no reason is given")
        except ValueError:
            told, message = {}, "the answer is no error of a REST catalog"
        # A server may say more exactly in the body what it means.
        meant = told.get("code") if isinstance(told.get("code"), int) else code
        text = f"the REST catalog at {self.uri} answers {what} with {meant}: {message}"
        kind = str(told.get("resourceType") or "")
        if meant == 404:
            return _MISSING.get(kind.upper(), NotFoundError)(text, resource=kind)
        if meant == 401:
            text += f"; check {TOKEN_VARIABLE}, or the option token"
        if refusal := _REFUSALS.get(int(meant or code)):
            return refusal(text)
        return UnavailableError(f"{text}; the server's own log says why", answered=True)

    def _unanswered(self, what: str, error: object) -> UnavailableError:
        return UnavailableError(
            f"the REST catalog at {self.uri} did not answer {what}: {self._told(error)}; it may "
            "have done it: look before you try again"
        )

    def _told(self, message: object) -> str:
        text = str(message) or type(message).__name__
        token = _GIVEN_TOKENS.get((self.uri, self.warehouse))
        text = text.replace(token, "***") if token else text
        return f"{without_secrets(text).strip()[:500]}"


def open_server(uri: str, warehouse: str, env: Env, *, token: str | None) -> RestServer:
    """The server at an address, with what it says of the warehouse; `token` is the caller's.

    Raises:
        InvalidRequestError: the URI is of another form, or holds a password.
        StorageError: the server does not answer, or refuses.
    """
    parts = urlsplit(uri)
    is_plain = uri.startswith(HTTP_SCHEMES) and parts.hostname and not parts.query
    if not is_plain or "@" in parts.netloc or parts.fragment:
        # The rest of the URI may hold a secret.
        raise InvalidRequestError(
            "the uri of a REST catalog is not of the form https://host:port or "
            "https://host:port/path; users, passwords and options have no place in it"
        )
    uri = uri.rstrip("/")
    if token:
        _GIVEN_TOKENS[uri, warehouse] = token
    bare = RestServer(uri, warehouse, env)
    answer = bare.get("config", warehouse=warehouse or None)
    config = {
        name: as_text(value)
        for part in ("defaults", "overrides")
        for name, value in as_object(answer.get(part) or {}).items()
        if value is not None and name.startswith(_USED)
    }
    return RestServer(uri, warehouse, env, config)


def _never_arrived(reason: object) -> bool:
    """Whether a failure came before any byte of a request could arrive."""
    return isinstance(
        reason, ConnectionRefusedError | socket.gaierror | ssl.SSLCertVerificationError
    )
