"""Flink's own parser, in a Java process that ends with this one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError


class FlinkParser:
    """Asks whether a statement is one of Flink's SQL."""

    def __init__(self, gateway: JavaGateway) -> None:
        flink, calcite = gateway.jvm.org.apache.flink.sql.parser, gateway.jvm.org.apache.calcite
        self._parser = calcite.sql.parser.SqlParser
        self._config = (
            self._parser.config()
            .withParserFactory(flink.impl.FlinkSqlParserImpl.FACTORY)
            .withConformance(flink.validate.FlinkSqlConformance.DEFAULT)
            .withLex(calcite.config.Lex.JAVA)
        )

    def refusal(self, statement: str) -> str | None:
        """What Flink says against a statement, in one line; None if it is one."""
        try:
            self._parser.create(statement, self._config).parseStmt()
        except Py4JJavaError as error:
            return str(error.java_exception.getMessage()).partition("\n")[0]
        return None


@contextmanager
def flink_parser(jars: Path) -> Iterator[FlinkParser]:
    """The parser of the jars in a folder."""
    (py4j,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    port, token = launch_gateway(
        jarpath=str(py4j), classpath=f"{jars}/*", die_on_exit=True, enable_auth=True
    )
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True)
    )
    try:
        yield FlinkParser(gateway)
    finally:
        gateway.shutdown()
