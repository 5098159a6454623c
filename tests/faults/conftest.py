"""What tests of a disk share with others."""

from tests.support.tables.fixtures import catalog, env

__all__ = ["catalog", "env"]
