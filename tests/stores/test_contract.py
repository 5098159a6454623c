"""Every store over its own protocol, held to the contract of a file system."""

from __future__ import annotations

from tests.support.store_contract import *  # noqa: F403 - every test of the contract, by name
