"""Secrets in texts: what is refused, what is hidden, and what is left as it is."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage.errors import InvalidOption, InvalidRows, StorageError
from lakewright.storage.secret_texts import (
    covered_text,
    kept_secret,
    shown_option,
    shown_text,
    shown_value,
    without_secrets,
)
from lakewright.storage.spec.kept_secrets import check_no_secret
from tests.support.values.kept_secrets import ENCODED, HARMLESS, MARK, SECRETS


def has_secret(text: str) -> bool:
    return any(each in text for each in (MARK, *ENCODED))


@pytest.mark.parametrize(("name", "value"), SECRETS, ids=range(len(SECRETS)))
def test_a_secret_is_found_and_hidden_however_it_is_written(name: str, value: str) -> None:
    with pytest.raises(InvalidOption, match="holds a secret") as refused:
        check_no_secret({name: value}, "db.t")
    assert not has_secret(refused.value.message)
    assert not has_secret(shown_option(name, value))
    assert not has_secret(str(shown_value({"options": {name: value}})))
    assert not has_secret(str(shown_value({"set": [f"{name}={value}"]})))


@pytest.mark.parametrize(("name", "value"), SECRETS, ids=range(len(SECRETS)))
def test_no_error_shows_a_secret_in_a_definition(name: str, value: str) -> None:
    quoted = value.replace("'", "''")
    said = f"at line 1: '{name}' = '{quoted}' is wrong; correct it"
    error = StorageError(said)
    assert not has_secret(f"{error} {error.message} {error!r} {without_secrets(said)}")
    covered = covered_text(said)
    assert not has_secret(covered)
    # The place of what follows is pointed at.
    assert len(covered) == len(said)


@pytest.mark.parametrize(("name", "value"), HARMLESS, ids=range(len(HARMLESS)))
def test_what_holds_no_secret_stays_as_it_is(name: str, value: str) -> None:
    assert kept_secret(name, value) is None
    assert shown_option(name, value) == value
    assert shown_value({name: value}) == {name: value}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no answer of https://h/a?page=1: timed out", "no answer of https://h/a?***: timed out"),
        ("see https://h:8/a?x=1&y=2, or s3://b/a?b", "see https://h:8/a?***, or s3://b/a?b"),
        ("sftp://me@host/ cannot be reached", "sftp://me@host/ cannot be reached"),
        ("postgresql://u:a/b@h/db: no such host", "postgresql://***@h/db: no such host"),
        ("token=a.b is wrong", "token=*** is wrong"),
        ("row {'id': 1, 'token': 'abc', 'n': 2}", "row {'id': 1, 'token': '***', 'n': 2}"),
        ("give it 'header.Authorization' = 'Bearer ${env:NAME}'",) * 2,
        ("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or bucket-key=id",) * 2,
        ("write jdbc:postgresql://host:port/database?key=value",) * 2,
    ],
    ids=range(9),
)
def test_a_text_keeps_what_is_no_secret(text: str, shown: str) -> None:
    assert shown_text(text) == shown
    assert InvalidRows(text).message == shown


@pytest.mark.parametrize(
    ("name", "value", "variable"),
    [
        ("path", "https://h/c?sig=hunter2", "PATH_SIG"),
        ("url", "postgresql://u:hunt/er2@h/db", "URL_PASSWORD"),
        ("properties.ssl.key.pem", "hunter2", "PROPERTIES_SSL_KEY_PEM"),
        ("password", "hunter2", "PASSWORD"),
        # These are set for something else, or may be.
        ("home-token", "hunter2", "HOME_TOKEN"),
        ("pwd", "hunter2", "S_B_PWD"),
        ("taken.password", "hunter2", "S_B_TAKEN_PASSWORD"),
    ],
)
def test_the_variable_that_is_advised_is_none_of_another_use(
    name: str, value: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PASSWORD", raising=False)
    monkeypatch.setenv("TAKEN_PASSWORD", "of another")
    with pytest.raises(InvalidOption) as refused:
        check_no_secret({name: value}, "the source of s.b")
    found = re.search(r"write '\$\{env:(\w+)\}'", refused.value.message)
    assert found is not None
    assert found[1] == variable
    assert found[1] not in os.environ


@given(st.text(st.characters(codec="ascii", exclude_categories=("Cc",)), min_size=1, max_size=12))
def test_no_password_of_an_address_is_shown(word: str) -> None:
    password = f"hunt{word}"
    for url in (f"postgresql://u:{password}@h/db", f"jdbc:mysql://u:{password}@h:1/db?x=1"):
        assert kept_secret("url", url) is not None
        assert MARK not in shown_option("url", url)
        assert MARK not in StorageError(f"cannot connect to {url} now").message
