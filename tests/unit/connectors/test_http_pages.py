"""The connector `http` against servers that page as they like."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from lakewright.connectors import http_json
from lakewright.connectors.http_json import Http
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.connectors.testing.tables import context_of
from lakewright.storage.env import SystemEnv
from lakewright.storage.errors import InvalidOption, InvalidRows, UnavailableError

_ROWS, _MOST = 7, 3
# What a server answers to parameters: a status, and a body.
Answer = Callable[[dict[str, int]], tuple[int, Any]]


@contextmanager
def served(
    answer: Answer, headers: Mapping[str, str] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """The address of a server, and the queries that it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = urlsplit(self.path).query
            asked.append(query)
            given = {name: each[0] for name, each in parse_qs(query).items()}
            status, body = answer(
                {name: int(each) for name, each in given.items() if each.isdigit()}
            )
            self.send_response(status)
            for name, text in (headers or {}).items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/rows", asked
    finally:
        server.shutdown()
        server.server_close()


def page_of(parameters: dict[str, int], rows: int = _ROWS) -> list[dict[str, int]]:
    """What a server gives that has 7 rows, and at most 3 on a page."""
    size = min(parameters.get("size", _MOST), _MOST)
    begin = parameters.get("offset", (parameters.get("page", 1) - 1) * size)
    return [{"id": number} for number in range(rows)][begin : begin + size]


def capped(parameters: dict[str, int]) -> tuple[int, Any]:
    return 200, {"items": page_of(parameters), "meta": {"total": _ROWS}}


def ids(url: str, **options: str) -> list[int]:
    given = {name.replace("_", "-"): text for name, text in options.items()}
    context = context_of(Http(), {"id": "BIGINT"}, {"url": url, "records": "items", **given})
    pieces = plan_scan(context, ScanRequest()).rows()
    return [each for piece in pieces for each in piece.column("id").to_pylist()]


@pytest.mark.parametrize("total", [{}, {"total": "meta.total"}], ids=["no total", "total"])
@pytest.mark.parametrize(
    "options",
    [
        {"pagination": "page"},
        {"pagination": "page", "limit_parameter": "size", "page_size": "2"},
        {"pagination": "page", "limit_parameter": "size", "page_size": "3"},
        {"pagination": "page", "limit_parameter": "size", "page_size": "5"},
        {"pagination": "offset", "limit_parameter": "size", "page_size": "5"},
        {"pagination": "offset", "page_size": "100"},
    ],
    ids=range(6),
)
@pytest.mark.sampled(4)
def test_a_server_may_give_fewer_rows_than_it_is_asked_for(
    options: dict[str, str], total: dict[str, str]
) -> None:
    with served(capped) as (url, asked):
        assert ids(url, **options, **total) == list(range(_ROWS))
    # The number of rows spares the page that is empty.
    assert (
        len(asked) == len({*asked}) == (4 if options.get("page_size") == "2" else 3) + (not total)
    )


def test_a_page_behind_the_last_may_be_missing() -> None:
    def answer(parameters: dict[str, int]) -> tuple[int, Any]:
        rows = page_of(parameters)
        return (200, {"items": rows}) if rows else (404, {"detail": "Invalid page."})

    options = {"pagination": "page", "limit_parameter": "size", "page_size": "3"}
    with served(answer) as (url, _):
        assert ids(url, **options) == list(range(_ROWS))

    def of_six(parameters: dict[str, int]) -> tuple[int, Any]:
        rows = page_of(parameters, 6)
        return (200, {"items": rows, "n": "6"}) if rows else (404, {})

    with served(of_six) as (url, _):
        # Behind a whole page, it may as well be lost.
        with pytest.raises(UnavailableError, match="answers 404"):
            ids(url, **options)
        assert ids(url, **options, total="n") == list(range(6))


def test_a_server_that_does_not_take_the_parameter_is_refused() -> None:
    with served(lambda _: (200, {"items": page_of({})})) as (url, asked):
        for pagination, name in (("page", "page-parameter"), ("offset", "offset-parameter")):
            asked.clear()
            with pytest.raises(InvalidRows, match=rf"does not take {name} = {pagination}; "):
                ids(url, pagination=pagination, page_size="5")
            assert len(asked) == 2


def test_rows_that_the_server_counts_and_does_not_give_are_missed() -> None:
    with served(capped) as (url, _):
        with pytest.raises(InvalidRows, match=r"it has 7 rows, and gave 3; set pagination"):
            ids(url, total="meta.total")
        for path, said in (("meta", "is {'total': 7}, and no number"), ("count", "is None")):
            with pytest.raises(InvalidRows, match=said):
                ids(url, total=path)


def test_a_circle_of_pages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_json, "_MOST_PAGES", 20)
    with (
        served(lambda given: (200, {"items": [{"id": given["page"] % 2}]})) as (url, _),
        pytest.raises(InvalidRows, match="more than 20 pages, or leads in a circle"),
    ):
        ids(url, pagination="page")


def test_an_error_has_no_query_and_no_user_of_the_address() -> None:
    with served(lambda _: (404, {})) as (url, _), pytest.raises(UnavailableError) as refused:
        ids(f"{url}?sig=hunter2&page=1")
    assert "/rows answers 404" in refused.value.message
    assert "hunter2" not in f"{refused.value!r} {refused.value.__cause__!r}"
    with pytest.raises(InvalidOption, match="has a user, which is not sent") as unfit:
        ids("http://me:hunter2@127.0.0.1/rows")
    assert "hunter2" not in unfit.value.message


@pytest.mark.parametrize("asked", ["²", "9" * 5_000, "-5", "soon"])
def test_a_pause_that_is_no_number_of_seconds_is_not_heeded(
    asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[int] = []
    monkeypatch.setattr(SystemEnv, "sleep_ms", lambda _, pause: slept.append(pause))
    with (
        served(lambda _: (503, {}), {"Retry-After": asked}) as (url, _),
        pytest.raises(UnavailableError, match="answers 503"),
    ):
        ids(url)
    assert all(0 <= pause <= 60_000 for pause in slept), slept
