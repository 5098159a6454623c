"""The demo's changes of partition keys, forth and back: what other clients read at each moment."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakewright.demo import nycflights
from lakewright.demo.hourly_weather import HOURLY_WEATHER, december_weather
from lakewright.demo.hourly_weather import KEYS as HOURS
from lakewright.demo.partition_keys import FINER_KEYS, FORMER_KEYS, keys_to_give
from lakewright.storage import Catalog, Table
from tests.interop.test_changed_partition_keys import has_wide_rows, moments
from tests.interop.test_they_read_ours import as_texts
from tests.oracles.arrow_values import canonical_rows
from tests.oracles.client import JavaOracle, Oracle, OracleError, WritingOracle


@dataclass(frozen=True)
class Changed:
    """A table of the demo, and the keys that it gets and loses again."""

    name: str
    rows: Callable[[], pa.Table]
    keys: tuple[str, ...]
    # What its last days come to, each in a file; the first of them is split before the others.
    days: int

    def made(self, catalog: Catalog) -> Table:
        rows = self.rows()
        days = pc.unique(rows.column("dt")).sort()[-self.days :]
        rows = rows.filter(pc.is_in(rows.column("dt"), days))
        table = catalog.create_table(self.name, rows.schema, partition_keys=FORMER_KEYS)
        table.write(rows)
        return table

    def steps(self, catalog: Catalog, folder: Path) -> list[tuple[str, list[Path]]]:
        """Take the demo's steps; what each is, with a copy of the warehouse at each moment."""
        table = catalog.table(self.name)
        first = [{"dt": pc.min(table.read(columns=["dt"]).column("dt")).as_py()}]
        taken = []
        for keys in keys_to_give(table, self.keys):
            parts = (first, None) if keys == self.keys else (None,)
            for number, part in enumerate(parts):
                what = f"to {', '.join(keys)}" + (", a day is split" if part else "")
                into = folder / f"{len(keys)}-{number}"
                table, copies = moments(catalog, table, keys, into, partitions=part)
                taken.append((what, copies))
        assert not keys_to_give(table, self.keys)
        return taken


def december_flights() -> pa.Table:
    rows = nycflights.flights()
    return rows.filter(pc.greater_equal(rows.column("dt"), "2013-12-01"))


FLIGHTS = Changed("nyc.flights", december_flights, FINER_KEYS, 2)
WEATHER = Changed(HOURLY_WEATHER, december_weather, HOURS, 2)


def digest(rows: Sequence[str]) -> tuple[int, str]:
    """How many rows these are, and a checksum of their values."""
    return len(rows), hashlib.sha256("\n".join(rows).encode()).hexdigest()


@pytest.mark.interop
@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(FLIGHTS, id="flights of two days"),
        pytest.param(WEATHER, id="weather of two days"),
        pytest.param(replace(FLIGHTS, days=31), id="flights of December", marks=pytest.mark.deep),
        pytest.param(replace(WEATHER, days=30), id="weather of December", marks=pytest.mark.deep),
    ],
)
@pytest.mark.mission("PT1", "PT2", "PT3", "SE6", "SE15", "SE16")
@pytest.mark.sampled(1)
def test_others_read_the_rows_before_amid_and_after_the_changes_forth_and_back(
    catalog: Catalog,
    tmp_path: Path,
    changed: Changed,
    java: JavaOracle,
    java_latest: Oracle,
    released_pypaimon: WritingOracle,
    rust: Oracle,
) -> None:
    """Java 0.9 reads while files lie where the keys say, and the rust client no wide rows.

    Each day is one file, and the first one is split alone.
    """
    table = changed.made(catalog)
    due = digest(as_texts(canonical_rows(table.read())))
    seen: dict[str, list[str]] = {}
    for what, copies in changed.steps(catalog, tmp_path / "copies"):
        for copy in copies:
            at = replace(catalog, root=str(copy)).table(changed.name)
            seen.setdefault(what, []).append(moment_of(at))
            for reader in (released_pypaimon, java_latest, rust, java):
                refusal = REFUSALS.get((reader.name, seen[what][-1]))
                if refusal is None:
                    read = digest(as_texts(reader.read(copy, changed.name)))
                    assert read == due, f"{reader.name}, {what}, moment {copy.name}"
                else:
                    with pytest.raises(OracleError, match=refusal):
                        reader.read(copy, changed.name)
    finer = ", ".join(changed.keys)
    assert seen == {
        f"to {finer}, a day is split": [FORMER],
        f"to {finer}": [FORMER, FORMER_WIDE, FINER, FINER],
        "to dt": [FINER, FORMER_WIDE, FORMER],
    }


# What a moment is like: the keys that the table has, and whether its rows have more values.
FORMER, FORMER_WIDE, FINER = "former keys", "former keys, wide rows", "finer keys"
REFUSALS = {
    ("rust", FORMER_WIDE): "does not match row arity",
    # It takes the folder of a file from the keys, and the files lie where they lay before.
    ("java", FINER): "FileNotFound",
}


def moment_of(table: Table) -> str:
    if table.schema.partition_keys != FORMER_KEYS:
        assert not has_wide_rows(table)
        return FINER
    return FORMER_WIDE if has_wide_rows(table) else FORMER
