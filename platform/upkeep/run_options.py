"""Options that procedures add to those of their verbs, or give another default.

A procedure's class of options has a class of here as its first base, and the verb's as its second.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.platform.tables.upkeep_policies import EngineChoice
from lakewright.storage import VerifyLevel
from lakewright.storage.operations.running.verb_options import choice, option

# A command works where it was called, unless it names an engine.
ENGINE = choice(EngineChoice, here=EngineChoice.LOCAL)


@dataclass(frozen=True, kw_only=True)
class OnEngine:
    """Where rows are read and written."""

    engine: EngineChoice = option(
        ENGINE,
        EngineChoice.AUTO,
        "Where rows are read and written: spark, local, or auto, by size.",
        at_run=True,
    )


@dataclass(frozen=True, kw_only=True)
class Verified(OnEngine):
    """Where rows are written again, and how that is verified."""

    verify: VerifyLevel = option(
        choice(VerifyLevel),
        VerifyLevel.CHECKSUMS,
        "How new files are verified before they are published: counts, checksums, or full, which "
        "reads the new files back.",
        at_run=True,
    )
