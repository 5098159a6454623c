r"""The format `hive-text`: lines of Hive's text files.

Fields end at ^A, the elements of arrays and rows at ^B, null is `\N`, and a backslash takes the
meaning of the next character.

Source: Hive `LazySimpleSerDe`.
"""

from __future__ import annotations

from lakewright.connectors.formats.csv_format import CsvLayout, CsvRows
from lakewright.connectors.formats.csv_values import TextForm
from lakewright.connectors.formats.model import DecodingFormat, EncodingFormat, FormatFactory
from lakewright.connectors.options import Option, ReadOptions

_NULL = "\\N"


class HiveTextFormat(FormatFactory):
    """Makes the format."""

    identifier = "hive-text"
    description = "lines of Hive's text files"
    optional_options = (
        Option(name="field-delimiter", description="the character between fields", default="\x01"),
        Option(
            name="collection-delimiter",
            description="the character between the elements of an ARRAY",
            default="\x02",
        ),
    )

    def decoding_format(self, options: ReadOptions) -> DecodingFormat:
        return _rows(options)

    def encoding_format(self, options: ReadOptions) -> EncodingFormat:
        return _rows(options)


def _rows(options: ReadOptions) -> CsvRows:
    layout = CsvLayout(options["field-delimiter"], "", "\\", raw_null=_NULL)
    form = TextForm(
        null_literal=_NULL,
        null_is_raw=True,
        element_delimiter=options["collection-delimiter"],
        plain_decimals=True,
    )
    return CsvRows(layout, form)
