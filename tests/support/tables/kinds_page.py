"""What can be done to each kind of table that only Java Paimon 2 writes, as a page of Markdown.

Each verb runs on a fresh copy of the table that Java left. To write the page anew:
`python -m tests.support.tables.kinds_page`.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import StorageError
from tests.support.tables.builders import compact, expire, remove_orphans
from tests.support.tables.java_kinds import java_kind, rows_of_java

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "kinds-of-tables.md"
# What a person calls each kind.
KINDS = {
    "row_tracking": "`row-tracking.enabled`",
    "data_evolution": "`data-evolution.enabled`",
    "blob": "a column BLOB",
    "variant": "a column VARIANT",
    "dv_merge_on_read": "`deletion-vectors.merge-on-read`",
    "snapord": "`sequence.snapshot-ordering`",
    "pk_clustering": "`pk-clustering-override`",
    "manifest_orc": "`manifest.format: orc`",
    "j_pk_btree_index": "`pk-btree.index.columns`",
    "record_expire": "`record-level.expire-time`",
    "clust_incremental": "`clustering.incremental`",
    "agg_roaring": "aggregate function `rbm64`",
    "ice_append": "Iceberg metadata, append",
    "ice_keyed_dv3": "Iceberg metadata, keyed with deletion vectors",
}
VERBS: dict[str, Callable[[Table, list[Any]], object]] = {
    "read": lambda table, _: table.read(),
    "insert": lambda table, rows: table.write(
        [dict(zip(table.schema.field_names, rows[0], strict=True))]
    ),
    "delete rows": lambda table, rows: table.delete(f"{_number(table)} = {_first(table, rows)}"),
    "compact": lambda table, _: compact(table, full=True),
    "expire": lambda table, _: expire(table),
    "remove orphans": lambda table, _: remove_orphans(table),
}
_TEXT = """# Kinds of tables

Tables whose options or types came with Paimon 2, as Java Paimon 2.0.0 wrote them, and what can be
done to each here. A number says why not. Tables of earlier kinds get every verb;
[options](table-options.md) lists what else rules a use out.

"""


def page(folder: Path) -> str:
    """The page, by running every verb in a folder."""
    reasons: dict[str, int] = {}
    lines = [f"| table | {' | '.join(VERBS)} |", f"|---|{'---|' * len(VERBS)}"]
    for kind, called in KINDS.items():
        cells = []
        for verb in VERBS:
            reason = _tried(Catalog.open(str(folder / kind / verb)), kind, verb)
            number = None if reason is None else reasons.setdefault(reason, len(reasons) + 1)
            cells.append("yes" if number is None else str(number))
        lines.append(f"| {called} | {' | '.join(cells)} |")
    told = [f"{number}. {reason}" for reason, number in reasons.items()]
    return _TEXT + "\n".join([*lines, "", *told]) + "\n"


def _tried(catalog: Catalog, kind: str, verb: str) -> str | None:
    """Why a verb is refused; None if it is done."""
    table = java_kind(catalog, kind)
    try:
        VERBS[verb](table, rows_of_java(kind))
    except StorageError as error:
        text = error.message.partition("; the table cannot be ")[0].replace(table.name, "the table")
        return re.sub(r"^the table sets option |^the table: ", "", text)
    return None


def _number(table: Table) -> str:
    """A column of whole numbers."""
    return next(each.name for each in table.schema.fields if "INT" in str(each.type))


def _first(table: Table, rows: list[Any]) -> int:
    return int(rows[0][table.schema.field_names.index(_number(table))])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        PAGE.write_text(page(Path(made)), encoding="utf-8")
