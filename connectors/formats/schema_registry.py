"""Schemas of messages by number: a registry that speaks Confluent's protocol, or a folder.

A folder, in any store, has a file for each schema and for each version of a subject:

    schemas/7.json              {"schema": "…"}
    subjects/orders-value/1.json   {"id": 7}

Files are created only if they are absent, so of two writers with one schema the second finds the
number of the first.
"""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from lakewright.connectors.options import Option, ReadOptions
from lakewright.storage.env import FileSystem, SystemEnv
from lakewright.storage.errors import (
    AccessRefused,
    FileMissing,
    InvalidOption,
    InvalidRequestError,
    UnavailableError,
)
from lakewright.storage.files.file_systems import open_file_system

URL = Option(
    name="url",
    aliases=("schema-registry.url",),
    description="the schema registry: http(s)://… that speaks Confluent's protocol, or a folder: "
    "file:///…, s3://…",
)
SUBJECT = Option(
    name="subject",
    aliases=("schema-registry.subject",),
    description="under which the schema of written messages is registered, such as <topic>-value",
)
_USER, _TOKEN = "basic-auth.user-info", "bearer-auth.token"
REGISTRY_OPTIONS = (
    SUBJECT,
    Option(
        name="basic-auth.credentials-source",
        description="where user and password are",
        choices=("USER_INFO",),
    ),
    Option(name=_USER, description="user:password: '${env:NAME}'", secret=True),
    Option(
        name="bearer-auth.credentials-source",
        description="where the token is",
        choices=("STATIC_TOKEN",),
    ),
    Option(name=_TOKEN, description="a token: '${env:NAME}'", secret=True),
)
_TYPE = "application/vnd.schemaregistry.v1+json"
_TIMEOUT_SECONDS = 30
_PAUSES_MS = (200, 1000, 3000)
_BUSY, _REFUSED, _MISSING = 429, (401, 403), 404


class Registry(ABC):
    """Where schemas are; it pickles."""

    @abstractmethod
    def schema(self, number: int) -> str | None:
        """The text of a schema of Avro; None if there is none with this number.

        Raises:
            UnavailableError: the registry does not answer.
            InvalidRequestError: the schema is of another kind, or refers to others.
        """

    @abstractmethod
    def register(self, subject: str, schema: str) -> int:
        """The number of a schema, which is the newest of its subject if it is new.

        Raises:
            UnavailableError: the registry does not answer.
            InvalidRequestError: it refuses the schema.
        """


def registry_of(options: ReadOptions) -> Registry:
    """The registry that options name."""
    url = options[URL.name]
    scheme = urlsplit(url).scheme
    user, token = options[_USER], options[_TOKEN]
    if scheme not in ("http", "https"):
        if not scheme:
            raise InvalidOption(
                f"url is {url!r:.120}; write http(s)://…, or a folder with its scheme: file:///…",
                option=URL.name,
            )
        return RegistryFolder(url.rstrip("/"))
    if user and token:
        raise InvalidOption(f"{_USER} and {_TOKEN} exclude each other", option=_USER)
    parts = urlsplit(url)
    if parts.username or parts.password or parts.query:
        raise InvalidOption(f"url has a user or parameters; give {_USER}", option=URL.name)
    held = None
    if user:
        held = f"Basic {base64.b64encode(user.encode()).decode()}"
    elif token:
        held = f"Bearer {token}"
    return ConfluentRegistry(url.rstrip("/"), held)


