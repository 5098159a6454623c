"""Java Paimon in one JVM; the timed work is in `JavaClient.java` beside this file."""

# mypy: disable-error-code="import-untyped"

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from benchmarks.contestants.serving import Outcome, Request, Work, nothing_to_check, serve

# From Spark: the Hadoop client that Paimon needs, and a compiler, so that a Java runtime is enough.
_JARS = (
    "hadoop-client-api-*.jar",
    "hadoop-client-runtime-*.jar",
    "commons-logging-*.jar",
    "jcl-over-slf4j-*.jar",
    "slf4j-api-*.jar",
    "janino-*.jar",
    "commons-compiler-*.jar",
)
_JVM_OPTIONS = [
    "-Xmx8g",
    "-Duser.timezone=UTC",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
]
_THREADS = 2


class JavaPaimon:
    """The operations of Java Paimon."""

    def __init__(self, gateway: JavaGateway, scratch: str) -> None:
        self._paimon = gateway.jvm.org.apache.paimon
        compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setSourceVersion(8)
        compiler.setTargetVersion(8)
        compiler.cook(Path(__file__).with_name("JavaClient.java").read_text(encoding="utf-8"))
        compiled = compiler.getClassLoader().loadClass("bench.JavaClient")
        constructor = compiled.getConstructors()[0]
        arguments = gateway.new_array(gateway.jvm.java.lang.Object, 2)
        arguments[0], arguments[1] = scratch, _THREADS
        self._client = constructor.newInstance(arguments)

    def upsert(self, request: Request) -> Work:
        table = self._table(request, request["table"])
        rows = self._client.load(self._table(request, request["source"]), table)

        def work() -> Callable[[], Outcome]:
            self._client.upsert(table, rows)
            return nothing_to_check

        return work

    def read(self, request: Request) -> Work:
        table = self._table(request, request["table"])
        column = request["columns"].index(request["checksum"])

        def work() -> Callable[[], Outcome]:
            found = self._client.read(table, column)
            return lambda: (int(found[0]), float(found[1]))

        return work

    def compact(self, request: Request) -> Work:
        table = self._table(request, request["table"])

        def work() -> Callable[[], Outcome]:
            self._client.compact(table)
            return nothing_to_check

        return work

    def _table(self, request: Request, name: str) -> Any:
        options = {"warehouse": request["warehouse"], "cache-enabled": "false"}
        context = self._paimon.catalog.CatalogContext.create(self._paimon.options.Options(options))
        catalog = self._paimon.catalog.CatalogFactory.createCatalog(context)
        return catalog.getTable(self._paimon.catalog.Identifier.fromString(name))


def start_gateway(spark_jars: Path) -> JavaGateway:
    """Start a JVM with Paimon and its dependencies."""
    package = find_spec("pypaimon")
    assert package is not None
    assert package.submodule_search_locations
    jars = sorted(Path(package.submodule_search_locations[0]).glob("jars/*.jar"))
    for pattern in _JARS:
        jars += sorted(spark_jars.glob(pattern))
    port, token = launch_gateway(
        classpath=":".join(map(str, jars)),
        javaopts=_JVM_OPTIONS,
        die_on_exit=True,
        redirect_stdout=sys.stderr,
        redirect_stderr=sys.stderr,
        enable_auth=True,
    )
    return JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True)
    )


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spark_jars", type=Path)
    spark_jars = parser.parse_args().spark_jars
    with tempfile.TemporaryDirectory() as scratch:
        client = JavaPaimon(start_gateway(spark_jars), scratch)
        serve({"upsert": client.upsert, "read": client.read, "compact": client.compact})


if __name__ == "__main__":
    main()
