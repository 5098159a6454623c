"""SQL statements over the tables of a warehouse; each is a thin face of a verb.

New statement: a `run_*.py`, a case in `session.py`, a line in `docs/reference/sql.md`; on external
tables `run_external.py`, on tables without an end `run_stream.py`. New procedure: `run_call.py`.
"""

from lakewright.session.results import StatementResult
from lakewright.session.session import Session

__all__ = ["Session", "StatementResult"]
