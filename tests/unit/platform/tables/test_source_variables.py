"""Values of environment variables in the paths of sources: no error shows them."""

from __future__ import annotations

import pytest

from lakewright.platform.tables.source_variables import values_hidden
from lakewright.storage.errors import InvalidRows


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ("/land/s3cret", "/land/s3cret/a.csv"),
        ("/land/s3cret/", "/land/s3cret/a.csv"),
        ("file:///land/s3cret", "/land/s3cret/a.csv"),
        ("/land//x/../s3cret", "/land/s3cret/a.csv"),
        ("s3://s3cret/land/", "s3cret/land/a.csv"),
        ("s3a://s3cret/land", "s3://s3cret/land/a.csv"),
        ("/land/s3cret\\é'\n", repr("/land/s3cret\\é'\n")),
    ],
)
def test_an_error_shows_a_variable_however_a_store_writes_its_value(value: str, seen: str) -> None:
    with pytest.raises(InvalidRows) as caught, values_hidden({"ROOT": value}):
        raise InvalidRows(f"{seen}: line 3 is wrong")
    assert "s3cret" not in str(caught.value)
    assert "${ROOT}" in str(caught.value)
    assert "line 3 is wrong" in str(caught.value)
