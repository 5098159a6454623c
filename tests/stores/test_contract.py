"""Every store over its own protocol, held to the contract of a file system."""

from __future__ import annotations

from tests.support.stores.contract import *  # noqa: F403 - every test of the contract, by name
