"""The log of a table: a topic of Kafka with its changes, published after each commit."""

from __future__ import annotations

from lakewright.connectors.log.publish import Relayed, relay

__all__ = ["Relayed", "relay"]
