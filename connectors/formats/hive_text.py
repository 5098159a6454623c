r"""The format `hive-text`: lines of Hive's text files.

Fields end at ^A, the elements of arrays and rows at ^B, null is `\N`, and a backslash takes the
meaning of the next character.

Source: Hive `LazySimpleSerDe`.
"""

from __future__ import annotations

from lakewright.connectors.formats.csv_format import CsvRows, csv_dialect
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
    dialect = csv_dialect(delimiter=options["field-delimiter"], quote="", escape="\\", null=_NULL)
    form = TextForm(
        null_literal=_NULL,
        element_delimiter=options["collection-delimiter"],
        plain_decimals=True,
    )
    return CsvRows(dialect, form)
