"""SQL statements over the tables of a warehouse; each is a thin face of a verb."""

from lakewright.session.results import StatementResult
from lakewright.session.session import Session

__all__ = ["Session", "StatementResult"]
