"""A job for launchers: its runs note their process and its parent, and wait if they are told to."""

import os
import time
from pathlib import Path

import dagster as dg


@dg.op(config_schema={"notes": str, "seconds": float})
def note(context: dg.OpExecutionContext) -> None:
    """Leave a file that is called by the process and its parent; then wait."""
    Path(context.op_config["notes"], f"{os.getpid()}-{os.getppid()}").touch()
    time.sleep(context.op_config["seconds"])


@dg.job(executor_def=dg.in_process_executor)
def noting() -> None:
    """One step."""
    note()
