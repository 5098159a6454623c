"""Whatever rows a file holds: each is published, rejected as it is written, or not asked for."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.platform.ingest.publication import AlreadyPublished, Published, Rejected
from lakewright.platform.ingest.publish import WriteOrder, publish
from lakewright.platform.ingest.rejects import rejects_of
from lakewright.platform.ingest.replay_rejects import replay_rejects
from lakewright.platform.ingest.source_files import bad_rows_of
from lakewright.platform.ingest.sources import SourceRequest, find_source
from lakewright.platform.tables.declarations import TableDeclaration, WriteKind
from lakewright.storage import Catalog
from tests.property.test_foreign_input import ONE_FOLDER

DAYS = ["2024-01-01", "2024-01-02"]


@dataclass(frozen=True)
class Row:
    """A row as it stands in a file; `amount` is what it holds if it fits, None if it is bad."""

    text: str
    day: str | None
    amount: int | None
    # What the row is once `-` means null.
    is_null: bool = False


def _csv_row(draw: Any, at: int) -> Row:
    day = draw(st.sampled_from(DAYS))
    name = draw(st.sampled_from(["a", '"b,c"', '"d\ne"', '"f""g"', "", '"h\r\ni"', "ü"]))
    kind = draw(st.sampled_from(["good", "good", "null", "unfit", "long", "short", "day"]))
    match kind:
        case "good":
            return Row(f"{at},{name},{day}", day, at)
        case "null":
            return Row(f"-,{name},{day}", day, None, is_null=True)
        case "unfit":
            return Row(f"x{at},{name},{day}", day, None)
        case "long":
            return Row(f"{at},{name},{day},", None, None)
        case "short":
            return Row(f"{at},{name}", None, None)
    return Row(f"{at},{name},soon", None, None)


@st.composite
def csv_rows(draw: Any) -> list[Row]:
    return [_csv_row(draw, at) for at in range(draw(st.integers(1, 12)))]


def _json_row(draw: Any, at: int) -> Row:
    day = draw(st.sampled_from(DAYS))
    kind = draw(st.sampled_from(["good", "good", "unfit", "broken", "no object", "day"]))
    whole = {"amount": at, "name": draw(st.sampled_from(["a", "\n", "ü"])), "day": day}
    match kind:
        case "good":
            return Row(json.dumps(whole), day, at)
        case "unfit":
            return Row(json.dumps({**whole, "amount": f"x{at}"}), day, None)
        case "broken":
            return Row(json.dumps(whole)[:-1], None, None)
        case "no object":
            return Row(str(at), None, None)
    return Row(json.dumps({**whole, "day": "soon"}), None, None)


@st.composite
def json_rows(draw: Any) -> list[Row]:
    return [_json_row(draw, at) for at in range(draw(st.integers(1, 12)))]


def declared(**source: Any) -> TableDeclaration:
    return TableDeclaration.model_validate(
        {
            "table": "shop.sales",
            "columns": [
                {"name": "amount", "type": "INT"},
                {"name": "name", "type": "STRING"},
                {"name": "day", "type": "DATE NOT NULL"},
            ],
            "partition_keys": ["day"],
            "source": {**source, "on_bad_row": "quarantine", "allow_empty": True},
        }
    )


def no_spark() -> Any:
    raise AssertionError("Spark was asked for")


def run(
    catalog: Catalog,
    declaration: TableDeclaration,
    user: str,
    kind: WriteKind = WriteKind.OVERWRITE,
) -> Published | AlreadyPublished:
    partitions = ({"day": dt.date(2024, 1, 1)},)
    table = catalog.create_table("shop.sales", declaration.schema_spec, if_not_exists=True)
    bad = bad_rows_of(declaration.source)
    source = find_source(declaration)
    request = SourceRequest(
        table=declaration.table,
        partitions=partitions,
        upstream={},
        wants_spark=False,
        session=no_spark,
        bad_rows=bad,
    )
    order = WriteOrder(
        declaration=declaration,
        partitions=partitions,
        commit_user=user,
        kind=kind,
        allow_empty=True,
        bad_rows=bad,
        rejects=rejects_of(catalog, declaration, {}),
        session=no_spark,
    )
    outcome = publish(table, lambda: source(request), order)
    assert not isinstance(outcome, Rejected)
    return outcome


def amounts(catalog: Catalog) -> list[int | None]:
    found = catalog.table("shop.sales").read().to_pylist()
    return sorted((row["amount"] for row in found), key=lambda each: (each is None, each))


def rejected(catalog: Catalog, *states: str) -> list[str]:
    if not catalog.table_exists("shop.sales__rejects"):
        return []
    rows = catalog.table("shop.sales__rejects").read().to_pylist()
    return sorted(row["text"] for row in rows if row["state"] in states)


def check(rows: Sequence[Row], source: dict[str, Any], fixed: dict[str, Any]) -> None:
    with Catalog.temporary() as catalog:
        kept = [row for row in rows if row.amount is None and row.day in (DAYS[0], None)]
        found = [row.amount for row in rows if row.day == DAYS[0]]
        good = sorted(each for each in found if each is not None)
        outcome = run(catalog, declared(**source), "run-1")
        assert amounts(catalog) == good
        assert isinstance(outcome, Published)
        assert outcome.bad_rows == len(kept)
        assert rejected(catalog, "open") == sorted(row.text for row in kept)
        if not kept:
            return
        replayed = replay_rejects(catalog, declared(**source))
        assert replayed.appended == 0
        assert len(replayed.left) == len(kept)
        nulls = [row for row in kept if row.is_null]
        for again in (len(nulls), 0):
            assert replay_rejects(catalog, declared(**fixed)).appended == again
        assert amounts(catalog)[len(good) :] == [None] * len(nulls)
        assert rejected(catalog, "replayed") == sorted(row.text for row in nulls)
        # The next run reads the file again: what it rejects takes the place of what is open.
        run(catalog, declared(**source), "run-2")
        assert amounts(catalog) == good
        assert rejected(catalog, "open") == sorted(row.text for row in kept)


@ONE_FOLDER
@given(
    rows=csv_rows(),
    header=st.booleans(),
    mark=st.booleans(),
    packed=st.booleans(),
    end=st.sampled_from(["\n", "\r\n", "\n\n"]),
)
def test_rows_of_a_csv(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[Row],
    header: bool,
    mark: bool,
    packed: bool,
    end: str,
) -> None:
    names = ["amount,name,day"] if header else []
    text = end.join([*names, *(row.text for row in rows)])
    data = ("\ufeff" if mark else "").encode() + text.encode()
    path = tmp_path_factory.mktemp("rows") / ("a.csv.gz" if packed else "a.csv")
    path.write_bytes(gzip.compress(data) if packed else data)
    source = {"csv": str(path), "header": header}
    check(rows, source, {**source, "nulls": ["-", ""]})


@ONE_FOLDER
@given(rows=json_rows(), packed=st.booleans())
def test_lines_of_json(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], packed: bool
) -> None:
    data = "\n".join(row.text for row in rows).encode()
    path = tmp_path_factory.mktemp("rows") / ("a.json.gz" if packed else "a.json")
    path.write_bytes(gzip.compress(data) if packed else data)
    source = {"json": str(path)}
    check(rows, source, source)


@ONE_FOLDER
@given(rows=json_rows())
def test_elements_of_an_array_of_json(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row]
) -> None:
    whole = [row for row in rows if row.day is not None or "soon" in row.text]
    path = tmp_path_factory.mktemp("rows") / "a.json"
    path.write_text(f"[{', '.join(row.text for row in whole)}]")
    source = {"json": str(path)}
    check(whole, source, source)
