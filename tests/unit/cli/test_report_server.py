"""The reports of a Dagster home over HTTP: its pages alone, on loopback alone, until `up` ends."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

_ASSET = "http://127.0.0.1:3000/assets/warehouse_report"
_PARENT = f"""
import sys
from pathlib import Path
from lakewright.project.report_server import start_server
print(start_server(Path(sys.argv[1]), int(sys.argv[2]), "{_ASSET}"), flush=True)
sys.stdin.read()
"""


def parent(home: Path, port: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(home), str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said_url(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """The folder of reports, and its URL."""
    (tmp_path / "reports").mkdir()
    with parent(tmp_path) as process:
        yield tmp_path / "reports", said_url(process)


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=300) as answer:
        return str(answer.read().decode())


def test_the_newest_page_is_at_the_root_and_each_at_its_name(served: tuple[Path, str]) -> None:
    folder, url = served
    assert _ASSET in read(url)
    (folder / "old.html").write_text("old")
    (folder / "new page.html").write_text("new")
    os.utime(folder / "old.html", ns=(0, 0))

    assert (read(url), read(f"{url}/old.html"), read(f"{url}/new%20page.html")) == (
        "new",
        "old",
        "new",
    )


@pytest.mark.parametrize("path", ["/secret.txt", "/../storage.html", "/%2e%2e/storage.html"])
def test_nothing_but_pages_of_the_folder_is_served(served: tuple[Path, str], path: str) -> None:
    folder, url = served
    (folder / "secret.txt").write_text("s")
    (folder.parent / "storage.html").write_text("s")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        read(url + path)


def test_a_page_of_another_site_reads_nothing_by_a_name_of_its_own(
    served: tuple[Path, str],
) -> None:
    client = http.client.HTTPConnection(served[1].removeprefix("http://"), timeout=300)
    client.request("GET", "/", headers={"Host": "elsewhere.example:80"})
    assert client.getresponse().status == 403
    client.close()


def test_a_taken_port_gives_a_free_one(served: tuple[Path, str], tmp_path: Path) -> None:
    port = int(served[1].rpartition(":")[2])
    with parent(tmp_path, port) as other:
        url = said_url(other)
        assert url != served[1]
        assert "No report is written yet" in read(url)


def _read_while_served(url: str) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        read(url)


def test_the_server_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    with parent(tmp_path) as process:
        url = said_url(process)
        read(url)
        process.kill()

    # It looks every second; the last request is refused or cut off.
    with pytest.raises((OSError, http.client.HTTPException)):
        _read_while_served(url)
