"""The demo: a year of real flights through Dagster and Spark into Paimon tables."""

from lakewright.demo.story import run_demo
from lakewright.demo.workspace import run_up

__all__ = ["run_demo", "run_up"]
