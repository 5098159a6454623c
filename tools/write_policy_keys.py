"""Write the table of keys of `docs/reference/policies.md` from the models of policies."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from lakewright.platform.declare.declared_values import Declared
from lakewright.platform.declare.policies import LIMITS
from lakewright.platform.declare.setting_text import KEYS, setting_text
from lakewright.platform.declare.upkeep_policies import UpkeepPolicy, WarehousePolicy

PAGE = Path(__file__).resolve().parent.parent / "docs" / "policies.md"
BEGIN = "<!-- keys: written by tools/write_policy_keys.py -->\n"
END = "<!-- end of keys -->\n"


def key_lines() -> Iterator[str]:
    """The lines of the table."""
    yield "| key | meaning | without it |\n"
    yield "|---|---|---|\n"
    for key, field in KEYS.items():
        value: object = WarehousePolicy()
        for name in key:
            assert isinstance(value, Declared)
            value = getattr(value, name)
        only = "" if key[0] in UpkeepPolicy.model_fields else "; of a warehouse only"
        # Every level has limits of its own.
        only = "; of all tables of its section together" if key in LIMITS else only
        # The last column says what holds without it.
        means = (field.description or "").partition("; without it")[0]
        shown = setting_text(key, value)
        shown = f"`{shown}`" if key[-1] == "schedule" else shown
        yield f"| `{'.'.join(key)}` | {means}{only} | {shown} |\n"


def with_keys(text: str) -> str:
    """The page with the table as it must be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{''.join(key_lines())}{END}{after}"


def main() -> int:
    """Write the page."""
    PAGE.write_text(with_keys(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
