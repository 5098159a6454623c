"""Other Paimon clients, to look at what the demo leaves, and a warehouse for steps of its own."""

from tests.oracles.fixtures import java, java_latest, pypaimon, released_pypaimon, rust
from tests.support.tables.fixtures import catalog, env, unchecked_catalog

__all__ = [
    "catalog",
    "env",
    "java",
    "java_latest",
    "pypaimon",
    "released_pypaimon",
    "rust",
    "unchecked_catalog",
]
