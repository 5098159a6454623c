"""URLs of databases: what they name, and that no secret in one is taken or repeated."""

from __future__ import annotations

import pytest

from lakewright.storage.errors import InvalidRequestError, UnsupportedError
from lakewright.storage.files.databases import PostgresDatabase, SqliteDatabase, open_database

HIDDEN = "hidden-secret"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://keeper:hidden-secret@host/db",
        "postgresql://keeper:s/hidden-secret@host/db",
        "postgresql://keeper:s#hidden-secret@host/db",
        "postgresql://keeper:s?hidden-secret@host/db",
        "postgresql://keeper:1/hidden-secret@host/db",
        "postgresql://keeper:1?a=hidden-secret@host/db",
        "postgresql://keeper:s@hidden-secret@host/db",
        "postgresql://keeper%3Ahidden-secret@host/db",
        "postgresql://host,keeper:hidden-secret@host/db",
        "postgresql://:hidden-secret@host/db",
        "postgresql://keeper:hidden-secret/db",
        "postgresql://host/db?password=hidden-secret",
        "postgresql://host/db?user=keeper&PASSWORD=hidden-secret",
        "postgresql://host/db?p%61ssword=hidden-secret",
        "postgresql://host/db?sslpassword=hidden-secret",
        "postgresql://host/db?oauth_client_secret=hidden-secret",
        "postgresql://host/db?host=h;password=hidden-secret",
        "postgresql://host/db?options=-c%20my.password%3Dhidden-secret",
        "postgresql://host/db#?password=hidden-secret",
        "postgresql://host/db?hidden-secret",
        "postgresql:keeper:hidden-secret@host/db",
        "POSTGRESQL://keeper:hidden-secret@host/db",
        " postgresql://keeper:hidden-secret@host/db",
        "postgres://keeper:hidden-secret@host/db",
    ],
)
@pytest.mark.parametrize("java", ["", "jdbc:"])
def test_a_url_that_holds_a_secret_in_any_place_is_refused_without_it(url: str, java: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"PGPASSFILE|unknown kind") as caught:
        open_database(java + url, use="catalog")
    assert HIDDEN not in repr(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:jdbc:postgresql://keeper:hidden-secret@host/db",
        "mysql://keeper:s/hidden-secret@host/db",
        "mysql://keeper:s#hidden-secret@host/db",
        "sqlite:///a?password=hidden-secret",
        "sqlite://keeper:hidden-secret@host/x",
        "sqlite://[hidden-secret",
        "hidden-secret",
        "sqlite:hidden-secret",
        "sqlite:///",
        "sqlite:",
        "",
    ],
)
def test_what_names_no_database_is_refused_by_its_scheme_alone(url: str) -> None:
    with pytest.raises(
        InvalidRequestError, match="of an unknown kind; write sqlite:///path"
    ) as got:
        open_database(url, use="catalog")
    assert HIDDEN not in repr(got.value)


@pytest.mark.parametrize("url", ["sqlite:///a/b c", "sqlite:////a/b c", "jdbc:sqlite:/a/b c"])
def test_a_file_is_named_by_its_whole_path(url: str) -> None:
    assert open_database(url, use="lock") == SqliteDatabase("/a/b c")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://host/db",
        "postgres://keeper@host:5432/db?sslmode=require&application_name=x%40y",
        "postgresql:///db?host=/var/run/postgresql",
        "postgresql://keeper%40tenant@a:1,b:2/db?sslkey=/etc/keeper.key",
        "postgresql://[::1]:5432/db",
        "postgresql://%2Ftmp/db",
        "postgresql://host",
    ],
)
def test_a_server_is_named_in_each_form_without_a_secret(url: str) -> None:
    for given in (url, f"jdbc:{url}"):
        try:
            assert open_database(given, use="lock") == PostgresDatabase(url)
        except UnsupportedError as error:
            # The URL was taken, and the client is an extra.
            assert "lakewright[postgres]" in error.message  # noqa: PT017 - it need not be raised
