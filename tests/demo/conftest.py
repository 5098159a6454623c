"""Other Paimon clients, to look at what the demo leaves."""

from tests.oracles.fixtures import java, java_latest, pypaimon, released_pypaimon, rust

__all__ = ["java", "java_latest", "pypaimon", "released_pypaimon", "rust"]
