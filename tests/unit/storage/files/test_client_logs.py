"""A root logger at DEBUG does not make clients log signed requests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from lakewright.storage.files.client_logs import keep_secrets_out

# What botocore signs each request with, and logs as it does.
SIGNING = logging.getLogger("botocore.auth")
CLIENT = logging.getLogger("botocore")
TOKEN = "x-amz-security-token:SESSIONTOKEN"


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    level = CLIENT.level
    CLIENT.setLevel(logging.NOTSET)
    yield
    CLIENT.setLevel(level)


def test_a_token_that_a_client_logs_is_not_shown_because_everything_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    keep_secrets_out("s3")
    SIGNING.debug("CanonicalRequest:\n%s", TOKEN)
    SIGNING.info("found credentials in the environment")
    logging.getLogger("somebody.else").debug("heard")
    assert "SESSIONTOKEN" not in caplog.text
    assert "found credentials" in caplog.text
    assert "heard" in caplog.text


def test_a_client_with_a_level_of_its_own_keeps_it(caplog: pytest.LogCaptureFixture) -> None:
    CLIENT.setLevel(logging.DEBUG)
    keep_secrets_out("s3")
    with caplog.at_level(logging.DEBUG):
        SIGNING.debug(TOKEN)
    assert TOKEN in caplog.text
