"""The logs of tables on a real broker: published after each commit, once, and read behind it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakewright.connectors.log import relay
from lakewright.session import Session
from lakewright.storage import Catalog
from tests.stores.test_kafka import messages_of
from tests.support.stores.servers import kafka_server

pytestmark = pytest.mark.stores

_NUMBERS = itertools.count(1)
_KEYED = "id BIGINT NOT NULL, name STRING, PRIMARY KEY (id) NOT ENFORCED"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_server(tmp_path_factory.mktemp("kafka")) as address:
        yield address


@pytest.fixture
def session(tmp_path: Path) -> Session:
    session = Session(Catalog.open(str(tmp_path / "warehouse")))
    session.sql("CREATE DATABASE d")
    return session


def new_table(session: Session, broker: str, columns: str = _KEYED, **options: str) -> str:
    """A table with a log, whose topic is called as it is."""
    name = f"d.t{next(_NUMBERS)}"
    given = {"bucket": "2", "log.system": "kafka", "log.bootstrap.servers": broker, **options}
    text = ", ".join(f"'{each}' = '{value}'" for each, value in given.items())
    session.sql(f"CREATE TABLE {name} ({columns}) WITH ({text})")
    return name


def headers(message: Any) -> dict[str, bytes]:
    return dict(message.headers())


def state_of(broker: str, topic: str) -> dict[Any, Any]:
    """The rows of an upsert log, by their keys."""
    rows = {}
    for each in messages_of(broker, topic):
        key = each.key()
        if each.value() is None:
            rows.pop(key, None)
        else:
            rows[key] = json.loads(each.value())
    return rows


@pytest.mark.mission("LG1", "LG2", "LG4", "LG6")
def test_each_commit_is_in_the_log_with_its_snapshot(session: Session, broker: str) -> None:
    name = new_table(session, broker)
    session.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    session.sql(f"INSERT INTO {name} VALUES (1, 'c'); DELETE FROM {name} WHERE id = 2")
    told = messages_of(broker, name)
    assert state_of(broker, name) == {b'{"id":1}': {"id": 1, "name": "c"}}
    assert sorted(int(headers(each)["lakewright-snapshot"]) for each in told) == [1, 1, 2, 3]
    assert relay(session.catalog.table(name)).commits == 0