@dataclass(frozen=True)
class ConfluentRegistry(Registry):
    """A registry behind Confluent's protocol."""

    url: str
    authorization: str | None = field(default=None, repr=False)

    def schema(self, number: int) -> str | None:
        found = self._answer(f"/schemas/ids/{number}")
        if found is None:
            return None
        kind = found.get("schemaType", "AVRO") if isinstance(found, dict) else "AVRO"
        if kind != "AVRO" or (isinstance(found, dict) and found.get("references")):
            what = f"of {kind}" if kind != "AVRO" else "made of several, by references"
            raise InvalidRequestError(f"schema {number} of {self.url} is {what}, which is not read")
        return str(_member(found, "schema", f"{self.url}/schemas/ids/{number}"))

    def register(self, subject: str, schema: str) -> int:
        path = f"/subjects/{quote(subject, safe='')}/versions"
        found = self._answer(path, {"schema": schema})
        if found is None:
            raise InvalidRequestError(f"{self.url}{path} is not there; is it a schema registry?")
        return _number(found, self.url + path)

    def _answer(self, path: str, body: object = None) -> Any:
        """The answer to a request; None if there is nothing at the path."""
        headers = {"Accept": _TYPE, "Content-Type": _TYPE}
        if self.authorization is not None:
            headers["Authorization"] = self.authorization
        data = None if body is None else json.dumps(body).encode()
        opener = build_opener(_NoRedirects())
        failure = ""
        for pause in (*_PAUSES_MS, None):
            request = Request(self.url + path, data=data, headers=headers)  # noqa: S310
            try:
                with opener.open(request, timeout=_TIMEOUT_SECONDS) as found:
                    return json.loads(found.read())
            except HTTPError as error:
                if error.code == _MISSING and body is None:
                    return None
                failure = f"{error.code} {_said(error)}"
                if error.code in _REFUSED:
                    raise AccessRefused(
                        f"schema registry {self.url} answers {failure}; give it {_USER} or {_TOKEN}"
                    ) from None
                if error.code != _BUSY and error.code < 500:
                    raise InvalidRequestError(
                        f"schema registry {self.url} answers {path} with {failure}"
                    ) from None
            except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
                failure = str(error)
            except ValueError as error:
                raise InvalidRequestError(f"{self.url}{path} answers no JSON: {error}") from None
            if pause is not None:
                SystemEnv().sleep_ms(pause)
        raise UnavailableError(f"schema registry {self.url} does not answer: {failure}")


class _NoRedirects(HTTPRedirectHandler):
    """A redirect would take the credentials along."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _member(found: Any, name: str, where: str) -> Any:
    """A member of an answer or a file.

    Raises:
        InvalidRequestError: it has none.
    """
    if not isinstance(found, dict) or found.get(name) is None:
        raise InvalidRequestError(
            f"{where} has no {name}: {found!r:.120}; is it one of a schema registry?"
        )
    return found[name]


def _number(found: Any, where: str) -> int:
    number = _member(found, "id", where)
    if type(number) is not int:
        raise InvalidRequestError(f"{where} has the id {number!r:.80}, and no number")
    return number


def _said(error: HTTPError) -> str:
    try:
        return str(json.loads(error.read())["message"])[:500]
    except (ValueError, KeyError, TypeError):
        return str(error.reason)


@dataclass(frozen=True)
class RegistryFolder(Registry):
    """A folder of schemas."""

    place: str

    def schema(self, number: int) -> str | None:
        fs, path = open_file_system(self.place)
        file = f"{path}/schemas/{number}.json"
        try:
            return str(_member(_parsed(fs.read_bytes(file), file), "schema", file))
        except FileMissing:
            return None

    def register(self, subject: str, schema: str) -> int:
        fs, path = open_file_system(self.place)
        number = self._number(fs, f"{path}/schemas", schema)
        folder = f"{path}/subjects/{quote(subject, safe='')}"
        while True:
            found = dict(_files(fs, folder))
            if number in (_number(found[at], f"{folder}/{at}.json") for at in found):
                return number
            text = json.dumps({"id": number}).encode()
            fs.put_if_absent(f"{folder}/{max(found, default=0) + 1}.json", text)

    def _number(self, fs: FileSystem, folder: str, schema: str) -> int:
        wanted, known = json.loads(schema), 0
        while True:
            for number, found in _files(fs, folder):
                file = f"{folder}/{number}.json"
                held = str(_member(found, "schema", file)).encode()
                if number > known and _parsed(held, file) == wanted:
                    return number
                known = max(known, number)
            fs.put_if_absent(f"{folder}/{known + 1}.json", json.dumps({"schema": schema}).encode())


def _parsed(text: bytes, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidRequestError(
            f"{where} is no JSON: {error}; it is to be one of a schema registry"
        ) from None


def _files(fs: FileSystem, folder: str) -> Iterator[tuple[int, Any]]:
    """What the numbered files of a folder hold, in order."""
    names = (each.name.removesuffix(".json") for each in fs.list_dir(folder))
    for number in sorted(int(name) for name in names if name.isdigit()):
        file = f"{folder}/{number}.json"
        yield number, _parsed(fs.read_bytes(file), file)
