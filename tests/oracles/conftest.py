"""The oracles, for their own tests."""

from __future__ import annotations

from tests.oracles.fixtures import java, java_latest, pypaimon, released_pypaimon, rust

__all__ = ["java", "java_latest", "pypaimon", "released_pypaimon", "rust"]
