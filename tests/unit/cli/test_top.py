"""`lakewright top` and `lakewright trend`: what is seen of a warehouse, now and over time."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lakewright.cli.output.live import show_live
from lakewright.cli.output.tables import Block
from lakewright.platform.decide.kept_tables import KeptTables
from lakewright.platform.decide.overview import Overviews
from lakewright.platform.decide.surveys import Surveys
from lakewright.platform.decide.trend import sparkline, trends
from lakewright.platform.decide.upkeep_state import read_state
from lakewright.platform.policies.policy_watch import PolicyFiles
from lakewright.storage import Catalog, LeaseKind, Table
from lakewright.storage.errors import StorageError, UnavailableError
from lakewright.storage.operations.leases.leases import LeaseRequest, acquire_lease, whole_table
from tests.support.tables.builders import new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.unit.cli.conftest import Lakewright


def neglected(catalog: Catalog, name: str, files: int) -> Table:
    table = new_table(catalog, {"k": "INT"}, name=name)
    for number in range(files):
        table.write(rows(table, [{"k": number}]))
    return table


def policy(folder: Path, text: str = "") -> str:
    file = folder / "policy.yaml"
    file.write_text(
        "warehouse:\n  compaction: {min_bytes: 0 b, small_files: 5}\n"
        "  snapshots: {enabled: false}\n"
        f"  orphans: {{enabled: false}}\n{text}"
    )
    return str(file)


def test_a_frame_has_debt_reasons_workers_and_actions(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    neglected(catalog, "db.done", 6)
    written = policy(tmp_path)
    lakewright(catalog, "upkeep", "--policy", written)
    busy = neglected(catalog, "db.worse", 8)
    request = LeaseRequest(
        kind=LeaseKind.COMPACT, scope=whole_table(busy.table_files), holder="a run", owner="o"
    )
    neglected(catalog, "db.waits", 6)
    catalog.env.clock.now_ms = 4_000_000_000_000  # type: ignore[attr-defined]
    acquire_lease(busy.table_files, request)
    policy(tmp_path, "tables: {db.waits: {compaction: {hours: '00:00-00:01'}}}\n")

    frame = lakewright(catalog, "top", "--policy", written, "--once")

    lines = [line for line in frame.lines if line.startswith("db.")]
    assert [line.split()[0] for line in lines[:2]] == ["db.worse", "db.waits"]
    assert "due: compact" in lines[0]
    assert "the table: 8 small files ≥ 5: compact" in lines[0]
    assert "out of hours" in lines[1]
    assert "db.worse: compact by a run" in frame.lines
    assert any("db.done" in line and "done" in line for line in frame.lines)
    (worse,) = [
        each
        for each in lakewright(catalog, "top", "--policy", written, "--format", "json").json[
            "tables"
        ]
        if each["table"] == "db.worse"
    ]
    assert (worse["debt_files"], worse["due"][0]["verb"]) == (8, "compact")


def test_debt_for_which_nothing_is_due_says_why(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    neglected(catalog, "db.few", 4)
    off = "tables: {db.off: {compaction: {enabled: false}}}\n"
    neglected(catalog, "db.off", 8)

    frame = lakewright(catalog, "top", "--policy", policy(tmp_path, off), "--once")

    told = {line.split()[0]: line for line in frame.lines if line.startswith("db.")}
    assert "disabled: compact: is switched off by its policy" in told["db.off"]
    assert "not due: 4 small files to join" in told["db.few"]


def test_an_unchanged_table_is_not_surveyed_again(catalog: Catalog, tmp_path: Path) -> None:
    table = neglected(catalog, "db.a", 6)
    kept = KeptTables(files=PolicyFiles([policy(tmp_path)]), adopted=("db.*",))
    overviews = Overviews(catalog, kept)
    first = overviews.look()
    state = overviews._watch.state("db.a")  # type: ignore[union-attr]
    assert overviews.look().tables == first.tables
    assert overviews._watch.state("db.a") is state  # type: ignore[union-attr]
    table.write(rows(table, [{"k": 9}]))
    assert overviews.look().tables[0].debt.files == first.tables[0].debt.files + 1


def test_a_dropped_ledger_is_forgotten_and_one_that_fails_is_read_again(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    neglected(catalog, "db.a", 6)
    written = policy(tmp_path)
    lakewright(catalog, "upkeep", "--policy", written)
    kept = KeptTables(files=PolicyFiles([Path(written)]), adopted=("db.*",))
    overviews = Overviews(catalog, kept)
    (manifest,) = {path.parent for path in tmp_path.rglob("ledger/manifest/manifest-*")}
    manifest.rename(manifest.with_name("away"))
    with pytest.raises(StorageError):
        overviews.look()
    manifest.with_name("away").rename(manifest)
    assert [each.table for each in overviews.look().actions] == ["db.a"]
    catalog.drop_table("lakewright.ledger")
    assert overviews.look().actions == ()


def test_a_live_view_outlives_a_look_that_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    looks: Iterator[Sequence[Block]] = iter([["all is well"]])

    def frame() -> Sequence[Block]:
        for blocks in looks:
            return blocks
        raise UnavailableError("the store is away")

    class Twice(FixedEnv):
        def sleep_ms(self, duration_ms: float) -> None:
            super().sleep_ms(duration_ms)
            if len(self.slept_ms) == 2:
                raise KeyboardInterrupt

    show_live(frame, Twice(), every_ms=1)
    shown = capsys.readouterr().out
    assert "not looked: the store is away" in shown
    assert shown.count("all is well") == 2


def test_the_live_view_ends_with_q_and_leaves_the_terminal_as_it_was(
    catalog: Catalog, tmp_path: Path
) -> None:
    neglected(catalog, "db.a", 6)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "lakewright.cli", "--warehouse", catalog.uri, "top"]
    command += ["--policy", policy(tmp_path)]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, env=environment) as viewer:
        shown = b""
        while b"small files" not in shown:
            assert select.select([ours], [], [], 60)[0], shown
            shown += os.read(ours, 65536)
        os.write(ours, b"q")
        while viewer.poll() is None:
            if select.select([ours], [], [], 1)[0]:
                shown += os.read(ours, 65536)
        assert viewer.returncode == 0
        # The alternate screen is left again.
        assert b"\x1b[?1049l" in shown
    os.close(ours)
    os.close(theirs)


def test_history_shows_debt_over_time(catalog: Catalog, lakewright: Lakewright) -> None:
    table, surveys = neglected(catalog, "db.a", 2), Surveys(catalog)
    assert "nothing was recorded" in lakewright(catalog, "trend").out
    for _ in range(3):
        surveys.record([read_state(catalog, "db.a", now_ms=0)])
        table.write(rows(table, [{"k": 1}]))
        table.write(rows(table, [{"k": 2}]))
    (line,) = lakewright(catalog, "trend", "--since", "9999d").lines[2:]
    assert line.split()[0] == "db.a"
    assert line.split()[-1] == "3"
    told = lakewright(catalog, "trend", "db.a", "--since", "9999d", "--format", "json").json
    assert [each["debt_files"] for each in told] == [2, 4, 6]
    lakewright(catalog, "trend", "db.b", code=3)
    (trend,) = trends(surveys.figures()).values()
    assert (trend.debt(3)[0], trend.debt(3)[-1], trend.debt(1)) == (2, 6, [2])
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([0, 0]) == "▁▁"


def test_the_trend_of_a_table_that_cannot_be_read_shows_no_figures(
    unchecked_catalog: Catalog, lakewright: Lakewright
) -> None:
    catalog = unchecked_catalog
    table, surveys = neglected(catalog, "db.a", 2), Surveys(catalog)
    surveys.record([read_state(catalog, "db.a", now_ms=0)])
    Path(table.table_files.paths.snapshot(2)).write_text("{")
    surveys.record([read_state(catalog, "db.a", now_ms=1_000_000)])

    (line,) = lakewright(catalog, "trend", "--since", "9999d").lines[2:]

    assert line.split() == ["db.a", "cannot", "be", "read", "-", "-", "-", "-", "-", "2"]
    lines = lakewright(catalog, "trend", "db.a", "--since", "9999d").lines
    assert "cannot be read" not in lines[-2]
    assert "cannot be read" in lines[-1]
    told = lakewright(catalog, "trend", "db.a", "--since", "9999d", "--format", "json").json
    assert [each["is_readable"] for each in told] == [True, False]
