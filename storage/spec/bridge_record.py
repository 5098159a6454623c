"""What a snapshot says while the partition keys of a primary-key table change."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from lakewright.storage.errors import CorruptionError
from lakewright.storage.spec.commit import PreparedBase
from lakewright.storage.spec.file_names import plain_name
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
        """What a snapshot says; None if it is not bridged.

        Raises:
            CorruptionError: the property says something else.
        """
        text = (snapshot.properties or {}).get(BRIDGE_PROPERTY)
        if text is None:
            return None
        try:
            return cls._read(json.loads(text))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorruptionError(
                f"snapshot {snapshot.id} does not say how its change of partition keys ends: its "
                f"property {BRIDGE_PROPERTY} is damaged ({error!r}); put the snapshot's file back "
                "as it was written, or roll back to a snapshot before the change",
            ) from error

    @classmethod
    def _read(cls, told: dict[str, Any]) -> BridgeRecord:
        keys, numbers = told["keys"], (told["size"], told["rows"], told["before"])
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise TypeError(f"{keys!r} are no keys")
        if any(type(number) is not int for number in numbers):
            raise TypeError(f"{numbers} are not whole numbers")
        size, rows, before_id = numbers
        prepared = PreparedBase(list_name=plain_name(told["list"]), list_size=size, rows=rows)
        return cls(keys=tuple(keys), prepared=prepared, before_id=before_id)
