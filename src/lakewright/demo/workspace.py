"""Where the project's own workspace lies, and opening it in the Dagster UI."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from lakewright.demo.dagster_server import HOST, dagster_dev_command, heed_interrupts
from lakewright.platform.declare.variables import (
    DEFAULT_WAREHOUSE,
    POLICY_VARIABLE,
    TABLES_VARIABLE,
    WAREHOUSE_VARIABLE,
)
from lakewright.storage.errors import NotFoundError


@dataclass(frozen=True)
class Workspace:
    """What is served: a workspace file, a Dagster home, the warehouse, tables and policies in use.

    Without a file it is the tables and the policies alone; without either the demo's tables.
    """

    file: Path | None
    home: Path
    warehouse: str
    tables: str = ""
    policies: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """What the processes of the workspace must know."""
        return {
            # Empty where the variables of the calling shell must not choose.
            TABLES_VARIABLE: self.tables,
            POLICY_VARIABLE: self.policies,
            WAREHOUSE_VARIABLE: self.warehouse,
            "DAGSTER_HOME": str(self.home),
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            "GX_ANALYTICS_ENABLED": "false",
            # The events of a run over many partitions are stored by the hundred (dagster.yaml).
            "DAGSTER_EVENT_BATCH_SIZE": os.environ.get("DAGSTER_EVENT_BATCH_SIZE", "500"),
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
            return Workspace(file, home.absolute(), _chosen(warehouse))
    raise NotFoundError(
        f"there is no workspace.yaml in {Path.cwd()}; run this in a checkout of lakewright, or "
        "start your own project with: dagster dev"
    )


def workspace_to_serve(warehouse: str | None) -> Workspace:
    """The workspace of the working directory, or what LAKEWRIGHT_TABLES and LAKEWRIGHT_POLICY name.

    Raises:
        NotFoundError: there is neither, or what they name is not there.
    """
    tables, policies = _named(TABLES_VARIABLE), _named(POLICY_VARIABLE)
    if (Path.cwd() / "workspace.yaml").exists():
        return replace(find_workspace(warehouse), tables=tables, policies=policies)
    if not tables and not policies:
        raise NotFoundError(
            f"nothing says what to serve: {Path.cwd()} holds no workspace.yaml, and "
            f"neither {TABLES_VARIABLE} nor {POLICY_VARIABLE} is set; name declarations, as in "
            f"`{TABLES_VARIABLE}=tables lakewright --warehouse ./warehouse up`, or run this in a "
            "checkout of lakewright, which serves the demo"
        )
    home = Path(os.environ.get("DAGSTER_HOME") or "dagster_home")
    return Workspace(None, home.absolute(), _chosen(warehouse), tables, policies)


def _named(variable: str) -> str:
    """The paths that a variable names, from every working directory.

    Raises:
        NotFoundError: one does not exist.
    """
    named = os.environ.get(variable, "")
    paths = [Path(each).absolute() for each in named.split(os.pathsep) if each]
    for path in paths:
        if not path.exists():
            raise NotFoundError(f"{variable} names {path}, which does not exist")
    return os.pathsep.join(str(path) for path in paths)


def _chosen(warehouse: str | None) -> str:
    chosen = warehouse or os.environ.get(WAREHOUSE_VARIABLE) or DEFAULT_WAREHOUSE
    # Runs start in folders of their own, so a relative path would name another place.
    return chosen if "://" in chosen else str(Path(chosen).absolute())


def run_up(warehouse: str, port: int) -> None:
    """Serve the workspace until interrupted; the server takes this process's place."""
    workspace = workspace_to_serve(warehouse)
    workspace.home.mkdir(parents=True, exist_ok=True)
    sys.stdout.write(
        f"Dagster: http://{HOST}:{port}   warehouse: {workspace.warehouse}   stop: Ctrl-C\n"
    )
    sys.stdout.flush()
    os.environ.update(workspace.environment)
    heed_interrupts()
    # Each tick of each sensor is told otherwise; the pages show them.
    command = [*dagster_dev_command(workspace.file, port), "--log-level", "warning"]
    os.execv(command[0], command)  # noqa: S606  # no shell is wanted
