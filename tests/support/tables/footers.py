"""Footers of Parquet files as other writers leave them, made by changing bytes in their place."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq


def change_footer(path: Path, old: bytes, new: bytes) -> None:
    """Replace bytes in the footer by as many others, wherever they are."""
    data = path.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = data[start:]
    assert old in footer
    assert len(old) == len(new)
    path.write_bytes(data[:start] + footer.replace(old, new))


def sign_as(path: Path, created_by: str) -> None:
    """Make a file one of another writer."""
    own = pq.read_metadata(path).created_by.encode()
    change_footer(path, own, created_by.encode().ljust(len(own))[: len(own)])


def take_orders_away(path: Path) -> None:
    """Make a footer not name the orders of its columns."""
    own = pq.read_metadata(path).created_by.encode()
    # The field behind the name of the writer becomes one that readers do not know.
    change_footer(path, own + b"\x19", own + b"\x99")
