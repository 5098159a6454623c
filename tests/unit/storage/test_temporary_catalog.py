"""Tables of a session: like all others, and gone with it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakewright.storage import Catalog
from lakewright.storage.errors import TableNotFound, UnavailableError
from tests.support.tables.builders import content, events, new_table, rows
from tests.support.tables.invariants import assert_sound
from tests.support.tables.landed import LANDED, land_days, rows_of


@pytest.mark.mission("PT7", "PT42")
def test_tables_of_a_session_have_partitions_and_go_with_it(tmp_path: Path) -> None:
    with Catalog.temporary(folder=str(tmp_path)) as session:
        table = new_table(session, partitions=["day"])
        table.write(rows(table, [*events(0, 3, day="a"), *events(3, 5, day="b")]))
        assert [each.spec["day"] for each in table.at().partitions("day = 'b'")] == ["b"]
        assert table.scan("day = 'b'").plan.files_read == 1
        table.write(rows(table, events(9, 10, day="b")), mode="overwrite")
        table.upkeep.drop_partitions("day = 'a'")
        assert len(content(table)) == 1
        table.upkeep.compact(full=True)
        assert_sound(session.table("db.t"))
        root = Path(session.root)
        assert root.is_dir()
    assert not root.exists()
    with Catalog.temporary(folder=str(tmp_path)) as other, pytest.raises(TableNotFound):
        other.table("db.t")


@pytest.mark.mission("PT7", "PT14", "PT42")
def test_a_session_reads_folders_of_others_as_a_table_and_leaves_them(tmp_path: Path) -> None:
    root = land_days(tmp_path / "landed")
    with Catalog.temporary() as session:
        plain = session.create_format_table(
            "s.plain", LANDED, partition_keys=["day"], location=str(root)
        )
        assert [each["day"] for each in plain.partitions("day > 'a'")] == ["b"]
        assert len(plain.scan("day = 'b'").files) == 2
        taken = new_table(session, LANDED, name="s.taken", partitions=["day"])
        taken.upkeep.add_partitions(str(root), age_ms=0)
        assert session.table("s.taken").read().num_rows == 12
        plain.write(pa.Table.from_pylist(rows_of(90, 91)), partition={"day": "c"})
    assert len(list(root.rglob("*.parquet"))) == 5


def test_a_temporary_warehouse_without_a_disk_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(UnavailableError, match=r"no temporary folder can be made in .*gone"),
        Catalog.temporary(folder=str(tmp_path / "gone")),
    ):
        pass
