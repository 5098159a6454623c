"""`lakewright analyze`: statistics of a table's rows, computed and published."""

from __future__ import annotations

import click

from lakewright.cli.grammar.call import Call, check_one_of
from lakewright.cli.grammar.command import HowOption, command
from lakewright.cli.grammar.options import columns_option
from lakewright.cli.output.answers import Answer
from lakewright.cli.upkeep.verbs import run_verb
from lakewright.platform.declare.upkeep_policies import EngineChoice
from lakewright.platform.upkeep.analyze import ANALYZE, AnalyzeOptions


@command(
    "analyze",
    plans=True,
    examples="""
lakewright analyze nyc.flights --columns carrier,distance
lakewright analyze nyc.flights --no-columns --format json
""",
)
@columns_option
@click.option("--no-columns", is_flag=True, help="Only count the rows, describe no column.")
@click.option(
    "--engine",
    cls=HowOption,
    type=click.Choice([each.value for each in EngineChoice]),
    default=EngineChoice.LOCAL.value,
    show_default=True,
    help="Where rows are read: spark, local, or auto, by size.",
)
def analyze(
    call: Call, *, columns: list[str] | None, no_columns: bool, engine: str
) -> Answer | None:
    """Compute statistics of the rows and publish them: counts, bounds, distinct values."""
    check_one_of(columns=columns, no_columns=no_columns)
    described = () if no_columns else None if columns is None else tuple(columns)
    options = AnalyzeOptions(columns=described, engine=EngineChoice(engine))
    return run_verb(ANALYZE, call, call.table(), options)
