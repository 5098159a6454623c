"""Takes the screenshot of a declared table's page in Dagster, for the README.

    python tools/screenshots.py

A new project is made in a temporary folder, its table is written and looked at by the headless
Chromium of this machine. `CHROMIUM` names another one.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time  # noqa: TID251  # a server of another process is waited for
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

from lakewright.project.new import make_project
from lakewright.project.serve import workspace_of

IMAGE = Path(__file__).resolve().parent.parent / "docs" / "images" / "asset.png"
_PAGE = "assets/shop/orders?view=overview"
_MOST_BYTES = 150_000


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of Dagster's web server with the project of a folder, whose table is written."""
    os.chdir(folder)
    workspace = workspace_of("warehouse", [Path("tables")], [Path("policy.yaml")])
    os.environ.update(workspace.environment)
    definitions = ["-m", "lakewright.definitions"]
    dagster = [sys.executable, "-m", "dagster"]
    written = ["asset", "materialize", *definitions, "--select", "shop/orders"]
    for _ in range(2):
        subprocess.run([*dagster, *written], check=True, capture_output=True)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    place = ["--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen([sys.executable, "-m", "dagster_webserver", *definitions, *place])
    try:
        for _ in range(240):
            with suppress(OSError), urlopen(f"{address}/server_info") as answer:
                if answer.status == 200:
                    break
            time.sleep(0.5)
        yield address
    finally:
        server.terminate()
        server.wait()


def take(address: str, image: Path) -> None:
    """Save what the browser shows of the table."""
    command = [
        os.environ.get("CHROMIUM", "chromium"),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--window-size=1280,860",
        "--virtual-time-budget=30000",
        f"--screenshot={image}",
        f"{address}/{_PAGE}",
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=300)


def main() -> int:
    """Make a project, serve it, and save the picture."""
    with tempfile.TemporaryDirectory() as folder:
        list(make_project(Path(folder)))
        with served(Path(folder)) as address:
            take(address, IMAGE)
    if IMAGE.stat().st_size > _MOST_BYTES:
        sys.stderr.write(f"{IMAGE.name} has {IMAGE.stat().st_size:,} bytes\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
