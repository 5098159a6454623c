"""`python -m lakewright.cli`: the command line."""

import sys

from lakewright.cli import main

sys.exit(main())
