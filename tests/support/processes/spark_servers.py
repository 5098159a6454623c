"""Spark as servers on this machine, from the jars of the pyspark package."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.stores.servers import free_port, running

ROOT = Path(__file__).resolve().parents[3]
_HOST = "127.0.0.1"


@contextmanager
def standalone_cluster(folder: Path, *, workers: int = 2) -> Iterator[str]:
    """A master and workers of one core each; the master's URL. Workers work below the folder."""
    port, ui = free_port(), free_port()
    master = [
        *_class("org.apache.spark.deploy.master.Master"),
        *("--host", _HOST, "--port", str(port), "--webui-port", str(ui)),
    ]
    with ExitStack() as stack:
        stack.enter_context(running(master, port, **_settings()))
        for number in range(workers):
            own, shown = free_port(), free_port()
            worker = [
                *_class("org.apache.spark.deploy.worker.Worker"),
                *("--host", _HOST, "--port", str(own), "--webui-port", str(shown)),
                *("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker-{number}")),
                f"spark://{_HOST}:{port}",
            ]
            stack.enter_context(running(worker, own, **_settings()))
        yield f"spark://{_HOST}:{port}"


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """A Spark Connect server on a local session of its own; its address."""
    port = free_port()
    command = [
        str(_home() / "bin" / "spark-submit"),
        *("--master", "local[2]", "--conf", "spark.ui.enabled=false"),
        *("--conf", f"spark.connect.grpc.binding.port={port}"),
        *("--conf", f"spark.connect.grpc.binding.address={_HOST}"),
        *("--conf", f"spark.local.dir={folder}"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"),
    ]
    with running(command, port, **_settings()):
        yield f"sc://{_HOST}:{port}"


def _class(name: str) -> list[str]:
    return [str(_home() / "bin" / "spark-class"), name]


def _home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def _settings() -> dict[str, str]:
    """As on the machines of a cluster: Python with the packages of this one, on loopback."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return {
        "SPARK_HOME": str(_home()),
        "SPARK_LOCAL_IP": _HOST,
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": path,
    }
