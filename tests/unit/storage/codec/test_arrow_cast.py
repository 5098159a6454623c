"""Casts of columns: nested ones too, and what lies below a null."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakewright.storage.codec.arrow_cast import cast_column


@pytest.mark.parametrize("kind", [pa.time32("ms"), pa.date32(), pa.int64()])
def test_what_lies_below_a_null_struct_makes_no_invalid_column(kind: pa.DataType) -> None:
    # As ORC's reader leaves it: a member that is null with its struct, and any bytes there.
    held = [pa.py_buffer(b"\x01"), pa.py_buffer(np.array([5, 488_578_304], np.int32))]
    member = pa.Array.from_buffers(pa.int32(), 2, held)
    column = pa.chunked_array(
        [pa.StructArray.from_arrays([member], names=["a"], mask=pa.array([False, True]))]
    )
    there = pa.field("a", kind, nullable=False)
    found = cast_column(column, pa.struct([there]))
    found.validate(full=True)
    assert found[0]["a"].cast(pa.int32() if kind != pa.int64() else kind).as_py() == 5
    assert found[1].as_py() is None
