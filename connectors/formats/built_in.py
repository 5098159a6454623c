"""The formats that come with the library: where the factory of each is."""

from __future__ import annotations

from collections.abc import Mapping

# Module and class of a factory by its identifier; it is imported when a table names it.
BUILT_IN_FORMATS: Mapping[str, str] = {
    "avro": "lakewright.connectors.formats.avro_format:AvroFormat",
    "avro-confluent": "lakewright.connectors.formats.avro_confluent:AvroConfluentFormat",
    "canal-json": "lakewright.connectors.formats.canal_json:CanalJsonFormat",
    "changelog-csv": "lakewright.connectors.formats.changelog_csv:ChangelogCsvFormat",
    "csv": "lakewright.connectors.formats.csv_format:CsvFormat",
    "debezium-avro-confluent": (
        "lakewright.connectors.formats.avro_confluent:DebeziumAvroConfluentFormat"
    ),
    "debezium-json": "lakewright.connectors.formats.debezium_json:DebeziumJsonFormat",
    "hive-text": "lakewright.connectors.formats.hive_text:HiveTextFormat",
    "json": "lakewright.connectors.formats.json_format:JsonFormat",
    "maxwell-json": "lakewright.connectors.formats.maxwell_json:MaxwellJsonFormat",
    "ogg-json": "lakewright.connectors.formats.ogg_json:OggJsonFormat",
    "raw": "lakewright.connectors.formats.raw_format:RawFormat",
}
