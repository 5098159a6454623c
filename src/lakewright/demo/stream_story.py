"""The demo of streams: a shop's database, captured into a keyed table within half a minute.

1. A PostgreSQL starts on loopback, and a shop trades in it. Where there is none, a folder of change
   events takes its place.
2. Dagster serves two tables: orders follow the database, and revenue is computed from orders. The
   upkeep sensor compacts orders meanwhile.
3. The shop closes, and the table has to have what the database has.

Everything is in a new folder of Dagster's home, but for the database, which is gone at the end.
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pyarrow.compute as pc
import yaml

from lakewright.demo.dagster_server import DagsterServer
from lakewright.demo.narrator import Narrator
from lakewright.demo.postgres import lacks_postgres, postgres
from lakewright.demo.report import state_of
from lakewright.demo.shop import DatabaseShop, FolderShop, Shop
from lakewright.platform.ledger.kept_verbs import COMPACT
from lakewright.platform.upkeep.words import counted
from lakewright.project.new import SETTINGS
from lakewright.project.report_server import HOST
from lakewright.project.serve import ServedProject, workspace_of
from lakewright.storage import Catalog
from lakewright.storage.env import SystemEnv
from lakewright.storage.errors import UnavailableError

_TABLES = Path(__file__).parent / "streamed"
_ORDERS, _REVENUE = "live.orders", "live.revenue"
_POLL_MS = 1_000
_SECONDS, _WAIT_SECONDS = 75, 120


def run_stream_demo(warehouse: str, *, seconds: int = _SECONDS, keep: bool = False) -> None:
    """Run the demo, with the shop open for some seconds; `keep` opens it again, until Ctrl-C.

    Raises:
        UnavailableError: a run failed, or the table did not get the rows in time.
    """
    home = Path(tempfile.mkdtemp(prefix="demo_stream-", dir=workspace_of(warehouse).home))
    project = ServedProject(home, str(home / "warehouse"), (home / "tables",))
    (home / "tables").mkdir()
    (home / SETTINGS.name).write_bytes(SETTINGS.read_bytes())
    env = SystemEnv()
    say = Narrator(env, env.now_ms())
    with open_shop(project, say) as (shop, variables):
        say.step("starting Dagster: web server, daemon and code server, on loopback")
        environment = {**project.environment, **variables}
        with DagsterServer(None, project.home, environment) as server:
            page = f"http://{HOST}:{server.port}/assets/{_ORDERS.replace('.', '/')}"
            say.note(f"the page of the table: {page}")
            story = _Story(server, Catalog.open(project.warehouse), shop, say, env)
            story.tell(seconds)
            if keep:
                say.step(f"the shop is open again: {page} (Ctrl-C ends it)")
                story.go_on()
    say.line("")
    say.line(f"look at it: lakewright --warehouse {shlex.quote(project.warehouse)} show {_ORDERS}")


@contextmanager
def open_shop(project: ServedProject, say: Narrator) -> Iterator[tuple[Shop, dict[str, str]]]:
    """A shop, and the variables by which the declarations find it."""
    tables, why_not = project.tables[0], lacks_postgres()
    for each in _TABLES.glob("*.yaml"):
        shutil.copy(each, tables)
    if why_not is None:
        say.step("a shop with a PostgreSQL of its own, whose changes are captured")
        with postgres() as server, DatabaseShop.on(server) as shop:
            yield shop, {"SHOP_PORT": str(server.port), "SHOP_PASSWORD": server.password}
        return
    say.step(f"a shop whose changes come as files: {why_not}")
    folder = project.home / "shop"
    folder.mkdir()
    _follow_files(tables / "orders.yaml", folder)
    yield FolderShop(folder=folder), {}


def _follow_files(declaration: Path, folder: Path) -> None:
    """Let a declaration read change events of a folder in place of the database."""
    options = {"path": str(folder), "format": "debezium-json", "source.monitor-interval": "1 s"}
    declared = yaml.safe_load(declaration.read_text())
    declared["source"]["stream"] = {"connector": "filesystem", "options": options}
    declaration.write_text(yaml.safe_dump(declared, sort_keys=False))


@dataclass
class _Story:
    """The steps, and what was seen of the table."""

    server: DagsterServer
    catalog: Catalog
    shop: Shop
    say: Narrator
    env: SystemEnv
    # Seconds from the first change of a commit to the commit.
    delays: list[float] = field(default_factory=list)
    most_files: int = 0
    _known: int = 0
    _next_change: int = 0

    def tell(self, seconds: int) -> None:
        """All steps, in order, and the summary."""
        with self.shop.open():
            self.say.step(f"the shop is open for {seconds} s")
            until_ms = self.env.now_ms() + seconds * 1000
            self._until(lambda: self.env.now_ms() >= until_ms or None, seconds * 2, "the evening")
        self.say.step("the shop is closed; the table gets the rest, and is compacted")
        self._until(self._has_all, _WAIT_SECONDS, "the last orders to be in the table")
        self._until(self._is_settled, _WAIT_SECONDS, "revenue and the compaction of orders")
        self._summarize()

    def go_on(self) -> None:
        """Keep the shop open until a person interrupts it."""
        with self.shop.open():
            try:
                while True:
                    self.env.sleep_ms(_POLL_MS)
            except KeyboardInterrupt:
                self.say.line("closed")

    def _until(self, look: Callable[[], object], seconds: int, what: str) -> None:
        until_ms = self.env.now_ms() + seconds * 1000
        while look() is None:
            if self.env.now_ms() > until_ms:
                raise UnavailableError(f"waited {seconds} s for {what}; see {self.server.log}")
            failed = next((run for run in self.server.runs(10) if run.status == "FAILURE"), None)
            if failed is not None:
                raise UnavailableError(
                    f"run {failed.id[:8]} of {failed.job} failed: "
                    f"{self.server.failure_of(failed.id)}"
                )
            self._watch()
            self.env.sleep_ms(_POLL_MS)
        self._watch()

    def _watch(self) -> None:
        """Look at the commits since the last look."""
        if not self.catalog.table_exists(_ORDERS):
            return
        table = self.catalog.table(_ORDERS)
        latest = table.history.latest_snapshot()
        if latest is None or latest.id == self._known:
            return
        for snapshot in table.history.snapshots():
            if snapshot.id <= self._known:
                continue
            last = pc.max(table.at(snapshot=snapshot.id).read(columns=["change"])["change"]).as_py()
            if last is not None and last >= self._next_change:
                first_ms = self.shop.written_ms[self._next_change]
                self.delays.append((snapshot.time_millis - first_ms) / 1000)
                self._next_change = last + 1
        self._known = latest.id
        state = state_of(table)
        self.most_files = max(self.most_files, state.files)
        self.say.note(
            f"{self._next_change:,} of {len(self.shop.written_ms):,} changes are in {_ORDERS}, "
            f"{counted(state.files, 'file')}; the last commit had changes of the last "
            f"{self.delays[-1] if self.delays else 0:.0f} s"
        )

    def _has_all(self) -> object:
        """The table has as many orders as the database, and the last change of one that is left."""
        if not self.catalog.table_exists(_ORDERS):
            return None
        found = self.catalog.table(_ORDERS).read(columns=["change"])["change"]
        last = max(order["change"] for order in self.shop.orders.values())
        return (len(found), pc.max(found).as_py()) == (self.shop.row_count(), last) or None

    def _is_settled(self) -> object:
        """Revenue is of the orders as they are, and the upkeep sensor has compacted them."""
        return (self._revenue() == self.shop.row_count() and self._compactions()) or None

    def _revenue(self) -> int:
        if not self.catalog.table_exists(_REVENUE):
            return 0
        return int(pc.sum(self.catalog.table(_REVENUE).read()["orders"]).as_py() or 0)

    def _compactions(self) -> int:
        runs = self.server.runs()
        return sum(run.verb == COMPACT and run.status == "SUCCESS" for run in runs)

    def _summarize(self) -> None:
        table = self.catalog.table(_ORDERS)
        rows, changes = table.read().num_rows, len(self.shop.written_ms)
        compactions = counted(self._compactions(), "compaction")
        self.say.step("summary")
        median_s, longest_s = median(self.delays), max(self.delays)
        told = {
            "rows": f"{self.shop.row_count():,} in the shop, {rows:,} in {_ORDERS}, after "
            f"{changes:,} changes",
            "delay": f"{median_s:.1f} s in the middle, {longest_s:.1f} s at most, from a change to "
            "its commit",
            "files": f"{self.most_files} at most, {state_of(table).files} after {compactions} that "
            "the upkeep sensor asked for",
            "derived": f"{_REVENUE} adds up to {self._revenue():,} orders",
        }
        for name, line in told.items():
            self.say.line(f"    {name:8} {line}")
