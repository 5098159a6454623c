"""`listagg`: each key's texts joined by a delimiter."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.lsm.merge_engines.changes import Changes, Op
from lakewright.storage.spec.merge_spec import FieldAggregate

# White space as in Java's isWhitespace, which excludes non-breaking blanks.
_BLANKS = (
    r"\t-\r\x1c-\x1f \x{1680}\x{2000}-\x{2006}\x{2008}-\x{200a}\x{2028}\x{2029}\x{205f}\x{3000}"
)
_IS_BLANK = rf"\A[{_BLANKS}]*\z"


def join_texts(column: pa.ChunkedArray, changes: Changes, aggregate: FieldAggregate) -> pa.Array:
    """Each key's texts joined in order, without texts of white space only.

    Null without any text. With `distinct`, each text is split at the delimiter, and only new parts
    are joined.
    """
    array = column.combine_chunks()
    keys, ops = changes.keys, changes.ops
    blank = pc.match_substring_regex(array, _IS_BLANK).fill_null(True)
    visible = ~blank.to_numpy(zero_copy_only=False)
    whole = keys.alone & (ops[keys.starts] == Op.SET)
    unusual = keys.any((ops != Op.ADD) & (ops != Op.SKIP)) & ~whole
    if aggregate.distinct:
        unusual |= ~whole
    joined = _joined(array, changes, visible & (ops == Op.ADD), aggregate.delimiter)
    result = pc.if_else(pa.array(whole), array.take(pa.array(keys.starts)), joined)
    if not unusual.any():
        return result
    numbers = np.flatnonzero(unusual)
    texts = [_join_one_by_one(array, changes, visible, aggregate, key) for key in numbers.tolist()]
    return pc.replace_with_mask(result, pa.array(unusual), pa.array(texts, array.type))


def _joined(array: pa.Array, changes: Changes, taken: np.ndarray, delimiter: str) -> pa.Array:
    counts = np.add.reduceat(taken.astype(np.int64), changes.keys.starts)
    offsets = np.append(0, np.cumsum(counts)).astype(np.int32)
    lists = pa.ListArray.from_arrays(
        pa.array(offsets), array.filter(pa.array(taken)), mask=pa.array(counts == 0)
    )
    return pc.binary_join(lists, delimiter).cast(array.type)


def _join_one_by_one(
    array: pa.Array, changes: Changes, visible: np.ndarray, aggregate: FieldAggregate, key: int
) -> str | None:
    start = int(changes.keys.starts[key])
    size = int(changes.keys.sizes[key])
    joined: tuple[str | None, bool] = (None, False)
    ops = changes.live[start : start + size].tolist()
    texts = array.slice(start, size).to_pylist()
    shown = visible[start : start + size].tolist()
    for op, text, seen in zip(ops, texts, shown, strict=True):
        match op:
            case Op.SET:
                joined = (text, seen)
            case Op.ADD:
                joined = _join(joined, (text, seen), aggregate)
            case Op.ADD_BEFORE:
                joined = _join((text, seen), joined, aggregate)
    return joined[0]


def _join(
    left: tuple[str | None, bool], right: tuple[str | None, bool], aggregate: FieldAggregate
) -> tuple[str | None, bool]:
    """Join two texts, each given with a flag for a visible character."""
    if not right[1]:
        return left
    if not left[1]:
        return right
    assert left[0] is not None and right[0] is not None
    delimiter = aggregate.delimiter
    if not aggregate.distinct:
        return left[0] + delimiter + right[0], True
    parts = [left[0]]
    there = set(left[0].split(delimiter or " "))
    for part in right[0].split(delimiter or " "):
        if part not in there and _is_visible(part):
            there.add(part)
            parts.append(part)
    return delimiter.join(parts), True


def _is_visible(text: str) -> bool:
    return any(character in _NOT_BREAKING or not character.isspace() for character in text)


# White space in Python that is not white space in Java.
_NOT_BREAKING = frozenset("\x85\u00a0\u2007\u202f")
