"""`lakewright explain`: the policy of a table, with the line that decided each setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer, Record
from lakewright.cli.output.tables import Block, Heading, TextColumn, TextTable
from lakewright.cli.output.text import Cell
from lakewright.cli.upkeep.gate import workspace_of
from lakewright.cli.upkeep.policies import (
    known_tables,
    plain_budget,
    plain_setting,
    policies_of,
    policy_options,
    spent_today,
)
from lakewright.platform.decide.kept_tables import policy_to_keep
from lakewright.platform.documents.variables import POLICY_VARIABLE
from lakewright.platform.policies.check_files import unused_policies
from lakewright.platform.policies.policies import LIMITS, DayBudget, Given, ResolvedPolicy, Setting
from lakewright.platform.policies.setting_text import setting_text
from lakewright.platform.upkeep.measures import Cost
from lakewright.platform.upkeep.words import duration_text, size_text
from lakewright.storage.errors import NotFoundError


@command(
    "explain",
    notes="""
Each key is inherited by itself: a line for the table wins over one for a pattern, that over one for
the database, that over one for the warehouse; `maintenance:` of the table's declaration wins over
all of them. The column "instead of" has the lines that lost, the strongest first.
A budget is not inherited: each one limits the sum over all tables that its section covers.
Durations are in milliseconds and sizes in bytes in JSON and CSV.
""",
    examples="""
lakewright explain sales.orders --policy policies
lakewright explain sales.orders --policy policy.yaml --tables tables --format json
""",
)
@policy_options()
def explain(call: Call, *, policy: tuple[Path, ...], tables: tuple[Path, ...]) -> Answer:
    """Print the upkeep policy of a table, and which line decided each setting."""
    from lakewright.storage.catalog_arguments import split_name

    split_name(call.table_name)
    workspace = workspace_of(tables, ())
    policies = policies_of(policy, workspace)
    resolved = policies.of(call.table_name)
    settings = (*resolved.settings, *policies.warehouse_settings)
    notes = []
    exists: bool | None = None
    budgets = policies.budgets_of(call.table_name)
    spent: Mapping[DayBudget, Cost] | None = None
    try:
        there = known_tables(call)
    except NotFoundError as error:
        notes.append(f"{error.message}; the policy follows from the name alone")
    else:
        exists = call.table_name in there
        spent = spent_today(call.catalog(), policies) if budgets else None
        if not exists:
            notes.append(
                f"{call.table_name} does not exist in {call.warehouse}; its policy follows from "
                "its name alone"
            )
        known = {*there, *(declaration.table for declaration in workspace.declarations)}
        notes += map(str, unused_policies(policies, known))
    declared, keys = policies.declared_keys.get(call.table_name), resolved.policy.respec.keys
    if declared is not None and keys is not None and declared != keys:
        notes.append(
            f"the declaration of {call.table_name} says partition_keys ({', '.join(declared)}), "
            "and decides over respec.keys"
        )
    notes += _otherwise_kept(resolved)
    if not policy:
        notes.append(f"no policy files; name them with --policy or ${POLICY_VARIABLE}")
    wrong = [str(problem) for problem in resolved.problems]

    def text() -> Sequence[Block]:
        blocks: list[Block] = [TextTable(_COLUMNS, [_cells(setting) for setting in settings])]
        if budgets:
            cells = [row for budget in budgets for row in _budget_cells(budget, spent)]
            blocks += ["", Heading("Budgets of a day, all of which hold")]
            blocks += [TextTable(_BUDGET_COLUMNS, cells)]
        if wrong or notes:
            blocks.append("")
        blocks += [f"wrong: {each}" for each in wrong]
        return [*blocks, *(f"note: {note}" for note in notes)]

    def value() -> Record:
        return {
            "table": call.table_name,
            "exists": exists,
            "settings": [plain_setting(setting) for setting in settings],
            "budgets": [plain_budget(budget, spent) for budget in budgets],
            "problems": wrong,
            "notes": notes,
        }

    return Answer(
        text=text,
        value=value,
        records=lambda: [plain_setting(setting) for setting in settings],
        code=2 if wrong else 0,
    )


def _otherwise_kept(resolved: ResolvedPolicy) -> Iterator[str]:
    """The settings that do not hold as written, since Lakewright itself writes the table."""
    kept = policy_to_keep(resolved.table, resolved.policy)
    for setting in resolved.settings:
        held = reduce(getattr, setting.key, kept)
        if held != reduce(getattr, setting.key, resolved.policy):
            yield (
                f"{resolved.table} is written by Lakewright itself, so {setting.name} is "
                f"{setting_text(setting.key, held)} and not "
                f"{setting_text(setting.key, setting.value)}"
            )


_COLUMNS = [
    TextColumn("setting"),
    TextColumn("value"),
    TextColumn("decided by"),
    TextColumn("instead of"),
]


_BUDGET_COLUMNS = [
    TextColumn("budget of"),
    TextColumn("limit"),
    TextColumn("spent today"),
    TextColumn("decided by"),
]


def _budget_cells(
    budget: DayBudget, spent: Mapping[DayBudget, Cost] | None
) -> Iterator[list[Cell]]:
    cost = None if spent is None else spent.get(budget, Cost())
    if budget.bytes is not None:
        limit = setting_text(LIMITS[0], budget.bytes)
        used = None if cost is None else size_text(cost.bytes)
        yield [budget.section, limit, used or "", budget.bytes_place]
    if budget.time is not None:
        limit = setting_text(LIMITS[1], budget.time)
        used = None if cost is None else duration_text(cost.milliseconds)
        yield [budget.section, limit, used or "", budget.time_place]


def _cells(setting: Setting) -> list[Cell]:
    decided = "default" if setting.decided is None else _line(setting.decided)
    lost = [f"{setting_text(setting.key, each.value)} {_line(each)}" for each in setting.lost]
    return [setting.name, setting_text(setting.key, setting.value), decided, ", ".join(lost)]


def _line(given: Given) -> str:
    return f"{given.place} ({given.level_text})"
