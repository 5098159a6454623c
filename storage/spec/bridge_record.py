"""What a snapshot says while the partition keys of a primary-key table change."""

from __future__ import annotations

import json
from dataclasses import dataclass

from lakewright.storage.spec.commit import PreparedBase
from lakewright.storage.spec.snapshot import Snapshot

# The property of a bridged snapshot that says how the change ends.
BRIDGE_PROPERTY = "lakewright.respec"


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeRecord:
    """How a change of keys ends: the new keys, their prepared entries, and the snapshot before."""

    keys: tuple[str, ...]
    prepared: PreparedBase
    before_id: int

    def properties(self) -> dict[str, str]:
        told = {
            "keys": list(self.keys),
            "list": self.prepared.list_name,
            "size": self.prepared.list_size,
            "rows": self.prepared.rows,
            "before": self.before_id,
        }
        return {BRIDGE_PROPERTY: json.dumps(told)}

    @classmethod
    def of(cls, snapshot: Snapshot) -> BridgeRecord | None:
        """What a snapshot says; None if it is not bridged."""
        text = (snapshot.properties or {}).get(BRIDGE_PROPERTY)
        if text is None:
            return None
        told = json.loads(text)
        prepared = PreparedBase(list_name=told["list"], list_size=told["size"], rows=told["rows"])
        return cls(keys=tuple(told["keys"]), prepared=prepared, before_id=told["before"])
