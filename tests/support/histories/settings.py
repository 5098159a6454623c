"""The kinds of tables that random histories are tried on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.support.histories.drawing import Setting

EVERY_KIND = ("+I", "+I", "+I", "+U", "-U", "-D")
PLAIN = {"v": "STRING", "n": "BIGINT"}
WIDE = {
    "v": "STRING",
    "d": "DECIMAL(10, 2)",
    "w": "DECIMAL(20, 5)",
    "f": "DOUBLE",
    "b": "BOOLEAN",
    "t": "TIMESTAMP(6)",
    "m": "TIMESTAMP(3)",
    "e": "DATE",
    "y": "BYTES",
    "a": "ARRAY<INT>",
    "o": "MAP<INT, STRING>",
}
GROUPS = {"g": "INT", "v": "STRING", "n": "INT", "h": "INT", "s": "BIGINT", "x": "STRING"}
GROUP_OPTIONS = {
    "merge-engine": "partial-update",
    "fields.g.sequence-group": "v,n",
    "fields.h.sequence-group": "s,x",
    "fields.s.aggregate-function": "sum",
}
# Column → its type and function: any of them in one table.
FUNCTIONS = {
    "sum_tiny": ("TINYINT", "sum"),
    "sum_double": ("DOUBLE", "sum"),
    "sum_decimal": ("DECIMAL(20, 5)", "sum"),
    "product": ("DOUBLE", "product"),
    "low": ("STRING", "min"),
    "high": ("DECIMAL(10, 2)", "max"),
    "high_date": ("DATE", "max"),
    "first": ("STRING", "first_value"),
    "first_there": ("STRING", "first_non_null_value"),
    "last": ("INT", "last_value"),
    "last_there": ("TIMESTAMP(6)", "last_non_null_value"),
    "every": ("BOOLEAN", "bool_and"),
    "some": ("BOOLEAN", "bool_or"),
    "words": ("STRING", "listagg"),
    "all": ("ARRAY<STRING>", "collect"),
    "map": ("MAP<INT, STRING>", "merge_map"),
}
# Java 0.9 lets integers overflow and joins empty texts, newer clients do not.
TAME = {
    "sum_tiny": (-2, 0, 3),
    # What is left of nothing without 0.0 is -0.0 to Java alone.
    "sum_double": (-1.25, 0.5, 1024.0),
    "sum_decimal": ("-0.00001", "1.50000", "1234567890.00000"),
    "words": ("a", "b,c", "longer than seven"),
}
BAGS = {
    "set": ("ARRAY<STRING>", "collect"),
    "list": ("ARRAY<ROW<x INT, y STRING>>", "nested_update"),
    "keyed": ("ARRAY<ROW<x INT, y STRING>>", "nested_update"),
}


def _producing(setting: Setting, producer: str, **options: str) -> Setting:
    producing = {"changelog-producer": producer, **options}
    return replace(
        setting,
        name=f"{setting.name} with {producer} changelog",
        options={**setting.options, **producing},
    )


def _aggregating(name: str, functions: Mapping[str, tuple[str, str]], **more: str) -> Setting:
    options = {"merge-engine": "aggregation"}
    for column, (_, function) in functions.items():
        options[f"fields.{column}.aggregate-function"] = function
    columns = {column: text for column, (text, _) in functions.items()}
    pools = {column: pool for column, pool in TAME.items() if column in functions}
    return Setting(name=name, columns=columns, options={**options, **more}, pools=pools)


DEDUPLICATE = Setting(name="deduplicate", columns=PLAIN, kinds=EVERY_KIND)
PARTIAL_UPDATE = Setting(
    name="partial-update", columns=WIDE, options={"merge-engine": "partial-update"}
)
# pypaimon cannot aggregate maps.
AGGREGATION = replace(_aggregating("aggregation", FUNCTIONS), others=("rust",))
SUMS = replace(
    _aggregating(
        "aggregation with retractions",
        {name: FUNCTIONS[name] for name in ("sum_tiny", "sum_double", "sum_decimal", "high")},
        **{"fields.high.ignore-retract": "true"},
    ),
    kinds=EVERY_KIND,
    # pypaimon does not know ignore-retract.
    others=("rust",),
)
FIRST_ROW = Setting(
    name="first-row", columns=PLAIN, options={"merge-engine": "first-row"}, lags=True
)
DELETION_VECTORS = replace(DEDUPLICATE, name="deletion vectors", lags=True, deletion_vectors=True)

SETTINGS = (
    # Avro of Java is nulls to rust.
    replace(DEDUPLICATE, columns=WIDE, formats=("parquet", "orc", "avro"), others=("pypaimon",)),
    replace(
        DEDUPLICATE,
        name="deduplicate by two sequence fields",
        columns={"s": "INT", "r": "INT", **PLAIN},
        options={"sequence.field": "s,r"},
        sequence=("s", "r"),
    ),
    replace(DEDUPLICATE, name="deduplicate ignoring deletes", options={"ignore-delete": "true"}),
    replace(DEDUPLICATE, name="deduplicate in dynamic buckets", buckets="dynamic"),
    replace(
        DEDUPLICATE,
        name="deduplicate with a format per level",
        options={"file.format.per.level": "0:avro,5:orc"},
        others=("pypaimon",),
    ),
    replace(PARTIAL_UPDATE, formats=("parquet", "orc")),
    replace(
        PARTIAL_UPDATE,
        name="partial-update ignoring deletes",
        columns=PLAIN,
        options={**PARTIAL_UPDATE.options, "ignore-delete": "true"},
        kinds=EVERY_KIND,
        others=("rust",),
    ),
    replace(
        PARTIAL_UPDATE,
        name="partial-update by a sequence field",
        columns={"s": "INT", **PLAIN},
        options={**PARTIAL_UPDATE.options, "sequence.field": "s"},
        sequence=("s",),
        ordered=False,
    ),
    Setting(
        name="partial-update in sequence groups",
        columns=GROUPS,
        options=GROUP_OPTIONS,
        others=("rust",),
    ),
    Setting(
        name="partial-update in sequence groups with retractions",
        others=("rust",),
        columns=GROUPS,
        options=GROUP_OPTIONS,
        kinds=EVERY_KIND,
        ordered=False,
        merges_retractions=False,
    ),
    Setting(
        name="partial-update in a group of two sequence fields",
        columns={"g": "INT", "h": "INT", **PLAIN},
        options={"merge-engine": "partial-update", "fields.g,h.sequence-group": "v,n"},
        others=("rust",),
    ),
    AGGREGATION,
    replace(
        _aggregating(
            "aggregation into sets and nested tables",
            BAGS,
            **{"fields.set.distinct": "true", "fields.keyed.nested-key": "x"},
        ),
        bags=frozenset(BAGS),
    ),
    SUMS,
    replace(
        AGGREGATION,
        name="aggregation by a sequence field",
        columns={"s": "INT", **AGGREGATION.columns},
        options={**AGGREGATION.options, "sequence.field": "s"},
        sequence=("s",),
        ordered=False,
    ),
    FIRST_ROW,
    replace(
        FIRST_ROW,
        name="first-row ignoring deletes",
        options={**FIRST_ROW.options, "ignore-delete": "true"},
        kinds=EVERY_KIND,
    ),
    DELETION_VECTORS,
    replace(
        PARTIAL_UPDATE,
        name="partial-update with deletion vectors",
        columns=PLAIN,
        lags=True,
        deletion_vectors=True,
    ),
    *(
        _producing(setting, producer)
        for setting in (DEDUPLICATE, SUMS, replace(PARTIAL_UPDATE, columns=PLAIN))
        for producer in ("input", "full-compaction")
    ),
    _producing(DEDUPLICATE, "lookup"),
    _producing(replace(PARTIAL_UPDATE, columns=PLAIN), "lookup"),
    # rust adds what a lookup has added once more.
    replace(_producing(SUMS, "lookup"), others=()),
    _producing(FIRST_ROW, "lookup"),
    _producing(DELETION_VECTORS, "lookup"),
    replace(
        _producing(DEDUPLICATE, "lookup", **{"changelog-producer.row-deduplicate": "true"}),
        name="deduplicate with lookup changelog without updates that change nothing",
    ),
)
# What Java 0.9 does not know. Newer readers do, so far as `others` says.
NEWER_SETTINGS = (
    replace(
        DEDUPLICATE,
        name="deduplicate by a descending sequence field",
        columns={"s": "INT", **PLAIN},
        options={"sequence.field": "s", "sequence.field.sort-order": "descending"},
        sequence=("s",),
    ),
    replace(
        PARTIAL_UPDATE,
        name="partial-update removing deleted rows",
        columns=PLAIN,
        options={**PARTIAL_UPDATE.options, "partial-update.remove-record-on-delete": "true"},
        kinds=EVERY_KIND,
        # What a deletion names stays in the row that comes after it, until it was dropped.
        ordered=False,
        others=("rust",),
    ),
    Setting(
        name="partial-update removing rows that a sequence group deletes",
        columns=GROUPS,
        options={**GROUP_OPTIONS, "partial-update.remove-record-on-sequence-group": "g"},
        kinds=EVERY_KIND,
        ordered=False,
        others=("rust",),
    ),
    replace(
        _aggregating(
            "aggregation removing deleted rows",
            {name: FUNCTIONS[name] for name in ("sum_tiny", "sum_double", "sum_decimal")},
            **{"aggregation.remove-record-on-delete": "true"},
        ),
        kinds=EVERY_KIND,
        ordered=False,
        others=("rust",),
    ),
    replace(
        _aggregating("aggregation of texts", {"words": ("STRING", "listagg")}),
        pools={"words": ("", "  ", "a", "b,c")},
        ordered=False,
        others=("rust",),
    ),
    replace(DEDUPLICATE, name="deduplicate in postponed buckets", buckets="postpone", lags=True),
)
