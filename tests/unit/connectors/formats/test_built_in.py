"""The mapping of the formats that come with the library."""

from __future__ import annotations

import pytest

from lakewright.connectors.formats.built_in import BUILT_IN_FORMATS
from lakewright.connectors.formats.model import DecodingFormatFactory, EncodingFormatFactory
from tests.support.formats import format_factory


@pytest.mark.mission("CN34")
@pytest.mark.parametrize("name", BUILT_IN_FORMATS)
def test_each_format_reads_and_writes_under_its_name(name: str) -> None:
    factory = format_factory(name)
    assert factory.identifier == name
    assert isinstance(factory, DecodingFormatFactory)
    assert isinstance(factory, EncodingFormatFactory)
    assert all(option.description for option in factory.optional_options)
