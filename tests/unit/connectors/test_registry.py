"""The registry: which connectors and formats there are, and who brings them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lakewright.cli import main
from lakewright.connectors.registry import CONNECTORS, FORMAT_GROUP, Registry, installed
from lakewright.session import Session
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRequestError, NotFoundError
from tests.unit.connectors.doubles import Memory


def distribution(folder: Path, name: str, points: str, code: str = "") -> None:
    """An installed distribution: its metadata, and a module."""
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(points)
    (folder / f"{name.replace('-', '_')}.py").write_text(code)


_WEATHER = """
from lakewright.connectors.factories import DynamicTableFactory
from lakewright.connectors.runtime import BoundedScan

class Weather(DynamicTableFactory):
    identifier = "weather"
    description = "degrees by day"

    def create_source(self, context):
        raise NotImplementedError
"""


@pytest.mark.mission("CN11", "CN16", "CN2")
def test_a_connector_is_found_by_the_entry_point_of_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = "[lakewright.connectors]\nweather = lw_weather_a:Weather\n"
    distribution(tmp_path, "lw-weather-a", points, _WEATHER)
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry()
    assert registry.source("weather").identifier == "weather"
    assert registry.entries(CONNECTORS, "weather")[0].distribution == "lw-weather-a"
    assert {"blackhole", "datagen", "filesystem", "jdbc", "print", "socket"} <= {
        *registry.connectors()
    }
    sys.modules.pop("lw_weather_a")


@pytest.mark.mission("CN17", "CN33")
def test_an_unknown_name_lists_what_there_is_and_who_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = "[lakewright.formats]\nyaml = lw_yaml:Yaml\n"
    distribution(tmp_path, "lw-yaml", points)
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry()
    with pytest.raises(NotFoundError) as told:
        registry.decoding("jsn")
    message = told.value.message
    assert "no installed package brings format 'jsn'; did you mean json?" in message
    assert "yaml (lw-yaml)" in message
    assert "an entry point of group lakewright.formats" in message
    with pytest.raises(NotFoundError, match="yaml of lw-yaml is lw_yaml:Yaml, which cannot be"):
        registry.decoding("yaml")


@pytest.mark.mission("CN17")
def test_a_name_that_two_packages_bring_is_refused_with_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("lw-one", "lw-two"):
        module = name.replace("-", "_")
        points = f"[lakewright.connectors]\nweather = {module}:Weather\n"
        distribution(tmp_path / name, name, points, _WEATHER)
        monkeypatch.syspath_prepend(tmp_path / name)
    # The same entry point under the same name of a package is found once by importlib.metadata.
    with pytest.raises(InvalidRequestError, match="brought by 2 installed packages") as told:
        Registry().source("weather")
    assert "lw-one (lw_one:Weather)" in told.value.message
    assert "lw-two (lw_two:Weather)" in told.value.message


def test_two_versions_of_one_package_are_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, module in (("old", "lw_old"), ("new", "lw_new")):
        points = f"[lakewright.connectors]\nweather = {module}:Weather\n"
        distribution(tmp_path / folder, "lw-weather-b", points)
        monkeypatch.syspath_prepend(tmp_path / folder)
    with pytest.raises(InvalidRequestError, match=r"lw_new:Weather.*lw_old:Weather"):
        Registry().source("weather")


_FAILING = """
class Fails:
    def __init__(self):
        raise ValueError("the licence has ended")

class Bare:
    identifier = "bare"
"""


def test_a_broken_package_says_so_in_its_line_and_breaks_no_other_connector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    points = "[lakewright.connectors]\nfails = lw_failing:Fails\nbare = lw_failing:Bare\n"
    distribution(tmp_path / "failing", "lw-failing", points, _FAILING)
    points = "[lakewright.connectors]\nunparsed = lw_unparsed:Lake\n"
    distribution(tmp_path / "unparsed", "lw-unparsed", points, "class Lake(:")
    monkeypatch.syspath_prepend(tmp_path / "failing")
    monkeypatch.syspath_prepend(tmp_path / "unparsed")
    installed.cache_clear()
    try:
        assert main(["connectors"]) == 0
        lines = capsys.readouterr().out.splitlines()
        catalog = Catalog.open(str(tmp_path / "lake"))
        catalog.create_database("db")
        found = Session(catalog).sql("""
            CREATE TABLE db.numbers (id BIGINT) WITH (
              'connector' = 'datagen', 'number-of-rows' = '2');
            SELECT count(*) AS n FROM db.numbers
        """)
        with pytest.raises(NotFoundError, match="the licence has ended"):
            Session(catalog).sql("""
                CREATE TABLE db.broken (id BIGINT) WITH ('connector' = 'fails');
                SELECT * FROM db.broken
            """)
    finally:
        installed.cache_clear()
        sys.modules.pop("lw_failing", None)
    told = {line.split()[0]: line for line in lines[2:]}
    assert "cannot be used: fails of lw-failing" in told["fails"]
    assert "the licence has ended" in told["fails"]
    assert "is no factory: it has no required_options, optional_options" in told["bare"]
    assert "cannot be imported: invalid syntax" in told["unparsed"]
    assert "source" in told["datagen"]
    assert found.rows is not None
    assert found.rows.to_pylist() == [{"n": 2}]


@pytest.mark.mission("CN17", "CN34")
def test_a_connector_is_looked_for_by_role() -> None:
    registry = Registry()
    with pytest.raises(NotFoundError, match="print of lakewright has no source; it has sink"):
        registry.source("print")
    with pytest.raises(NotFoundError, match="datagen of lakewright has no sink; it has source"):
        registry.sink("datagen")


@pytest.mark.mission("CN18", "CT9")
def test_a_catalog_may_bring_a_factory_of_its_own() -> None:
    own = Memory()
    registry = Registry(extra=(own,))
    assert registry.source("memory") is own
    assert "memory" in registry.connectors()
    assert "memory" not in Registry().connectors()


@pytest.mark.mission("CN32")
def test_formats_are_found_in_a_group_of_their_own() -> None:
    registry = Registry()
    assert "csv" in registry.formats()
    assert registry.entries(FORMAT_GROUP, "csv")[0].distribution == "lakewright"
    with pytest.raises(NotFoundError, match="no installed package brings connector 'csv'"):
        registry.source("csv")
