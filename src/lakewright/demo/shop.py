"""The shop of the demo of streams: orders are placed, paid, shipped and cancelled, many a second.

Its database is a PostgreSQL, or a folder of files that tell changes as Debezium does.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

from lakewright.demo.postgres import USER, Postgres
from lakewright.project.report_server import HOST
from lakewright.storage.env import SystemEnv

Order = Mapping[str, Any]
# What happened to an order: before and after.
Change = tuple[Order | None, Order | None]

_PAUSE_SECONDS = 0.25
_CHANGES = 40
# As Debezium names them, by whether the order is new and whether it is gone.
_OPS = {(True, False): "c", (False, False): "u", (False, True): "d"}
_NEXT = {"placed": "paid", "paid": "shipped"}
_CUSTOMERS = ("Ada", "Ben", "Cleo", "Dora", "Emil", "Fay", "Gus", "Hana")


@dataclass
class Shop(ABC):
    """Orders as they are now, and when each change was written."""

    orders: dict[int, Order] = field(default_factory=dict)
    # By the number of the change; the first one has number 0.
    written_ms: list[int] = field(default_factory=list)
    _next_id: int = 1

    @abstractmethod
    def write(self, changes: Sequence[Change]) -> None:
        """Write changes in one transaction."""

    @abstractmethod
    def row_count(self) -> int:
        """How many orders the database has."""

    @contextmanager
    def open(self) -> Iterator[None]:
        """Do business in a thread."""
        closed = threading.Event()

        def work() -> None:
            while not closed.wait(_PAUSE_SECONDS):
                self.trade()

        thread = threading.Thread(target=work, name="shop", daemon=True)
        thread.start()
        try:
            yield
        finally:
            closed.set()
            thread.join()

    def trade(self) -> None:
        """Make a transaction of some changes, of an order one at most."""
        first = len(self.written_ms)
        # Orders of all ages, as their last change is long ago or lately.
        step = max(len(self.orders) // (_CHANGES // 2), 1)
        touched = [*self.orders.values()][first % step :: step][: _CHANGES // 2]
        changes = [self._changed(each) for each in touched]
        changes += [(None, self._placed()) for _ in range(_CHANGES - len(changes))]
        numbered: list[Change] = []
        for before, after in changes:
            number = first + len(numbered)
            numbered.append((before, None if after is None else {**after, "change": number}))
        self.write(numbered)
        self.written_ms += [SystemEnv().now_ms()] * len(numbered)
        for before, after in numbered:
            if after is not None:
                self.orders[after["id"]] = after
            elif before is not None:
                del self.orders[before["id"]]

    def _placed(self) -> Order:
        number, self._next_id = self._next_id, self._next_id + 1
        amount = Decimal(500 + number * 7919 % 49_500) / 100
        customer = _CUSTOMERS[number % len(_CUSTOMERS)]
        return {"id": number, "customer": customer, "state": "placed", "amount": amount}

    def _changed(self, order: Order) -> Change:
        """Each tenth order is cancelled, and a shipped one is complained about."""
        following = _NEXT.get(order["state"])
        if following is None:
            return order, {**order, "customer": f"{order['customer'].split()[0]} (again)"}
        return order, {**order, "state": following} if order["id"] % 10 else None


@dataclass
class DatabaseShop(Shop):
    """A table of a PostgreSQL."""

    client: Any = field(kw_only=True)

    @classmethod
    @contextmanager
    def on(cls, server: Postgres) -> Iterator[DatabaseShop]:
        """The shop of a server, with a database and a table of its own."""
        connect = import_module("psycopg").connect
        given = {"host": HOST, "port": server.port, "user": USER, "password": server.password}
        with connect(**given, dbname="postgres", autocommit=True) as client:
            client.execute(f"CREATE DATABASE {USER}")
        with connect(**given, dbname=USER, autocommit=True) as client:
            client.execute(
                "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT, state TEXT NOT NULL, "
                "amount NUMERIC(10, 2), change BIGINT NOT NULL)"
            )
            yield cls(client=client)

    def write(self, changes: Sequence[Change]) -> None:
        with self.client.transaction(), self.client.cursor() as cursor:
            gone = [{"id": before["id"]} for before, after in changes if before and not after]
            cursor.executemany("DELETE FROM orders WHERE id = %(id)s", gone)
            cursor.executemany(
                "INSERT INTO orders VALUES (%(id)s, %(customer)s, %(state)s, %(amount)s, "
                "%(change)s) ON CONFLICT (id) DO UPDATE SET customer = excluded.customer, "
                "state = excluded.state, change = excluded.change",
                [after for _, after in changes if after is not None],
            )

    def row_count(self) -> int:
        return int(self.client.execute("SELECT count(*) FROM orders").fetchone()[0])


@dataclass
class FolderShop(Shop):
    """A folder that gets a file of changes for each transaction."""

    folder: Path = field(kw_only=True)

    def write(self, changes: Sequence[Change]) -> None:
        events = (
            {"op": _OPS[before is None, after is None], "before": before, "after": after}
            for before, after in changes
        )
        lines = (json.dumps(event, default=str) for event in events)
        name = f"{len(self.written_ms):08d}.json"
        # A file appears whole.
        whole = self.folder.with_name(name)
        whole.write_text("\n".join(lines))
        whole.rename(self.folder / name)

    def row_count(self) -> int:
        return len(self.orders)
