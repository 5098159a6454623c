"""`http`: rows of a JSON interface, page by page, all or behind a cursor.

An answer is an object or an array; `records` is the path to the array of rows in it. The next page
is where a link of the answer leads (`next-page`), the number of the page, or an offset. A server
may give fewer rows than it is asked for, so pages end with one that is empty, or with the last of
the rows that the server counts (`total`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import pyarrow as pa

from lakewright.connectors.cursor_scan import CursorScan
from lakewright.connectors.factories import Context, DynamicTableFactory
from lakewright.connectors.fitted import batches_of
from lakewright.connectors.options import Option, OptionKind
from lakewright.connectors.python_rows import cursor_field
from lakewright.connectors.runtime import Scan
from lakewright.connectors.sources import ScanTableSource
from lakewright.storage.env import Env
from lakewright.storage.errors import AccessRefused, InvalidOption, InvalidRows, UnavailableError
from lakewright.storage.files.store_failures import harmless
from lakewright.storage.secret_texts import shown_text
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.option_values import bounded_number

_HEADERS = "header."
_TRIES = 4
_FIRST_PAUSE_MS = 500
_MOST_PAUSE_MS = 60_000
_BUSY, _MISSING, _REFUSED = 429, 404, (401, 403)
# More pages than this are a circle, or need a cursor.
_MOST_PAGES = 100_000


class Http(DynamicTableFactory):
    """Makes the source."""

    identifier = "http"
    description = "rows of a JSON interface, page by page"
    required_options = (Option(name="url", description="the address of the first page"),)
    optional_options = (
        Option(name="records", description="the path to the rows, such as data.items", default=""),
        Option(
            name="pagination",
            description="how further pages are found",
            choices=("none", "next", "page", "offset"),
            default="none",
        ),
        Option(name="next-page", description="the path to the next address", default="next"),
        Option(name="page-parameter", description="the parameter with the page", default="page"),
        Option(
            name="first-page",
            kind=OptionKind.INTEGER,
            description="the number of the first page",
            default=1,
        ),
        Option(name="offset-parameter", description="the parameter to skip", default="offset"),
        Option(name="limit-parameter", description="the parameter of a page's size"),
        Option(name="page-size", kind=OptionKind.INTEGER, description="rows of a page", minimum=1),
        Option(name="total", description="the path to the number of all rows, such as meta.total"),
        Option(name="incremental", description="a column that grows: rows behind its last value"),
        Option(name="cursor-parameter", description="the parameter with that last value"),
        Option(
            name="timeout", kind=OptionKind.DURATION, description="for an answer", default=30_000
        ),
    )
    option_prefixes = (_HEADERS,)

    def create_source(self, context: Context) -> ScanTableSource:
        return _HttpSource(context)


@dataclass(frozen=True)
class _Interface:
    """What is asked for, and how."""

    options: Mapping[str, Any] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    env: Env
    owner: str

    def pages(self, after: Any) -> Iterator[list[Any]]:
        """The rows of each page."""
        given = self.options
        parameters: dict[str, Any] = {}
        if after is not None and given["cursor-parameter"]:
            parameters[given["cursor-parameter"]] = _text(after)
        if given["limit-parameter"] and given["page-size"]:
            parameters[given["limit-parameter"]] = given["page-size"]
        address, seen, skipped = given["url"], set[str](), 0
        before: list[Any] | None = None
        total: int | None = None
        for number in range(_MOST_PAGES):
            if given["pagination"] == "page":
                parameters[given["page-parameter"]] = given["first-page"] + number
            elif given["pagination"] == "offset":
                parameters[given["offset-parameter"]] = skipped
            asked = _with_parameters(address, parameters)
            if asked in seen:
                # The last page may lead to itself.
                break
            seen.add(asked)
            is_short = before is not None and len(before) < (given["page-size"] or 0)
            answer = self._answer(asked, may_be_behind=is_short)
            if answer is None:
                break
            rows = _at(answer, given["records"])
            if not isinstance(rows, list):
                raise InvalidRows(
                    f"{self.owner}: at {given['records'] or 'the top'} of the answer of "
                    f"{_shown(asked)} is {type(rows).__name__}, and no array; set records to the "
                    "path of the array"
                )
            if rows and rows == before:
                raise InvalidRows(
                    f"{self.owner}: two pages of {_shown(asked)} have the same rows, so the server "
                    f"does not take {self._step}; correct that, set total to the path of the "
                    "number of rows if the last page comes again, or set pagination = none"
                )
            before = rows
            yield rows
            skipped += len(rows)
            total = self._total(answer)
            if given["pagination"] == "none" or not rows or skipped == total:
                break
            if given["pagination"] == "next":
                link = _at(answer, given["next-page"])
                if not link:
                    break
                # The link knows the parameters.
                address, parameters = self.same_host(urljoin(asked, str(link))), {}
        else:
            raise InvalidRows(
                f"{self.owner}: {_shown(given['url'])} has more than {_MOST_PAGES} pages, or leads "
                "in a circle; ask for larger pages, or for rows behind a cursor (incremental)"
            )
        if after is None and total is not None and skipped < total:
            raise InvalidRows(
                f"{self.owner}: {_shown(given['url'])} says that it has {total} rows, and gave "
                f"{skipped}; set pagination and its options as the server has them, or leave "
                "total out"
            )

    @property
    def _step(self) -> str:
        """The option that leads from one page to the next, with its value."""
        name = {"page": "page-parameter", "offset": "offset-parameter"}.get(
            self.options["pagination"], "next-page"
        )
        return f"{name} = {self.options[name]}"

    def _total(self, answer: Any) -> int | None:
        """How many rows there are, if the answer says it."""
        path = self.options["total"]
        if path is None:
            return None
        total = _at(answer, path)
        if isinstance(total, str) and total.isdecimal():
            total = int(total)
        if type(total) is not int:
            raise InvalidRows(
                f"{self.owner}: at {path} of the answer is {total!r:.80}, and no number of rows; "
                "set total to the path of one, or leave it out"
            )
        return total

    def same_host(self, link: str) -> str:
        """A link; headers with secrets go nowhere else."""
        here, there = urlsplit(self.options["url"]), urlsplit(link)
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            raise InvalidRows(
                f"{self.owner}: the next page is on {there.scheme}://{there.hostname}, and the "
                f"table on {here.scheme}://{here.hostname}; its headers are sent to no other host"
            )
        return link

    def _answer(self, address: str, *, may_be_behind: bool) -> Any:
        """The answer of an address; None if there is nothing, and it may be behind the last page.

        Raises:
            AccessRefused, UnavailableError: the server does not give it.
            InvalidRows: it is no JSON.
        """
        pause = _FIRST_PAUSE_MS
        for left in reversed(range(_TRIES)):
            try:
                request = Request(address, headers={"Accept": "application/json", **self.headers})  # noqa: S310
                opener = build_opener(_SameHost(self))
                with opener.open(request, timeout=self.options["timeout"] / 1000) as found:
                    # A number with more digits than a double has stays exact.
                    return json.loads(found.read(), parse_float=_exact)
            except HTTPError as error:
                error.close()
                if error.code in _REFUSED:
                    raise AccessRefused(
                        f"{self.owner}: {_shown(address)} answers {error.code} {error.reason}; "
                        "give it credentials: 'header.Authorization' = 'Bearer ${env:NAME}'"
                    ) from None
                if error.code == _MISSING and may_be_behind:
                    return None
                if not left or (error.code != _BUSY and error.code < 500):
                    raise UnavailableError(
                        f"{self.owner}: {_shown(address)} answers {error.code} {error.reason}"
                    ) from None
                pause = _asked_pause(error) or pause
            except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
                if not left:
                    raise UnavailableError(
                        f"{self.owner}: no answer of {_shown(address)}: {error}"
                    ) from harmless(error)
            except ValueError as error:
                raise InvalidRows(
                    f"{self.owner}: the answer of {_shown(address)} is no JSON: {error}"
                ) from error
            self.env.sleep_ms(min(pause, _MOST_PAUSE_MS))
            pause *= 2
        raise AssertionError


class _SameHost(HTTPRedirectHandler):
    """Redirects take the headers along."""

    def __init__(self, interface: _Interface) -> None:
        self._interface = interface

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        here = self._interface.same_host(newurl)
        return super().redirect_request(req, fp, code, msg, headers, here)


def _exact(text: str) -> float | Decimal:
    """A number as a float, if it is one."""
    number, exact = float(text), Decimal(text)
    return number if Decimal(repr(number)) == exact else exact


class _HttpSource(ScanTableSource):
    def __init__(self, context: Context) -> None:
        options = context.options.values
        if urlsplit(options["url"]).scheme not in ("http", "https"):
            raise InvalidOption(
                f"url of {context.name} is {_shown(options['url'])!r}; write http:// or https://",
                option="url",
            )
        if "@" in urlsplit(options["url"]).netloc:
            raise InvalidOption(
                f"url of {context.name} has a user, which is not sent; write "
                "'header.Authorization' = 'Basic ${env:NAME}'",
                option="url",
            )
        headers = {
            name.removeprefix(_HEADERS): text
            for name, text in context.table.options.items()
            if name.startswith(_HEADERS)
        }
        self._interface = _Interface(dict(options), headers, context.env, context.name)
        self._fields = context.table.fields
        self._cursor = cursor_field(context, options["incremental"])

    @property
    def summary(self) -> str:
        return f"http of {_shown(self._interface.options['url'])}"

    def scan(self) -> Scan:
        return _HttpScan(self._interface, self._fields, self._cursor)


class _HttpScan(CursorScan):
    def __init__(
        self, interface: _Interface, fields: Sequence[DataField], cursor: DataField | None
    ) -> None:
        super().__init__(cursor, interface.owner)
        self._interface, self._fields = interface, tuple(fields)

    def fetch(self, after: Any) -> Iterator[pa.RecordBatch]:
        for rows in self._interface.pages(after):
            for row in rows:
                if not isinstance(row, Mapping):
                    raise InvalidRows(f"{self._owner}: a row is {row!r:.80}, and no object")
            for batch in batches_of(rows, self._fields, table=self._owner):
                yield batch if after is None else self._behind(batch, after)

    def _behind(self, batch: pa.RecordBatch, after: Any) -> pa.RecordBatch:
        """Rows behind the cursor, of an interface that gives others too."""
        assert self._cursor is not None
        values = batch.column(self._cursor.name).to_pylist()
        kept = [at for at, each in enumerate(values) if each is None or each > after]
        return batch.take(pa.array(kept, pa.int64()))


def _at(answer: Any, path: str) -> Any:
    """What lies at a path of names with dots; None if nothing does."""
    for name in path.split(".") if path else ():
        if not isinstance(answer, Mapping) or name not in answer:
            return None
        answer = answer[name]
    return answer


def _with_parameters(address: str, parameters: Mapping[str, Any]) -> str:
    parts = urlsplit(address)
    given = {**dict(parse_qsl(parts.query, keep_blank_values=True)), **parameters}
    return urlunsplit(parts._replace(query=urlencode(given)))


def _shown(address: str) -> str:
    """An address without parameters, which may be secrets as its user may."""
    return re.split(r"[?#]", shown_text(address), maxsplit=1)[0]


def _asked_pause(error: HTTPError) -> int | None:
    seconds = bounded_number(error.headers.get("Retry-After", ""), 32)
    return None if seconds is None else max(seconds, 0) * 1000


def _text(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
