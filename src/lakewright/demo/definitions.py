"""What `workspace.yaml` of a checkout serves: the tables of the demo, unless others are named."""

import os

from lakewright.definitions import defs
from lakewright.demo import DEMO_TABLES
from lakewright.platform.documents.variables import POLICY_VARIABLE, TABLES_VARIABLE

__all__ = ["defs"]

if not os.environ.get(TABLES_VARIABLE) and not os.environ.get(POLICY_VARIABLE):
    os.environ[TABLES_VARIABLE] = str(DEMO_TABLES)
