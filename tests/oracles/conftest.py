"""The oracles, for their own tests."""

from __future__ import annotations

from tests.oracles.fixtures import java, pypaimon, released_pypaimon, rust

__all__ = ["java", "pypaimon", "released_pypaimon", "rust"]
