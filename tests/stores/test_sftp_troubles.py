"""A SFTP server that ends, and one that does not know the user."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
from fsspec.config import conf

from lakewright.storage import Catalog
from lakewright.storage.errors import (
    AccessRefused,
    CredentialsMissing,
    UnavailableError,
    UnsupportedError,
)
from lakewright.storage.files.clients import forget_clients
from lakewright.storage.files.file_systems import open_file_system
from tests.support.stores.servers import SECRET, sftp_server
from tests.support.tables.builders import EVENTS, compact, events, expire, new_table, rows
from tests.support.tables.invariants import assert_sound


def test_a_server_that_is_started_again_is_reached_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(conf, "sftp", {"password": SECRET})
    (tmp_path / "x").write_bytes(b"1")
    with sftp_server(tmp_path) as address:
        fs, root = open_file_system(f"sftp://{address}/")
        assert fs.read_bytes(f"{root}x") == b"1"
    with pytest.raises(UnavailableError):
        fs.exists(f"{root}x")
    with pytest.raises(UnavailableError):
        fs.list_dir(root)
    with sftp_server(tmp_path, port=int(address.rpartition(":")[2])):
        assert fs.read_bytes(f"{root}x") == b"1"
    forget_clients()


def test_a_table_is_written_and_kept_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(conf, "sftp", {"password": SECRET})
    (tmp_path / "files").mkdir()
    with sftp_server(tmp_path / "files") as address:
        catalog = Catalog.open(f"sftp://{address}/w", lock=f"sqlite://{tmp_path}/lock")
        table = new_table(catalog, EVENTS, keys=["id"], options={"bucket": "1"})
        for first in (0, 5, 10):
            table.write(rows(table, events(first, first + 10)))
        compact(table, full=True)
        expire(table)
        assert sorted(table.read().column("id").to_pylist()) == list(range(20))
        assert_sound(table)
    forget_clients()


def test_a_user_whom_the_server_does_not_know_is_refused_and_the_password_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(conf, "sftp", {"password": "another-secret", "look_for_keys": False})
    with sftp_server(tmp_path) as address:
        fs, root = open_file_system(f"sftp://{address}/")
        with pytest.raises(AccessRefused) as caught:
            fs.exists(f"{root}x")
        assert "another-secret" not in "".join(traceback.format_exception(caught.value))
        monkeypatch.setitem(conf, "sftp", {"look_for_keys": False, "allow_agent": False})
        with pytest.raises(CredentialsMissing):
            fs.exists(f"{root}x")
    forget_clients()


def test_a_table_whose_folder_is_a_link_is_not_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(conf, "sftp", {"password": SECRET})
    (tmp_path / "files").mkdir()
    with sftp_server(tmp_path / "files") as address:
        catalog = Catalog.open(f"sftp://{address}/w", lock=f"sqlite://{tmp_path}/lock")
        table = new_table(catalog)
        table.write(rows(table, events(0, 3)))
        own = tmp_path / "files" / "w" / "db.db" / "t"
        own.rename(tmp_path / "files" / "real")
        own.symlink_to(tmp_path / "files" / "real")
        fs, root = open_file_system(f"sftp://{address}/w")
        links = [f"{root}/db.db/t"]
        assert fs.list_links(f"{root}/db.db") == fs.list_links(root, at_any_depth=True) == links
        assert fs.list_tree(root) == []
        with pytest.raises(UnsupportedError, match=r"is a symbolic link, .* nothing was deleted"):
            catalog.drop_table("db.t")
        assert catalog.table("db.t").read().num_rows == 3
    forget_clients()
