"""Dagster's queue of runs, looked at twice a second."""

from __future__ import annotations

import dagster as dg


class PromptRunCoordinator(dg.QueuedRunCoordinator):
    """Dagster's own queue, whose setting takes whole seconds: most of the time of a small run."""

    @property
    def dequeue_interval_seconds(self) -> float:  # type: ignore[override]  # Dagster adds seconds
        # The daemon waits in steps of half a second, and ends a wait that has taken as long.
        return 0.5
