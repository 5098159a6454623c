"""Where the project's own workspace lies, and opening it in the Dagster UI."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from lakewright.demo.dagster_server import HOST, dagster_dev_command, heed_interrupts
from lakewright.storage.errors import NotFoundError

WAREHOUSE_VARIABLE = "LAKEWRIGHT_WAREHOUSE"
DEFAULT_WAREHOUSE = "warehouse"
DEFAULT_PORT = 3000


@dataclass(frozen=True)
class Workspace:
    """A checkout: its workspace file, its Dagster home, and the warehouse in use."""

    file: Path
    home: Path
    warehouse: str

    @property
    def environment(self) -> dict[str, str]:
        """What the processes of the workspace must know."""
        return {
            WAREHOUSE_VARIABLE: self.warehouse,
            "DAGSTER_HOME": str(self.home),
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            "GX_ANALYTICS_ENABLED": "false",
        }


def find_workspace(warehouse: str | None) -> Workspace:
    """The workspace of the working directory, or of the checkout this package is installed from.

    Raises:
        NotFoundError: neither has a workspace.yaml.
    """
    checkout = Path(__file__).resolve().parents[3]
    for folder in (Path.cwd(), checkout):
        file = folder / "workspace.yaml"
        if file.exists():
            home = Path(os.environ.get("DAGSTER_HOME") or folder / "dagster_home")
            chosen = warehouse or os.environ.get(WAREHOUSE_VARIABLE) or DEFAULT_WAREHOUSE
            if "://" not in chosen:
                # Runs start in folders of their own, so a relative path would name another place.
                chosen = str(Path(chosen).absolute())
            return Workspace(file, home.absolute(), chosen)
    raise NotFoundError(
        f"there is no workspace.yaml in {Path.cwd()}; run this in a checkout of lakewright, or "
        "start your own project with: dagster dev"
    )


def run_up(parsed: argparse.Namespace) -> int:
    """Serve the workspace until interrupted; the server takes this process's place."""
    workspace = find_workspace(parsed.warehouse)
    workspace.home.mkdir(parents=True, exist_ok=True)
    port = getattr(parsed, "port", None) or DEFAULT_PORT
    sys.stdout.write(
        f"Dagster: http://{HOST}:{port}   warehouse: {workspace.warehouse}   stop: Ctrl-C\n"
    )
    sys.stdout.flush()
    os.environ.update(workspace.environment)
    heed_interrupts()
    command = dagster_dev_command(workspace.file, port)
    os.execv(command[0], command)  # noqa: S606  # no shell is wanted
