"""SQL statements over the tables of a warehouse; each is a thin face of a verb."""

from lakewright.storage.session.results import StatementResult
from lakewright.storage.session.session import Session

__all__ = ["Session", "StatementResult"]
