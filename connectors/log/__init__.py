"""The log of a table: a topic of Kafka with its changes, published after each commit."""

from __future__ import annotations

from lakewright.connectors.log.publish import Relayed, follow, relay, unrelayed

__all__ = ["Relayed", "follow", "relay", "unrelayed"]
