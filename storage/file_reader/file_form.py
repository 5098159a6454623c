"""How the files of a source are written: what declarations and options of tables become."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakewright.storage.codec.json_atoms import JsonLayout
from lakewright.storage.codec.text_values import TextLayout
from lakewright.storage.spec.csv_dialect import CsvDialect
from lakewright.storage.spec.extra_columns import ExtraColumns

PARQUET, ORC, AVRO, CSV, JSON, TEXT = "parquet", "orc", "avro", "csv", "json", "text"
# Formats whose files describe their columns.
COLUMNAR = (PARQUET, ORC, AVRO)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileForm:
    """A format with its options.

    `texts` says how values are written in CSV. With `may_lack` a column that a file lacks is null.
    With `fills_missing` it is its default, or null, where rows may leave the column out. A file of
    JSON may always leave out members of some rows. With `own_avro` timestamps of Avro have the
    meaning that Paimon and Flink give them, and else that of Avro's specification. With
    `skips_broken`, rows without a meaning are left out.
    """

    format: str
    csv: CsvDialect = field(default_factory=CsvDialect)
    texts: TextLayout = field(default_factory=TextLayout)
    json: JsonLayout = field(default_factory=JsonLayout)
    encoding: str = "utf-8"
    extra_columns: ExtraColumns = ExtraColumns.REFUSE
    may_lack: bool = False
    fills_missing: bool = False
    own_avro: bool = False
    skips_broken: bool = False

    @property
    def lacks_members(self) -> bool:
        """Whether a row without a column has null there."""
        return self.may_lack or self.format == JSON

    @property
    def names_columns(self) -> bool:
        """Whether a file says the names of its columns."""
        return self.format not in (CSV, TEXT) or (self.format == CSV and self.csv.header)
