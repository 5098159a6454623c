"""`lakewright report`: one page that needs nothing else, in which no text of a table is code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from lakewright.platform.decide.surveys import Surveys
from lakewright.platform.decide.upkeep_state import read_state
from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.ledger import Ledger
from lakewright.storage import Catalog
from tests.support.tables.builders import new_table, rows
from tests.unit.cli.conftest import Lakewright

_NAME = "db.<img src=x onerror=\"document['title']='run'\">"
_ERROR = "no store </script><script>document.title='run'</script>"
_CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)


class _Page(HTMLParser):
    """The elements of a page, its visible texts, and what its scripts hold."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.data: list[object] = []
        self.addresses: list[str] = []
        self._script: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.addresses += [value for name in ("src", "href") if (value := given.get(name))]
        self._script = given.get("type") if tag == "script" else None

    def handle_data(self, data: str) -> None:
        if self._script == "application/json":
            self.data.append(json.loads(data))
        elif self._script is None:
            self.texts.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._script = None


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """A warehouse of now, as the command knows the time of the machine alone."""
    opened = Catalog.open(str(tmp_path / "warehouse"))
    opened.create_database("db")
    return opened


def neglected(catalog: Catalog, name: str, files: int = 6) -> None:
    table = new_table(catalog, {"k": "INT"}, name=name)
    surveys = Surveys(catalog)
    for number in range(files):
        table.write(rows(table, [{"k": number}]))
        surveys.record([read_state(catalog, name, now_ms=catalog.env.now_ms())])


def failed(catalog: Catalog, table: str) -> None:
    now_ms = catalog.env.now_ms()
    action = Action(
        id="1",
        run="r",
        table=table,
        table_uuid="u",
        verb="compact",
        started_ms=now_ms,
        ended_ms=now_ms,
        verdict=Verdict.FAILED,
        error=_ERROR,
    )
    Ledger(catalog).record([action])


def policy(folder: Path) -> str:
    file = folder / "policy.yaml"
    file.write_text("warehouse: {compaction: {min_bytes: 0 b}, snapshots: {enabled: false}}\n")
    return str(file)


def test_the_page_tells_state_debt_what_is_due_and_each_table(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    neglected(catalog, "db.orders")
    failed(catalog, "db.orders")
    written = tmp_path / "page.html"

    told = lakewright(catalog, "report", "--policy", policy(tmp_path), "--output", str(written))

    assert told.out.startswith(f"wrote {written}")
    page = _Page(written.read_text())
    text = " ".join(page.texts)
    assert "the table: 6 small files ≥ 5: compact" in text
    assert "6 small files to join" in text
    assert _ERROR in text
    (trend,) = [each for each in page.data if isinstance(each, list) and "what" in each[0]]
    debts = [each for each in trend if each["what"] == "debt"]
    assert [each["count"] for each in debts] == [0, 2, 3, 4, 5, 6, 6]
    # A plot ends at the moment of the report, and a tick is a minute at least.
    ends = re.search(r'data-plot="trend" data-from="(\d+)" data-to="(\d+)"', written.read_text())
    assert ends is not None
    assert int(ends[2]) == debts[-1]["at"] >= catalog.env.now_ms() - 600_000
    assert int(ends[2]) - int(ends[1]) >= 3_600_000
    assert "<h1>warehouse</h1>" in written.read_text()
    shapes = [each for each in page.data if isinstance(each, list) and "level" in each[0]]
    assert {each[0]["size"] for each in shapes} == {"< 1.0 MiB"}
    assert 6 in {each[0]["files"] for each in shapes}
    # Nothing is loaded from anywhere.
    assert all(each.startswith("#") for each in page.addresses)


def test_no_text_of_a_table_or_of_an_error_is_code(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    neglected(catalog, _NAME)
    failed(catalog, _NAME)
    written = tmp_path / "page.html"

    lakewright(catalog, "report", "--output", str(written))

    page = _Page(written.read_text())
    assert "img" not in page.tags
    # One script runs; the others are values.
    assert page.tags.count("script") == len(page.data) + 1
    assert any(_NAME in each for each in page.texts)
    assert any(_ERROR in each for each in page.texts)
    digests = re.findall(r"script-src '(sha256-[^']+)'", written.read_text())
    assert len(digests) == 1


def test_tables_of_lakewright_itself_come_last_and_apart(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    neglected(catalog, "db.orders__rejects", 9)
    neglected(catalog, "db.orders", 3)
    failed(catalog, "db.orders")
    written = tmp_path / "page.html"

    lakewright(catalog, "report", "--output", str(written))

    text = " ".join(_Page(written.read_text()).texts)
    own = text.split("Tables of Lakewright itself")
    assert len(own) == 3
    for before, after in zip(("Tables", "Table by table"), (own[1], own[2]), strict=True):
        assert before in text
        assert {"db.orders__rejects", "lakewright.ledger", "lakewright.surveys"} <= set(
            after.split("Runs of the last")[0].split()
        )


@pytest.mark.skipif(_CHROMIUM is None, reason="no Chromium on this machine")
def test_a_browser_draws_the_plots_and_runs_no_text(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    neglected(catalog, _NAME)
    failed(catalog, _NAME)
    written = tmp_path / "page.html"
    lakewright(catalog, "report", "--output", str(written))
    written.write_text(written.read_text().replace("<details ", "<details open "))

    command = [str(_CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=20000"]
    seen = subprocess.run(
        [*command, written.as_uri()], capture_output=True, text=True, check=True, timeout=300
    ).stdout

    assert "<title>Lakewright: " in seen
    # Debt, and files and trend of the table; the ledger and the surveys have files too.
    assert seen.count("<svg") >= 3
    assert ">this plot cannot be drawn" not in seen
