"""Other Paimon clients, and a warehouse on disk that they and we share."""

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
