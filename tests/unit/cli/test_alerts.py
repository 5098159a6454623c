"""Alerts of `lakewright upkeep`: each state is told once, and no secret is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewright.platform.decide.surveys import ALERTS
from lakewright.storage import Catalog, Table
from tests.support.processes.alert_receivers import mail_server, webhook
from tests.support.tables.builders import new_table, rows
from tests.unit.cli.conftest import Lakewright

_QUIET = "compaction: {enabled: false}, snapshots: {enabled: false}, orphans: {enabled: false}"


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """A warehouse of now, as the command knows the time of the machine alone."""
    return Catalog.open(str(tmp_path / "warehouse"))


def write(table: Table, files: int) -> None:
    for number in range(files):
        table.write(rows(table, [{"k": number}]))


def policy(folder: Path, alerts: str, upkeep: str = _QUIET) -> str:
    file = folder / "policy.yaml"
    file.write_text(f"warehouse: {{{upkeep}, alerts: {{{alerts}}}}}\n")
    return str(file)


def standing(catalog: Catalog) -> list[tuple[str, str]]:
    found = catalog.table(ALERTS).read().to_pylist()
    return sorted((each["table_name"], each["event"]) for each in found)


def test_a_poor_state_is_told_once_and_again_only_after_it_was_good(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(catalog, {"k": "INT"}, name="db.orders")
    write(table, 50)
    written = policy(tmp_path, "webhook: '${OUR_HOOK}'")
    with webhook() as (url, texts):
        monkeypatch.setenv("OUR_HOOK", url)
        lakewright(catalog, "upkeep", "--policy", written, "--dry-run")
        assert texts == []
        for _ in range(2):
            told = lakewright(catalog, "upkeep", "--policy", written)
            assert not told.err
        (text,) = texts
        assert text.splitlines()[1:] == [
            "db.orders poor state: a reader opens up to 50 small files of one bucket"
        ]
        assert standing(catalog) == [("db.orders", "poor")]
        # A second table is another state.
        write(new_table(catalog, {"k": "INT"}, name="db.<others>"), 50)
        lakewright(catalog, "upkeep", "--policy", written)
        assert [each.splitlines()[1].split()[0] for each in texts[1:]] == ["db.&lt;others&gt;"]
        lakewright(catalog, "compact", "db.orders", "--full")
        lakewright(catalog, "upkeep", "--policy", written)
        assert standing(catalog) == [("db.<others>", "poor")]
        write(catalog.table("db.orders"), 50)
        lakewright(catalog, "upkeep", "--policy", written)
        assert len(texts) == 3


def test_failing_upkeep_and_a_table_that_cannot_be_read_are_told(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(catalog, {"k": "INT"}, name="db.broken")
    write(table, 6)
    for file in Path(table.location.removeprefix("file://")).rglob("data-*"):
        file.write_bytes(b"no file of a table")
    unreadable = new_table(catalog, {"k": "INT"}, name="db.damaged")
    write(unreadable, 1)
    Path(unreadable.table_files.paths.snapshot(1)).write_text("{")
    due = "compaction: {min_bytes: 0 b}, snapshots: {enabled: false}, orphans: {enabled: false}"
    written = policy(tmp_path, "webhook: '${OUR_HOOK}'", due)
    with webhook() as (url, texts):
        monkeypatch.setenv("OUR_HOOK", url)
        lakewright(catalog, "upkeep", "--policy", written, code=5)
        lakewright(catalog, "upkeep", "--policy", written)
    (text,) = texts
    assert "db.broken compact does not come through: " in text
    assert "db.damaged cannot be read: " in text


def test_a_spent_budget_is_told_once_a_day(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = "compaction: {min_bytes: 0 b}, snapshots: {enabled: false}, orphans: {enabled: false}"
    first = new_table(catalog, {"k": "INT"}, name="db.first")
    write(first, 6)
    written = policy(tmp_path, "webhook: '${OUR_HOOK}'", f"{due}, budget: {{bytes: 5 kb}}")
    with webhook() as (url, texts):
        monkeypatch.setenv("OUR_HOOK", url)
        lakewright(catalog, "upkeep", "--policy", written)
        write(new_table(catalog, {"k": "INT"}, name="db.second"), 6)
        lakewright(catalog, "upkeep", "--policy", written)
        lakewright(catalog, "upkeep", "--policy", written)
    (text,) = texts
    assert "1 verb over a budget of the day: " in text
    assert "db.second: the table: 6 small files" in text


def test_a_failed_delivery_is_a_warning_without_a_secret_and_is_made_up_for(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(new_table(catalog, {"k": "INT"}, name="db.orders"), 50)
    written = policy(
        tmp_path,
        "webhook: '${OUR_HOOK}', mail_server: '${OUR_MAIL}', mail_from: a@b.org, "
        "mail_to: [c@d.org]",
    )
    with webhook(status=500) as (url, _), mail_server() as (address, messages):
        monkeypatch.setenv("OUR_HOOK", url)
        # The server has no TLS, and a password goes over no open line.
        monkeypatch.setenv("OUR_MAIL", f"smtp://us:secret-of-mail@{address}")
        told = lakewright(catalog, "upkeep", "--policy", written)
        assert "${OUR_HOOK} did not take an alert: HTTP 500" in told.err
        assert "${OUR_MAIL} did not take an alert: SMTPNotSupportedError" in told.err
        assert "secret" not in told.err + told.out
        assert messages == []
        monkeypatch.setenv("OUR_MAIL", f"smtp://{address}")
        assert "OUR_HOOK" in lakewright(catalog, "upkeep", "--policy", written).err
        (message,) = messages
        assert "To: c@d.org" in message
        assert "db.orders poor state" in message
        # One of the two took it.
        assert lakewright(catalog, "upkeep", "--policy", written).err == ""
    explained = lakewright(catalog, "explain", "db.orders", "--policy", written)
    assert "secret" not in explained.out


def test_an_unset_variable_is_named_and_events_are_chosen(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(new_table(catalog, {"k": "INT"}, name="db.orders"), 50)
    monkeypatch.delenv("OUR_HOOK", raising=False)
    told = lakewright(catalog, "upkeep", "--policy", policy(tmp_path, "webhook: '${OUR_HOOK}'"))
    assert "the environment has no OUR_HOOK" in told.err
    written = policy(tmp_path, "webhook: '${OUR_HOOK}', events: [budget]")
    assert lakewright(catalog, "upkeep", "--policy", written).err == ""
    assert not catalog.table_exists(ALERTS)


def test_an_address_in_a_file_is_refused_without_being_repeated(
    lakewright: Lakewright, tmp_path: Path
) -> None:
    wrong = policy(tmp_path, "webhook: 'https://hooks.example/secret'")
    told = lakewright(None, "check", wrong, code=2)
    assert "write ${NAME}" in told.out + told.err
    assert "secret" not in told.out + told.err
    half = lakewright(None, "check", policy(tmp_path, "mail_to: [a@b.org]"), code=2)
    assert "mail needs all of mail_server, mail_from and mail_to" in half.out + half.err


def test_an_address_in_place_of_the_section_is_refused_and_not_repeated(
    lakewright: Lakewright, tmp_path: Path
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("warehouse: {alerts: 'https://hooks.example/s3cret'}\n")
    ended = lakewright(None, "check", str(file), code=2)
    assert "is not a mapping of keys to values" in ended.out + ended.err
    assert "s3cret" not in ended.out + ended.err
