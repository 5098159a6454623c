"""Serves tables and policies, or the project of the working directory, in the Dagster UI."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

from lakewright.platform.documents.variables import (
    POLICY_VARIABLE,
    REPORTS_URL_VARIABLE,
    TABLES_VARIABLE,
    WAREHOUSE_VARIABLE,
)
from lakewright.project.new import SETTINGS
from lakewright.project.report_server import HOST, start_server
from lakewright.storage.errors import InvalidRequestError, NotFoundError

LOCATION = "lakewright.definitions"
# Dagster warns of how Lakewright itself calls it, which no user of a workspace can change.
_UNHEEDED = ",".join(
    f"ignore:{message}"
    for message in (
        "Function `dev_command` is superseded",
        "Parameter `owners` of initializer `SensorDefinition.__init__`",
        "Parameter `execution_type` of function `AssetsDefinition.__init__`",
    )
)


@dataclass(frozen=True)
class ServedProject:
    """What is served: a Dagster home, a warehouse, and the paths of declarations and policies."""

    home: Path
    warehouse: str
    tables: tuple[Path, ...] = ()
    policies: tuple[Path, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """What the processes of the workspace must know."""
        return {
            # Empty where the variables of the calling shell must not choose.
            TABLES_VARIABLE: os.pathsep.join(map(str, self.tables)),
            POLICY_VARIABLE: os.pathsep.join(map(str, self.policies)),
            WAREHOUSE_VARIABLE: self.warehouse,
            "DAGSTER_HOME": str(self.home),
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            "GX_ANALYTICS_ENABLED": "false",
            "PYTHONWARNINGS": ",".join(filter(None, [_UNHEEDED, os.environ.get("PYTHONWARNINGS")])),
            # The events of a run over many partitions are stored by the hundred (dagster.yaml).
            "DAGSTER_EVENT_BATCH_SIZE": os.environ.get("DAGSTER_EVENT_BATCH_SIZE", "500"),
        }


def workspace_of(
    warehouse: str, tables: Sequence[Path] = (), policies: Sequence[Path] = ()
) -> ServedProject:
    """The workspace of the working directory, whose Dagster home has settings afterwards.

    Raises:
        NotFoundError: a path does not exist.
        InvalidRequestError: Dagster's home cannot be made.
    """
    for path in (*tables, *policies):
        if not path.exists():
            raise NotFoundError(f"{path.absolute()} does not exist")
    home = Path(os.environ.get("DAGSTER_HOME") or "dagster_home").absolute()
    settings = home / SETTINGS.name
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not settings.exists():
            settings.write_bytes(SETTINGS.read_bytes())
    except OSError as error:
        raise InvalidRequestError(
            f"Dagster keeps its runs in the folder {home} (DAGSTER_HOME), which cannot be made: "
            f"{error.strerror}"
        ) from error
    # Runs start in folders of their own, so a relative path would name another place.
    return ServedProject(
        home,
        warehouse if "://" in warehouse else str(Path(warehouse).absolute()),
        tuple(table.absolute() for table in tables),
        tuple(policy.absolute() for policy in policies),
    )


def serve(warehouse: str, tables: Sequence[Path], policies: Sequence[Path], port: int) -> None:
    """Serve the workspace until interrupted; the server takes this process's place."""
    distribution("dagster")
    workspace = workspace_of(warehouse, tables, policies)
    is_named = bool(tables or policies)
    own = not is_named and _is_project(Path.cwd())
    dagster_url = f"http://{HOST}:{port}"
    reports_url = start_server(workspace.home, port + 1, f"{dagster_url}/assets/warehouse_report")
    sys.stdout.write(
        f"Dagster: {dagster_url}   report: {reports_url}   warehouse: {workspace.warehouse}   "
        "stop: Ctrl-C\n"
    )
    if not own and not is_named:
        sys.stdout.write(_FIRST_STEPS)
    sys.stdout.flush()
    os.environ.update({**workspace.environment, REPORTS_URL_VARIABLE: reports_url})
    heed_interrupts()
    # Each tick of each sensor is told otherwise; the pages show them.
    command = [*dagster_dev_command(None if own else LOCATION, port), "--log-level", "warning"]
    os.execv(command[0], command)  # noqa: S606  # no shell is wanted


_FIRST_STEPS = """\
Nothing is served yet. Make a project with an example table:
  lakewright init
or look at the tables of a warehouse, and serve them:
  lakewright adopt URI --policy policy.yaml
  lakewright --warehouse URI up --policy policy.yaml
"""


def _is_project(folder: Path) -> bool:
    """Whether the folder says itself what Dagster serves."""
    project = folder / "pyproject.toml"
    return (folder / "workspace.yaml").exists() or (
        project.exists() and b"[tool.dagster]" in project.read_bytes()
    )


def dagster_dev_command(module: str | None, port: int, workspace: Path | None = None) -> list[str]:
    """The command that serves a module or a workspace file on loopback, or what the folder says."""
    what = [] if module is None else ["--module-name", module]
    what += [] if workspace is None else ["--workspace", str(workspace)]
    return [sys.executable, "-m", "dagster", "dev", *what, "--host", HOST, "--port", str(port)]


def heed_interrupts() -> None:
    """Undo a shell's `&`, which has commands ignore interrupts.

    Dagster would inherit that, and it handles a termination signal only if it handles interrupts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
