"""Other Paimon clients, to look at what the demo leaves."""

from tests.oracles.fixtures import java, pypaimon, released_pypaimon, rust

__all__ = ["java", "pypaimon", "released_pypaimon", "rust"]
