"""The job `evolve_schema`: a table becomes as declared, and ingestion goes on."""

from __future__ import annotations
